"""Answering a query under a grant: nothing leaves without projection, receipt, log line and count, in one transaction.

A query is answered by what was last seen of the grant, and in the transaction that discloses it the ledger says whether
anything has changed since; only then is it looked at again. So one commit is all that a query waits for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from quipu.errors import ForbiddenError, NotFoundError, RateLimitedError
from quipu.model.disclosure import LogKind, Question, Standing, Writes
from quipu.model.grants import EMBEDDINGS, EXPORT, QUERY, Asked, KeptGrant, Lent
from quipu.model.observation import Action, Observation
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants, grants_tokens, rates, receipts
from quipu.rules.rates import Bucket
from quipu.service.access import Access
from quipu.service.disclosing_addresses import Addresses
from quipu.service.disclosing_answers import Answered, Answers, Page, digest_of, used
from quipu.service.disclosing_coverage import Place, Ranked, Room, Seen
from quipu.service.disclosing_cursors import Cursors
from quipu.service.disclosing_proofs import Proofs
from quipu.service.disclosing_views import Views
from quipu.service.lending import Lending, lending_parts, owner_of
from quipu.service.lending_trust import Evidence

_KEPT_BUCKETS = 20_000
#: Items of an export that are one transaction.
_BATCH = 100
#: Receipts that a grantee is told of at a time.
_RECEIPTS = 1000
#: Behind every id there is.
_AFTER_ALL = "\U0010ffff"
#: How often a query is made anew because something was changed meanwhile.
_TURNS = 4


class Disclosing:
    """The one gate through which memory leaves under a grant."""

    def __init__(self, parts: Parts, access: Access, lending: Lending) -> None:
        self._parts, self._access, self._lending = parts, access, lending
        self.views = Views(parts)
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()
        self._proofs, self._cursors = Proofs(parts), Cursors(parts)
        self._answers, self._addresses = Answers(parts, self._proofs), Addresses(parts)
        self._evidence = Evidence(parts)

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    def forget(self, tenant: str) -> None:
        """After an erasure nothing of it stays in memory."""
        self.views.forget(tenant)
        self._proofs.forget()

    # -- query --------------------------------------------------------------------------------------------------

    async def query(self, lent: Lent, asked: Asked) -> Answered:
        """The items that a grant shows for a query, best first."""
        seen = Observation(action=Action.RECALL, tenant=lent.tenant, k=asked.max_results)
        with self._parts.observer.operation(seen):
            answer = await self._queried(lent, asked)
            seen.count = len(answer.output["items"])
            return answer

    async def _queried(self, lent: Lent, asked: Asked) -> Answered:
        self._check_rate(lent)
        if QUERY not in lent.scopes:
            raise _not_granted("scope_missing", "The token allows no queries.")
        if asked.include_embeddings and EMBEDDINGS not in lent.scopes:
            raise _not_granted("scope_missing", "The grant shows no embeddings.")
        lent = await self._trusted(lent, asked)
        for turn in range(_TURNS - 1):
            if (answer := await self._answered(lent, asked, as_last_seen=not turn)) is not None:
                return answer
        # An owner who writes without a pause is lent from all the same; what was erased is left out even so.
        return await self._answered(lent, asked, as_last_seen=False, is_last=True)

    async def _answered(self, lent: Lent, asked: Asked, *, as_last_seen: bool, is_last: bool = False) -> Any:
        """The answer; None where something has changed since its items were looked at, unless this is the last turn."""
        covered = await self.views.covered(lent.tenant, lent.grant, as_last_seen=as_last_seen)
        place = None if is_last else covered.place
        room = await self._room(lent, asked.max_results, as_last_seen=as_last_seen)
        found, now = covered.ranked(asked, self._parts.clock()), self._parts.clock()
        if asked.cursor is not None:
            last = self._cursors.opened(lent, asked)
            found = (one for one in found if one.order > last)
        listed = list(islice(room.within(found), asked.max_results + 1))
        page = listed[: asked.max_results]
        is_more = len(listed) > len(page) and bool(page)
        prepared = Page(
            lent=lent,
            asked=asked,
            found=page,
            cursor=self._cursors.after(lent, asked, page[-1]) if is_more else None,
            lines=await self._proofs.missing(lent.tenant, [one.seen for one in page]),
            vectors=await self._vectors([one.seen for one in page]) if asked.include_embeddings else {},
            salts=self._salts(),
            now=now,
        )
        return await self._disclosed(prepared, place, None if is_last else room)

    async def export(self, lent: Lent, asked: Asked) -> AsyncIterator[Answered]:
        """All that a grant shows, from the last id to the first, a batch at a time: each is on receipt before it leaves."""
        self._check_rate(lent)
        if EXPORT not in lent.scopes:
            raise _not_granted("scope_missing", "The grant allows no export.")
        lent = await self._trusted(lent, asked)
        listed: list[Ranked] = []
        place: Place | None = None
        last, turn, is_first = _AFTER_ALL, 0, True
        while is_first or listed:
            covered = await self.views.covered(lent.tenant, lent.grant)
            if covered.place != place:  # something was changed: what is left of the list is made anew
                place = covered.place
                found = (one for one in covered.ranked(asked, self._parts.clock()) if one.seen.item_id < last)
                room = await self._room(lent, len(covered.items), as_last_seen=False)
                listed = list(room.within(sorted(found, key=lambda one: one.seen.item_id, reverse=True)))
            batch = listed[:_BATCH]
            page = Page(
                lent=lent if is_first else replace(lent, once=()),
                asked=asked,
                found=batch,
                cursor=None,
                lines=await self._proofs.missing(lent.tenant, [one.seen for one in batch]),
                vectors={},
                salts=self._salts(),
                now=self._parts.clock(),
                action="memory_export",
            )
            is_last = turn == _TURNS - 1
            answer = await self._disclosed(page, None if is_last else place, needs_room=is_first)
            turn = turn + 1 if answer is None else 0
            if answer is not None:
                yield answer
                listed, is_first = listed[_BATCH:], False
                last = batch[-1].seen.item_id if batch else last

    async def _room(self, lent: Lent, most: int, *, as_last_seen: bool) -> Room:
        """How much a grant still shows that it has not shown yet, as far as so many items may come near its end."""
        ledger, kept = self._parts.ledger.lending, lent.kept
        if not as_last_seen:
            kept = await ledger.grant(lent.tenant, lent.grant.id) or kept
        left = lent.grant.max_items - kept.disclosed
        if left > most:
            return Room(most)
        shown = await ledger.lent_items(lent.tenant, lent.grant.id)
        return Room(most, left, frozenset(record_id for record_id, _ in shown))

    async def _disclosed(
        self, page: Page, place: Place | None, room: Room | None = None, *, needs_room: bool = False
    ) -> Any:
        def decide(standing: Standing) -> Writes:
            kept = _still_good(page.lent, standing, page.now)
            if place is not None and not place.stands(standing):
                return Writes()
            if room is not None and not room.stands(page.lent.grant.max_items - kept.disclosed):
                return Writes()
            if needs_room and kept.disclosed >= page.lent.grant.max_items:
                raise _not_granted("cap_reached", "The grant has shown as many items as it may.")
            writes = Writes(once_until=_until(page.lent, page.now))
            self._answers.answer(page, standing, kept, writes)
            return writes

        record_ids = tuple(one.seen.record.id for one in page.found)
        question = _question(page.lent, page.now, record_ids)
        answer = (await self._parts.ledger.lending.decide(page.lent.tenant, question, decide)).answer
        if answer is not None:
            self._proofs.reached(one.seen for one in page.found)
        return answer

    async def _trusted(self, lent: Lent, asked: Asked) -> Lent:
        """The same, with what the grantee asks for and shows beyond its grant (7.1)."""
        if asked.trust is None:
            return lent
        trust = await self._evidence.weighed(lent.grant, asked.trust)
        return replace(lent, grant=replace(lent.grant, trust=trust))

    def _salts(self) -> tuple[str, str]:
        return receipts.b64(self._parts.mint_salt()), receipts.b64(self._parts.mint_salt())

    def _check_rate(self, lent: Lent) -> None:
        key, per_minute = (lent.tenant, lent.grant.id), self._own.queries_per_minute
        bucket, wait = rates.taken(self._buckets.pop(key, None), per_minute, self._parts.clock())
        self._buckets[key] = bucket
        if len(self._buckets) > _KEPT_BUCKETS:
            self._buckets.popitem(last=False)
        if wait is not None:
            raise RateLimitedError("This grant is asked too fast.", reason="request_rate", retry_after=wait)

    # -- vectors, logs, receipts --------------------------------------------------------------------------------

    async def vector(self, lent: Lent, item_id: str, shown: str | None = None) -> bytes:
        """The vector of an item that this grant has shown: of the text as it was shown (D16).

        `shown` is what the address in an answer says of how it was shown; without it the grant alone says so.
        """
        self._check_rate(lent)
        if EMBEDDINGS not in lent.scopes:
            raise _not_granted("scope_missing", "The grant shows no embeddings.")
        if shown is not None:
            lent = self._addresses.trusted(lent, item_id, shown)
        data = (await self._vectors([await self._shown(lent, item_id)])).get(item_id)
        if data is None:
            raise _absent()
        now, salts, body = self._parts.clock(), self._salts(), {"item_id": item_id}
        output = {"digest": digest_of(data)}

        def decide(standing: Standing) -> Writes:
            after = used(_still_good(lent, standing, now))
            hand = self._own.keyring.hand(None)
            receipt = self._answers.receipt(
                standing, lent, body, output, after, salts, now, "memory_vector_read", hand
            )
            return Writes(grants=[after], receipts=[receipt], once_until=_until(lent, now))

        await self._parts.ledger.lending.decide(lent.tenant, _question(lent, now), decide)
        return data

    async def log(self, lent: Lent, item_id: str) -> list[JsonObject]:
        """The state log of an item that this grant has shown. Below level 3 it does not tell where a memory came from."""
        self._check_rate(lent)
        seen = await self._shown(lent, item_id)
        lines = await self._parts.ledger.lending.log(lent.tenant, seen.record.id, LogKind.STATE)
        if grants.level_of(lent.grant, self._own.limits)[0] >= 3:
            return [line.entry for line in lines]
        names = ("seq", "op", "at", "state")
        return [{**{name: line.entry[name] for name in names}, "hash": line.hash} for line in lines]

    async def own_log(self, principal: Principal, item_id: str) -> dict[str, Any]:
        """Both logs, for the owner."""
        tenant = owner_of(self._access, principal)
        told: dict[str, Any] = {}
        for log in LogKind:
            lines = await self._parts.ledger.lending.log(tenant, item_id, log)
            told[log.value] = [line.entry for line in lines]
        if not any(told.values()):
            raise _absent()
        return told

    async def receipts_of(self, lent: Lent, after: str = "") -> tuple[list[JsonObject], str | None]:
        """Receipts of what was shown to this grantee, under whichever grant, and where to go on if there are more.

        The place is a receipt of its own: one in the owner's chain would tell how much is lent to others.
        """
        self._check_rate(lent)
        page = await self._parts.ledger.lending.receipts_to(
            lent.tenant, lent.grant.grantee, after, _RECEIPTS + 1
        )
        found = page[:_RECEIPTS]
        return [one.body for one in found], found[-1].id if len(page) > len(found) else None

    async def _shown(self, lent: Lent, item_id: str) -> Seen:
        """An item that the grant covers and has shown; anything else does not exist."""
        covered, now = await self.views.covered(lent.tenant, lent.grant), self._parts.clock()
        for seen in covered.items.values():
            if seen.item_id == item_id and not seen.record.expired(now):
                lent_to = await self._parts.ledger.lending.lent_to(lent.tenant, [seen.record.id])
                if (lent.grant.id, seen.record.id) in lent_to:
                    return seen
        raise _absent()

    async def _vectors(self, shown: Sequence[Seen]) -> dict[str, bytes]:
        """Vectors of the texts as they are shown; an item without text has none."""
        embedder = self._parts.embedder
        if embedder is not None:
            # Vectors of another model than the one that the manifest and the item name would be compared with nothing.
            shown = [seen for seen in shown if _is_space(seen, embedder.model, embedder.dimensions)]
        texts = {seen.item_id: seen.projected.item["content"].get("text") for seen in shown}
        known = {name: text for name, text in texts.items() if isinstance(text, str) and text}
        if embedder is None or not known:
            return {}
        return dict(zip(known, await embedder.embed(list(known.values())), strict=True))

    # -- preview ------------------------------------------------------------------------------------------------

    async def preview(
        self, principal: Principal, draft: JsonObject, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Exactly what a grantee would see of each item, before anything is signed away: of the newest, where there are many."""
        owner_of(self._access, principal)
        grant = self._lending.drafted(principal, draft)
        limit = min(limit, grant.max_items)
        if grant.filter.as_of is None:
            return [seen.projected.item for seen in await self.views.newest(principal.tenant, grant, limit)]
        covered = await self.views.covered(principal.tenant, grant)
        found = covered.ranked(Asked(body={}), self._parts.clock())
        return [one.seen.projected.item for one in islice(found, limit)]


def _still_good(lent: Lent, standing: Standing, now: int) -> KeptGrant:
    """The grant row, in the very transaction that discloses."""
    kept = grants_tokens.check_standing(standing.grant, now)
    if standing.is_suspended or kept.hash != lent.grant.hash:
        raise grants_tokens.refused("grant_unknown")
    grants_tokens.check_once(standing.replayed)
    return kept


def _is_space(seen: Seen, model: str, dimensions: int) -> bool:
    told: dict[str, Any] = seen.item.get("embedding", {})
    return (told.get("model"), told.get("dimensions")) == (model, dimensions)


def _question(lent: Lent, now: int, record_ids: tuple[str, ...] = ()) -> Question:
    return Question(grant_id=lent.grant.id, record_ids=record_ids, once=lent.once, now=now)


def _until(lent: Lent, now: int) -> int | None:
    """How long proof and id are remembered, so that they are good once."""
    return now + grants_tokens.REPLAY_MS if lent.once else None


def _not_granted(reason: str, message: str) -> ForbiddenError:
    return ForbiddenError(message, reason=reason)


def _absent() -> NotFoundError:
    return NotFoundError("There is no such item.", reason="item")
