"""What the page of access shows of webhooks, and does to them."""

from collections.abc import Mapping
from typing import Any

from quipu.governance.webhooks import operations as ops
from quipu.operation import Context, dispatch
from quipu.page import Action, Done, Fields, may_use

_EVENTS: Mapping[str, str] = {
    "proposal.held": "a write is held",
    "proposal.approved": "it is approved",
    "proposal.rejected": "it is rejected",
}


async def _create(ctx: Context, form: Fields) -> Done:
    request: dict[str, Any] = {
        "url": form.get("url", "").strip(),
        "events": form.texts("events"),
        "with_content": form.is_ticked("with_content"),
    }
    if form.words("hook_agents"):
        request["agents"] = form.words("hook_agents")
    made = await dispatch(ctx, ops.CREATE_WEBHOOK, request)
    return Done(once={"webhook": made.webhook, "key": made.key})


async def _delete(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, ops.DELETE_WEBHOOK, {"id": form.get("webhook_id", "")})
    return Done(said="That address is told nothing more.")


async def _test(ctx: Context, form: Fields) -> Done:
    tested = await dispatch(ctx, ops.TEST_WEBHOOK, {"id": form.get("webhook_id", "")})
    return Done(said=f"It arrived, and was answered with {tested.status}.")


class WebhookPart:
    """A part of the page of access."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        """`webhooks` is None where the visitor may not see them."""
        webhooks = None
        if may_use(ctx.principal, ops.LIST_WEBHOOKS):
            webhooks = (await dispatch(ctx, ops.LIST_WEBHOOKS, {})).webhooks
        return {"webhooks": webhooks, "webhook_events": _EVENTS}

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"add_webhook": _create, "delete_webhook": _delete, "test_webhook": _test}
