"""Creating, listing, deleting and trying webhooks."""

from collections.abc import Callable
from dataclasses import dataclass

from quipu.errors import BackendUnavailableError, ConflictError, Fault, NotFoundError
from quipu.governance.webhooks import operations as ops
from quipu.governance.webhooks.delivery import Delivery
from quipu.governance.webhooks.model import (
    WEBHOOK_POSITIONS,
    WEBHOOKS,
    CreateWebhookRequest,
    CreateWebhookResponse,
    DeleteWebhookRequest,
    DeleteWebhookResponse,
    ListWebhooksRequest,
    ListWebhooksResponse,
    TestWebhookRequest,
    TestWebhookResponse,
    Webhook,
    WebhookPosition,
    WebhookView,
)
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Redactor
from quipu.model.journal import Draft
from quipu.operation import AnyBinding, Binding, Context, invalid
from quipu.secrets.sealing import Sealing

MOST_WEBHOOKS = 50
_MOST_ATTEMPTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """The addresses of each tenant."""

    ledger: Ledger
    redactor: Redactor
    sealing: Sealing
    delivery: Delivery
    new_id: Callable[[str], str]
    random: Callable[[int], bytes]

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.CREATE_WEBHOOK, self.create),
            Binding(ops.LIST_WEBHOOKS, self.listed),
            Binding(ops.DELETE_WEBHOOK, self.delete),
            Binding(ops.TEST_WEBHOOK, self.test),
        )

    async def create(self, ctx: Context, request: CreateWebhookRequest) -> CreateWebhookResponse:
        """It gets what happens after this; its key is shown this once."""
        if await self.ledger.count(WEBHOOKS, ctx.tenant) >= MOST_WEBHOOKS:
            raise invalid([Fault("/url", "too_large", f"at most {MOST_WEBHOOKS} webhooks")])
        webhook_id, key = self.new_id("whk"), self.random(32).hex()
        webhook = Webhook(
            id=webhook_id,
            url=request.url,
            events=tuple(dict.fromkeys(request.events)),
            agents=tuple(dict.fromkeys(request.agents)),
            with_content=request.with_content,
            created_at=ctx.clock(),
            created_by=ctx.principal.name,
            sealed=await self.sealing.seal(key.encode("ascii"), ctx.tenant, webhook_id),
        )
        commit = Commit(
            tenant=ctx.tenant,
            draft=_draft(ctx, "create_webhook", webhook_id),
            changes=(Keep(WEBHOOKS, webhook, 0),),
        )
        for _ in range(_MOST_ATTEMPTS):
            guard = await self.redactor.guard(ctx.tenant, None)
            guard.clean(request)
            try:
                (done,) = await self.ledger.commit(commit, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason != "secrets_changed":
                    raise
            else:
                place = WebhookPosition(id=webhook_id, position=done.seq)
                return CreateWebhookResponse(webhook=_view(webhook, place), key=key)
        raise ConflictError("The secrets of the tenant keep changing.", reason="secrets_changed")

    async def listed(self, ctx: Context, request: ListWebhooksRequest) -> ListWebhooksResponse:
        found = await self.delivery.webhooks(ctx.tenant)
        return ListWebhooksResponse(webhooks=tuple(_view(webhook, place) for webhook, place in found))

    async def delete(self, ctx: Context, request: DeleteWebhookRequest) -> DeleteWebhookResponse:
        webhook = await self._known(ctx.tenant, request.id)
        draft = _draft(ctx, "delete_webhook", webhook.id)
        await self.ledger.commit(
            Commit(tenant=ctx.tenant, draft=draft, changes=(Drop(WEBHOOKS, (webhook.id,)),))
        )
        await self.ledger.update(ctx.tenant, WEBHOOK_POSITIONS, drop=[(webhook.id,)])
        return DeleteWebhookResponse(id=webhook.id)

    async def test(self, ctx: Context, request: TestWebhookRequest) -> TestWebhookResponse:
        """An event of nothing. What went wrong is said, as far as it reveals nothing of the network here."""
        webhook = await self._known(ctx.tenant, request.id)
        now = ctx.clock()
        answer = await self.delivery.send(
            ctx.tenant, webhook, {"id": f"{webhook.id}:test", "event": "test", "at": now}
        )
        if not answer.is_success:
            raise BackendUnavailableError(
                f"It was answered with status {answer.status}.", reason=f"status_{answer.status}"
            )
        return TestWebhookResponse(id=webhook.id, status=answer.status)

    async def _known(self, tenant: str, webhook_id: str) -> Webhook:
        webhook = await self.ledger.get(WEBHOOKS, tenant, webhook_id)
        if webhook is None:
            raise NotFoundError(
                "There is no such webhook.", reason="webhook", hint="`quipu webhook list` shows them."
            )
        return webhook


def _draft(ctx: Context, op: str, webhook_id: str) -> Draft:
    return Draft(op=op, actor=ctx.principal.name, at=ctx.clock(), detail={"webhook": webhook_id})


def _view(webhook: Webhook, place: WebhookPosition) -> WebhookView:
    return WebhookView(
        id=webhook.id,
        url=webhook.url,
        events=webhook.events,
        agents=webhook.agents,
        with_content=webhook.with_content,
        created_at=webhook.created_at,
        created_by=webhook.created_by,
        position=place.position,
        attempts=place.attempts,
        next_at=place.next_at or None,
        error=place.error,
        dropped=place.dropped,
    )
