"""The page of registered values: their labels, never the values."""

from typing import Any

from quipu.operation import Context, dispatch
from quipu.page import Done, Fields, Page
from quipu.secrets.operations import ADD_SECRET, LIST_SECRETS, REMOVE_SECRET


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    return {"secrets": (await dispatch(ctx, LIST_SECRETS, {})).secrets[::-1]}


async def _add(ctx: Context, form: Fields) -> Done:
    request = {"label": form.get("label", "").strip(), "value": form.get("value", ""), **form.given("run_id")}
    kept = await dispatch(ctx, ADD_SECRET, request)
    return Done(said=f"Kept out of memory from now on: {kept.label}. The value is not shown again.")


async def _remove(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, REMOVE_SECRET, {"id": form.get("secret_id", "")})
    return Done(said="That value may be remembered again.")


PAGES = (
    Page(
        path="/secrets",
        group="system",
        title="Secrets",
        template="secrets.html",
        load=_load,
        actions={"add": _add, "remove": _remove},
        needs=LIST_SECRETS,
    ),
)
