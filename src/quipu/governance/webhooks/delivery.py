"""Delivery of events by journal position: signed, in order for each address, tried again until it arrives or is given up.

How far each webhook has got is kept in the ledger, so nothing is lost when a process dies; what had just been sent may
come twice, with the same id.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from quipu.errors import QuipuError
from quipu.governance.model import PROPOSALS, Proposal
from quipu.governance.webhooks import events
from quipu.governance.webhooks.model import WEBHOOK_POSITIONS, WEBHOOKS, Webhook, WebhookPosition
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.reader import Reader
from quipu.memory.views import is_secret
from quipu.model.journal import Entry
from quipu.model.value import JsonObject
from quipu.operation import Clock
from quipu.outbound import Answer, Outbound
from quipu.secrets.sealing import Sealing

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
            "Quipu-Signature": events.signature(key, self.clock() // 1000, text),
        }
        return await self.outbound.send("POST", webhook.url, headers=headers, body=text)

    # -- one webhook --------------------------------------------------------------------------------------------------

    async def _delivered(self, tenant: str, webhook: Webhook, place: WebhookPosition, now: int) -> int:
        """One event after the other, until there is none, one does not arrive, or the turn is over."""
        if not events.is_due(place, now) or not events.is_free(place, now):
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
                if events.is_wanted(webhook, entry):
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
            said = events.body(webhook, tenant, entry, proposal, self.public_url, with_content=with_content)
            answer = await self.send(tenant, webhook, said)
            error = None if answer.is_success else f"status_{answer.status}"
        except QuipuError as refused:
            error = refused.reason or refused.code
        if error is None:
            return events.delivered(place, entry.seq)
        after = events.failed(place, entry.seq, error, self.clock())
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
            if not events.is_due(current, now) or not events.is_free(current, now):
                return None, ()
            taken = replace(current, holder=holder, held_until=now + events.LEASE_MS)
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
