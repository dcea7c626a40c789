"""Notices of held writes and decisions: signed, in order, tried again until they arrive or are given up.

How far each address has been told is kept beside the journal, so nothing is lost when a process dies; one that had just
been sent may come twice, with the same id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import BackendUnavailableError, ForbiddenError, InvalidError, NotFoundError, QuipuError
from quipu.model.change import AddWebhook, Commit, DropWebhook
from quipu.model.journal import Draft, Entry, Op
from quipu.model.notices import Event, IssuedWebhook, KeptWebhook, Webhook
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import notices, staging
from quipu.rules.texts import checked_keepable
from quipu.service.access import Access
from quipu.service.sealed import Sealing

_PAGE = 500
_MOST_WEBHOOKS, _MOST_AGENTS = 50, 100
#: Nobody else sends a notice while one is being sent.
_LEASE_MS = 60_000
#: So long one is told what is due, before the next round begins for everybody.
_TURN_MS = 10_000


class Notices:
    """Addresses, and what they are told."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access, self._sealing = parts, access, Sealing(parts)

    # -- addresses ----------------------------------------------------------------------------------------------

    async def add(
        self,
        principal: Principal,
        *,
        url: str,
        events: Sequence[Event] = tuple(Event),
        agents: Sequence[str] = ("*",),
        with_content: bool = False,
    ) -> IssuedWebhook:
        """Tell an address from now on. Its key is told this once."""
        self._authorise(principal)
        if not events or not 1 <= len(agents) <= _MOST_AGENTS:
            raise InvalidError.at("/events", "bad_value", "Nothing would be told.")
        for place, agent in enumerate(agents):
            checked_keepable(agent, f"/agents/{place}")
        if len(await self._parts.ledger.webhooks(principal.tenant)) >= _MOST_WEBHOOKS:
            raise InvalidError.at(
                "/url", "too_large", "There are too many webhooks.", accepted=[f"at most {_MOST_WEBHOOKS}"]
            )
        webhook = Webhook(
            tenant=principal.tenant,
            id=self._parts.mint_id("whk"),
            url=notices.checked_url(url),
            events=tuple(dict.fromkeys(events)),
            agents=tuple(agents),
            with_content=with_content,
            created_at=self._parts.clock(),
            created_by=principal.name,
            position=(await self._parts.ledger.head(principal.tenant)).seq,
        )
        key = (self._parts.mint_salt() + self._parts.mint_salt()).hex()
        sealed = await self._sealing.seal(key.encode("ascii"), webhook)
        await self._journaled(principal, Op.ADD_WEBHOOK, webhook, AddWebhook(webhook=webhook, sealed=sealed))
        return IssuedWebhook(webhook, key)

    async def list(self, principal: Principal) -> tuple[Webhook, ...]:
        """Where notices go, and how they are getting on. Keys are not told again."""
        self._authorise(principal)
        return tuple(kept.webhook for kept in await self._parts.ledger.webhooks(principal.tenant))

    async def remove(self, principal: Principal, webhook_id: str) -> None:
        """Tell it nothing more."""
        webhook = (await self._kept(principal, webhook_id)).webhook
        await self._journaled(principal, Op.DROP_WEBHOOK, webhook, DropWebhook(webhook_id=webhook.id))

    async def ping(self, principal: Principal, webhook_id: str) -> None:
        """Send a notice of nothing, to see that it arrives."""
        kept = await self._kept(principal, webhook_id)
        now = self._parts.clock()
        await self._sent(kept, {"id": f"{webhook_id}:ping", "event": "ping", "at": now})

    def _authorise(self, principal: Principal) -> None:
        """A webhook hears of every agent and user there is."""
        self._access.authorise(principal, Permission.ADMIN)
        if "*" not in principal.agents or principal.user_id is not None:
            raise ForbiddenError("This needs every agent.", reason="agent_not_allowed")

    async def _kept(self, principal: Principal, webhook_id: str) -> KeptWebhook:
        self._authorise(principal)
        for kept in await self._parts.ledger.webhooks(principal.tenant):
            if kept.webhook.id == webhook_id:
                return kept
        raise NotFoundError("There is no such webhook.", reason="webhook")

    async def _journaled(
        self, principal: Principal, op: Op, webhook: Webhook, change: AddWebhook | DropWebhook
    ) -> None:
        draft = Draft(op=op, actor=principal.name, at=self._parts.clock(), detail={"webhook": webhook.id})
        await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft, changes=(change,)))

    # -- telling ------------------------------------------------------------------------------------------------

    async def deliver(self, tenant: str) -> int:
        """Send what is due to everybody, side by side: who is slow keeps no other waiting. Returns how many arrived."""
        if self._parts.courier is None:
            return 0
        telling = map(self._told, await self._parts.ledger.webhooks(tenant))
        arrived = 0
        for outcome in await asyncio.gather(*telling, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            arrived += outcome
        return arrived

    async def _told(self, kept: KeptWebhook) -> int:
        """Send one after the other, until there are no more, one does not arrive, or it is the others' turn."""
        arrived = 0
        end = self._parts.clock() + _TURN_MS
        while notices.is_due(kept.webhook, now := self._parts.clock()) and now <= end:
            position, entry = await self._next(kept.webhook)
            if entry is None:
                if position > kept.webhook.position:
                    await self._parts.ledger.move_webhook(
                        kept.webhook, replace(kept.webhook, position=position)
                    )
                break
            claimed = replace(kept.webhook, next_at=self._parts.clock() + _LEASE_MS)
            if not await self._parts.ledger.move_webhook(kept.webhook, claimed):
                break  # another process is at it
            try:
                outcome = await self._tried(replace(kept, webhook=claimed), entry)
            except BaseException:
                # Broken off, as when a server stops: nobody waits until the claim has run out.
                await self._parts.ledger.move_webhook(claimed, kept.webhook)
                raise
            if not await self._parts.ledger.move_webhook(claimed, outcome):
                break
            if outcome.error is not None:
                break
            arrived += 1
            kept = replace(kept, webhook=outcome)
        return arrived

    async def _next(self, webhook: Webhook) -> tuple[int, Entry | None]:
        """The next entry it wants to hear of, and how far was looked."""
        position = webhook.position
        while page := await self._parts.ledger.entries(webhook.tenant, position, _PAGE):
            for entry in page:
                if notices.is_wanted(webhook, entry):
                    return entry.seq, entry
            position = page[-1].seq
        return position, None

    async def _tried(self, kept: KeptWebhook, entry: Entry) -> Webhook:
        """The webhook as it stands after one try."""
        webhook = kept.webhook
        proposal_id = entry.detail.get("proposal")
        kept_one = await self._parts.ledger.proposal(webhook.tenant, str(proposal_id))
        proposal = None if kept_one is None else staging.shown(kept_one)
        try:
            await self._sent(kept, notices.body(webhook, entry, proposal, self._parts.public_url))
        except QuipuError as error:
            attempts = webhook.attempts + 1
            said = error.reason or error.code
            if attempts >= notices.MOST_ATTEMPTS:
                return replace(
                    webhook,
                    position=entry.seq,
                    attempts=0,
                    next_at=0,
                    error=said,
                    dropped=webhook.dropped + 1,
                )
            next_at = self._parts.clock() + notices.wait_ms(attempts)
            return replace(webhook, attempts=attempts, next_at=next_at, error=said)
        return replace(webhook, position=entry.seq, attempts=0, next_at=0, error=None)

    async def _sent(self, kept: KeptWebhook, body: dict[str, Json]) -> None:
        if self._parts.courier is None:
            raise BackendUnavailableError("Nobody carries notices here.", reason="no_courier")
        key = self._sealing.unseal(kept.sealed, kept.webhook)
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        headers = {
            "Content-Type": "application/json",
            "Quipu-Event": str(body["event"]),
            "Quipu-Notice": str(body["id"]),
            "Quipu-Signature": notices.signature(key, self._parts.clock() // 1000, text),
        }
        await self._parts.courier.send(kept.webhook.url, text, headers)
