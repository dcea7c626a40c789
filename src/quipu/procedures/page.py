"""What the page of a memory shows of a procedure: where it stands, and a button for each trigger."""

from collections.abc import Mapping
from typing import Any

from quipu.operation import Context, dispatch
from quipu.page import Action, Done, Fields, may_use
from quipu.procedures.model import StepResponse
from quipu.procedures.operations import GET_PROCEDURE, STEP


async def _step(ctx: Context, form: Fields) -> Done:
    once = form.text("once")
    request: dict[str, Any] = {
        "id": form["id"],
        "trigger": form.get("trigger", ""),
        "facts": dict.fromkeys(form.texts("fact"), True),
        "if_version": form.number("if_version"),
        "idempotency_key": None if once is None else f"page-{once}"[:128],
    }
    answer: StepResponse = await dispatch(ctx, STEP, request)
    said = (
        "It waits for approval; until then nothing changes." if answer.is_held else f"Now {answer.current}."
    )
    return Done(said=said)


class ProcedurePart:
    """A part of the page of a memory."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        """`standing` says where the procedure stands, `procedure` what it is."""
        return {
            "standing": await dispatch(ctx, STEP, {"id": query["id"]}),
            "procedure": await dispatch(ctx, GET_PROCEDURE, {"id": query["id"], "limit": 1}),
            "can_step": may_use(ctx.principal, STEP),
        }

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"step": _step}
