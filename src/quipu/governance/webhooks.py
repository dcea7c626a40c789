"""Creating, listing, deleting and trying webhooks."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import cast

from quipu.errors import BackendUnavailableError, ConflictError, Fault, NotFoundError, QuipuError
from quipu.governance import operations as ops
from quipu.governance.model import (
    EVENTS,
    PROPOSALS,
    WEBHOOK_POSITIONS,
    WEBHOOKS,
    CreateWebhookRequest,
    CreateWebhookResponse,
    DeleteWebhookRequest,
    DeleteWebhookResponse,
    ListWebhooksRequest,
    ListWebhooksResponse,
    Proposal,
    TestWebhookRequest,
    TestWebhookResponse,
    Webhook,
    WebhookPosition,
    WebhookView,
)
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Redactor
from quipu.memory.views import is_secret
from quipu.model.journal import Draft, Entry
from quipu.model.value import Json, JsonObject
from quipu.operation import AnyBinding, Binding, Clock, Context, invalid
from quipu.outbound import Answer, Outbound, address_of
from quipu.secrets.sealing import Sealing

#: Ten seconds, then twice as long each time, up to an hour; after so many tries an event is given up.
_FIRST_MS, _LONGEST_MS = 10_000, 3_600_000
MOST_ATTEMPTS = 16
#: So long nobody else sends to a webhook that somebody is sending to.
LEASE_MS = 60_000


def is_wanted(webhook: Webhook, entry: Entry) -> bool:
    """Whether it asked for the events of this entry."""
    if EVENTS.get(entry.op) not in webhook.events:
        return False
    return "*" in webhook.agents or (
        entry.agent is not None and any(fnmatchcase(entry.agent, pattern) for pattern in webhook.agents)
    )


def body(
    webhook: Webhook,
    tenant: str,
    entry: Entry,
    proposal: Proposal | None,
    public_url: str | None,
    *,
    with_content: bool,
) -> JsonObject:
    """What is sent. No word of a memory is in it, unless it is `with_content`."""
    proposal_id = str(entry.detail.get("proposal", ""))
    said: dict[str, Json] = {
        "id": f"{webhook.id}:{entry.seq}",
        "event": EVENTS[entry.op],
        "at": entry.at,
        "seq": entry.seq,
        "tenant": tenant,
        "agent_id": entry.agent,
        "proposal_id": proposal_id,
        "review_url": None if public_url is None else f"{public_url.rstrip('/')}/review/{proposal_id}",
    }
    if proposal is not None:
        said |= {
            "operation": proposal.operation,
            "writer": proposal.writer,
            "held_by": list(proposal.held_by),
            "status": proposal.status,
            "lapses_at": proposal.lapses_at,
        }
        if with_content and proposal.request:
            said["request"] = {name: value for name, value in proposal.request.items() if value is not None}
    return said


def signature(key: bytes, at_s: int, text: bytes) -> str:
    """The value of the header `Quipu-Signature`: a moment, and a keyed hash of the moment and the body."""
    digest = hmac.new(key, f"{at_s}.".encode() + text, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def wait_ms(attempts: int) -> int:
    """How long to wait after so many tries."""
    return min(_LONGEST_MS, _FIRST_MS << min(attempts - 1, 20))


def is_due(place: WebhookPosition, now: int) -> bool:
    """Whether its time has come. Nobody waits longer than the longest wait: a clock was wrong that said so."""
    return not 0 < place.next_at - now <= _LONGEST_MS


def is_free(place: WebhookPosition, now: int) -> bool:
    """Whether nobody is sending to it now; who died while sending holds it no longer than the lease."""
    return place.holder is None or not 0 < place.held_until - now <= LEASE_MS


def delivered(place: WebhookPosition, seq: int) -> WebhookPosition:
    """After an event has arrived."""
    return replace(place, position=seq, attempts=0, next_at=0, error=None)


def failed(place: WebhookPosition, seq: int, error: str, now: int) -> WebhookPosition:
    """After an event has not arrived: it is tried again, or given up so that the next one has its turn."""
    attempts = place.attempts + 1
    if attempts >= MOST_ATTEMPTS:
        return replace(place, position=seq, attempts=0, next_at=0, error=error, dropped=place.dropped + 1)
    return replace(place, attempts=attempts, next_at=now + wait_ms(attempts), error=error)


_log = logging.getLogger("quipu.webhooks")
_PAGE = 500
_MOST = 1_000
#: So long one webhook is sent what is due; the rest has its turn in the next round.
_TURN_MS = 10_000
#: Entries that nobody wanted are looked through again after a start, at most so many.
_FAR = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Sends what is due. Any number of servers may run it side by side."""

    ledger: Ledger
    sealing: Sealing
    outbound: Outbound
    clock: Clock
    new_id: Callable[[str], str]
    #: Tenant and name → whether whoever has this name may still see every memory there.
    may_see_all: Callable[[str, str], Awaitable[bool]]
    public_url: str | None = None
    #: So long a round waits for all; who is slower is not waited for.
    patience_s: float = 2.0
    #: Tenant and webhook → what is under way.
    _deliveries: dict[tuple[str, str], asyncio.Task[int]] = field(
        default_factory=dict[tuple[str, str], "asyncio.Task[int]"], init=False
    )
    #: Tenant and webhook → how far was looked without finding anything to send.
    _looked: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int], init=False)

    async def deliver_due(self, now: int) -> int:
        """Send every webhook of every tenant what is due, side by side. Returns how many events arrived.

        A background job calls it every few seconds. A slow one delays no other: whoever takes longer than a moment goes on
        by itself, and the others have their next turn meanwhile.
        """
        for tenant in await self._tenants():
            for webhook, place in await self.webhooks(tenant):
                if (tenant, webhook.id) not in self._deliveries:
                    delivery = self._delivered(tenant, webhook, place, now)
                    self._deliveries[tenant, webhook.id] = asyncio.create_task(delivery)
        if not self._deliveries:
            return 0
        try:
            done, _ = await asyncio.wait(self._deliveries.values(), timeout=self.patience_s)
        except asyncio.CancelledError:
            await self.close()
            raise
        ended = [key for key, task in self._deliveries.items() if task in done]
        return sum([self._deliveries.pop(key).result() for key in ended])

    async def close(self) -> None:
        """Break off what is under way; what was being sent is sent again by the next server."""
        running = list(self._deliveries.values())
        self._deliveries.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def webhooks(self, tenant: str) -> Sequence[tuple[Webhook, WebhookPosition]]:
        """The webhooks of a tenant, and how far each has got: at first, up to its own creation."""

        def work(reader: Reader) -> list[tuple[Webhook, WebhookPosition]]:
            rows = reader.rows(WEBHOOKS, limit=_MOST)
            places = {row.value.id: row.value for row in reader.rows(WEBHOOK_POSITIONS, limit=_MOST)}
            return [
                (row.value, places.get(row.value.id) or WebhookPosition(id=row.value.id, position=row.seq))
                for row in rows
            ]

        return await self.ledger.read(tenant, work)

    async def send(self, tenant: str, webhook: Webhook, said: JsonObject) -> Answer:
        """One signed request. Nothing of the answer is read."""
        key = self.sealing.unseal(webhook.sealed, tenant, webhook.id)
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {
            "Content-Type": "application/json",
            "Quipu-Event": str(said["event"]),
            "Quipu-Delivery": str(said["id"]),
            "Quipu-Signature": signature(key, self.clock() // 1000, text),
        }
        return await self.outbound.send("POST", webhook.url, headers=headers, body=text)

    # -- one webhook --------------------------------------------------------------------------------------------------

    async def _delivered(self, tenant: str, webhook: Webhook, place: WebhookPosition, now: int) -> int:
        """One event after the other, until there is none, one does not arrive, or the turn is over."""
        if not is_due(place, now) or not is_free(place, now):
            return 0
        looked, entry = await self._next(tenant, webhook, place.position)
        if entry is None and looked - place.position < _FAR:
            return 0
        claimed = await self._claimed(tenant, place, now)
        if claimed is None:
            return 0
        place, arrived, end = claimed, 0, now + _TURN_MS
        try:
            while self.clock() <= end:
                looked, entry = await self._next(tenant, webhook, place.position)
                if entry is None:
                    place = replace(place, position=max(place.position, looked))
                    break
                place = await self._tried(tenant, webhook, place, entry)
                if not await self._kept(tenant, place) or place.error is not None:
                    break
                arrived += 1
        finally:
            # Also when it is broken off, as when a server stops: nobody waits until the claim has run out.
            await self._kept(tenant, replace(place, holder=None, held_until=0), holder=place.holder)
        return arrived

    async def _next(self, tenant: str, webhook: Webhook, position: int) -> tuple[int, Entry | None]:
        """The next entry that it wants, and how far was looked."""
        key = (tenant, webhook.id)
        position = max(position, self._looked.get(key, 0))
        while page := await self.ledger.entries(tenant, JournalQuery(after=position, limit=_PAGE)):
            for entry in page:
                if is_wanted(webhook, entry):
                    return entry.seq - 1, entry
                self._looked[key] = position = entry.seq
        return position, None

    async def _tried(
        self, tenant: str, webhook: Webhook, place: WebhookPosition, entry: Entry
    ) -> WebhookPosition:
        """The position after one try."""
        try:
            proposal = await self.ledger.get(PROPOSALS, tenant, str(entry.detail.get("proposal")))
            with_content = await self._shows_content(tenant, webhook, proposal)
            said = body(webhook, tenant, entry, proposal, self.public_url, with_content=with_content)
            answer = await self.send(tenant, webhook, said)
            error = None if answer.is_success else f"status_{answer.status}"
        except QuipuError as refused:
            error = refused.reason or refused.code
        if error is None:
            return delivered(place, entry.seq)
        after = failed(place, entry.seq, error, self.clock())
        if after.dropped > place.dropped:
            _log.warning("webhook %s: event %s was given up (%s)", webhook.id, entry.seq, error)
        return after

    async def _shows_content(self, tenant: str, webhook: Webhook, proposal: Proposal | None) -> bool:
        """Content goes where it was asked for, while who asked may see everything, and never what is secret."""
        if not webhook.with_content or proposal is None or proposal.request is None:
            return False
        if _names_secret(proposal.request):
            return False
        if proposal.record_id is not None:
            found = await self.ledger.newest_versions(tenant, [proposal.record_id])
            if any(is_secret(record) for record in found.values()):
                return False
        return await self.may_see_all(tenant, webhook.created_by)

    # -- positions ----------------------------------------------------------------------------------------------------

    async def _claimed(self, tenant: str, place: WebhookPosition, now: int) -> WebhookPosition | None:
        """The position as it stands, taken for a while; None where somebody else has it, or the webhook is gone."""
        holder = self.new_id("claim")

        def work(reader: Reader) -> tuple[WebhookPosition | None, Sequence[WebhookPosition]]:
            if reader.get(WEBHOOKS, place.id) is None:
                return None, ()
            current = reader.get(WEBHOOK_POSITIONS, place.id) or place
            if not is_due(current, now) or not is_free(current, now):
                return None, ()
            taken = replace(current, holder=holder, held_until=now + LEASE_MS)
            return taken, [taken]

        return await self.ledger.revise(tenant, WEBHOOK_POSITIONS, work)

    async def _kept(self, tenant: str, place: WebhookPosition, *, holder: str | None = None) -> bool:
        """Write a position down; not where somebody else has taken it over meanwhile."""
        wanted = holder or place.holder

        def work(reader: Reader) -> tuple[bool, Sequence[WebhookPosition]]:
            current = reader.get(WEBHOOK_POSITIONS, place.id)
            is_ours = current is not None and current.holder == wanted
            return is_ours, [place] if is_ours else ()

        return await self.ledger.revise(tenant, WEBHOOK_POSITIONS, work)

    async def _tenants(self) -> list[str]:
        """A tenant that is suspended hears nothing until it is let in again; nothing is lost meanwhile."""
        names: list[str] = []
        after = ""
        while page := await self.ledger.tenants(after):
            names.extend(one.tenant for one in page if one.suspended_at is None)
            after = page[-1].tenant
        return names


def _names_secret(value: object) -> bool:
    """Whether a request, or an item of a batch, says that it is secret."""
    match value:
        case {"sensitivity": "secret"}:
            return True
        case Mapping():
            return any(map(_names_secret, cast("Mapping[str, object]", value).values()))
        case list() | tuple():
            return any(map(_names_secret, cast("Sequence[object]", value)))
        case _:
            return False


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
        if address_of(request.url) is None:
            accepted = "https://host/path, without credentials and without a fragment"
            raise invalid([Fault("/url", "bad_value", accepted)])
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
