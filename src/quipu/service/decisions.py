"""Waiting for a person: what a held write answers once it was decided on.

A decision and its effect are neighbours in the journal, so whoever waits, in whatever process, reads both there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import ApprovalRejectedError
from quipu.model.journal import Entry, Op
from quipu.model.outcomes import ExpireResponse, ForgetResponse, ForgetRow, MergeResponse, RememberResponse
from quipu.model.principal import Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.service.answers import A
from quipu.service.changes import Changes

_PAGE = 500
#: A yes may also forget what it supersedes, or merge what it has made into another record.
_EFFECTS = 3
_WRITTEN = {Op.REMEMBER: "created", Op.UPDATE: "updated", Op.RESTORE: "restored"}


class Decisions:
    """Follows proposals to their end."""

    def __init__(self, parts: Parts, changes: Changes) -> None:
        self._parts, self._changes = parts, changes

    async def awaited(self, principal: Principal, held: A, within_s: float) -> A:
        """The answer of what was let through, the held one if nobody decides in time; a no is an error."""
        position, proposal_id = held.extensions.get("seq"), held.extensions.get("proposal_id")
        if not isinstance(position, int) or not isinstance(proposal_id, str):
            return held
        now = asyncio.get_running_loop().time
        end = now() + within_s
        while True:
            page = await self._parts.ledger.entries(principal.tenant, position, _PAGE)
            for place, entry in enumerate(page):
                if entry.op is Op.DECIDE and entry.detail.get("proposal") == proposal_id:
                    following = page[place + 1 : place + 1 + _EFFECTS]
                    return await self._decided(held, entry, following or await self._after(entry))
            position = page[-1].seq if page else position
            if not page and not await self._changes.moved(principal.tenant, position, end - now()):
                return held

    async def _after(self, entry: Entry) -> Sequence[Entry]:
        return await self._parts.ledger.entries(entry.tenant, entry.seq, _EFFECTS)

    async def _decided(self, held: A, decision: Entry, following: Sequence[Entry]) -> A:
        if decision.detail.get("approved") is not True:
            error = ApprovalRejectedError(reason="rejected")
            error.proposal_id = str(decision.detail["proposal"])
            raise error
        effects = [e for e in following if e.detail.get("proposal") == decision.detail["proposal"]]
        if isinstance(held, RememberResponse):
            effects = [effect for effect in effects if effect.op in _WRITTEN]
        effect = effects[0] if effects else replace(decision, records=())
        return self._answer(held, effect)

    def _answer(self, held: A, effect: Entry) -> A:
        ids = list(dict.fromkeys(mention.id for mention in effect.records))
        beyond: dict[str, Json] = {"seq": effect.seq}
        name = self._parts.ledger.name
        match held:
            case RememberResponse():
                version = effect.records[0].version if effect.records else None
                beyond |= {"version": version, "outcome": _WRITTEN.get(effect.op)}
                answer = replace(held, stored_at=effect.at, stores=(name,))
            case ForgetResponse():
                beyond["ids"] = list[Json](ids[:1_000])
                if held.hard_delete:
                    beyond["receipt"] = {"seq": effect.seq, "erased": len(ids), "at": effect.at}
                rows = (ForgetRow(store=name, count=len(ids)),)
                answer = replace(held, forgotten_ids=tuple(ids), stores=rows)
            case MergeResponse():
                canonical = effect.detail.get("canonical")
                merged = [record_id for record_id in ids if record_id != canonical]
                beyond |= {"canonical_id": canonical, "merged_ids": list[Json](merged)}
                answer = replace(held, merged_count=len(merged), stores=(name,))
            case ExpireResponse():
                beyond["ids"] = list[Json](ids[:1_000])
                answer = replace(held, matched_count=len(ids), stores=(name,))
        return replace(answer, pending_approval=False, approval_url=None, extensions=beyond)
