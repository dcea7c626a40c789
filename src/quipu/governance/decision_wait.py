"""Waiting for a person: what a held write answers once it was decided on.

A decision and its effect are neighbours in the journal, so whoever waits, in whatever process, reads both there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import ApprovalRejectedError
from quipu.governance.model import PROPOSALS, Proposal
from quipu.ledger.ledger import JournalQuery, Kept, Ledger
from quipu.memory.change_feed import CommitSignal
from quipu.memory.model import (
    BackendResult,
    ErasureReceipt,
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RememberManyResponse,
    RememberResponse,
    WriteResponse,
)
from quipu.model.journal import Entry
from quipu.operation import Context, Response

#: An approval may also forget what it supersedes, and a batch has an entry for each agent and store.
_EFFECTS = 1_000
#: Commits of other processes are looked for so often.
_POLL_S = 0.25
_WRITTEN = {"remember": "created", "update": "updated", "restore": "updated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionWait:
    """Follows proposals to their end."""

    ledger: Ledger
    signal: CommitSignal

    async def decided(self, ctx: Context, held: Response, seconds: float) -> Response:
        """The answer of what was approved; the held one if nobody decides in time. A rejection is an error."""
        if isinstance(held, RememberManyResponse):
            return await self._each(ctx, held, seconds)
        if not isinstance(held, WriteResponse) or held.proposal_id is None:
            return held
        kept = await self._kept(ctx.tenant, held.proposal_id, seconds)
        return held if kept is None else await self._answer(ctx, held, kept)

    async def _each(self, ctx: Context, held: RememberManyResponse, seconds: float) -> RememberManyResponse:
        """Items that wait together are decided together; others one by one."""
        end = asyncio.get_running_loop().time() + seconds
        results = list(held.results)
        for place, item in enumerate(results):
            if item.response is not None and item.response.is_held:
                left = max(0.0, end - asyncio.get_running_loop().time())
                answer = await self.decided(ctx, item.response, left)
                results[place] = item.model_copy(update={"response": answer})
        return held.model_copy(update={"results": tuple(results)})

    async def _kept(self, tenant: str, proposal_id: str, seconds: float) -> Kept[Proposal] | None:
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while True:
            kept = await self.ledger.kept(PROPOSALS, tenant, proposal_id)
            if kept is None or not kept.value.is_pending:
                return kept
            left = end - now()
            if left <= 0:
                return None
            await self.signal.wait(tenant, min(left, _POLL_S))

    async def _answer(self, ctx: Context, held: WriteResponse, kept: Kept[Proposal]) -> WriteResponse:
        proposal = kept.value
        if proposal.status != "approved":
            raise ApprovalRejectedError(
                reason="rejected" if proposal.reviewed_by_somebody else proposal.reviewer,
                hint=proposal.reason,
            )
        query = JournalQuery(after=kept.seq, limit=_EFFECTS)
        entries = await self.ledger.entries(ctx.tenant, query)
        effects = [entry for entry in entries if entry.detail.get("proposal") == proposal.id]
        if effects:
            ctx.facts.seq = effects[-1].seq
        return self._done(held, effects)

    def _done(self, held: WriteResponse, effects: Sequence[Entry]) -> WriteResponse:
        """What the write would have answered, as far as the journal says it."""
        ids = list(dict.fromkeys(mention.id for entry in effects for mention in entry.records))
        last = effects[-1] if effects else None
        done: dict[str, Any] = {
            "pending_approval": False,
            "approval_url": None,
            "stores": (self.ledger.name,),
            "seq": None if last is None else last.seq,
        }
        match held:
            case RememberResponse():
                wrote = [one for one in effects if any(mention.id == held.id for mention in one.records)]
                versions = [m.version for one in wrote for m in one.records if m.id == held.id]
                done["outcome"] = _WRITTEN.get(wrote[-1].op, "unchanged") if wrote else "unchanged"
                done["version"] = versions[-1] if versions else held.version
                done["stored_at"] = held.stored_at if last is None else last.at
            case ForgetResponse():
                done["forgotten_ids"] = tuple(ids)
                done["stores"] = (BackendResult(store=self.ledger.name, count=len(ids)),)
                if held.hard_delete and last is not None:
                    done["receipt"] = ErasureReceipt(seq=last.seq, at=last.at, erased=len(ids))
            case MergeResponse():
                canonical = None if last is None else last.detail.get("canonical")
                merged = tuple(name for name in ids if name != canonical)
                done |= {"canonical_id": canonical, "merged_ids": merged, "merged_count": len(merged)}
            case ExpireResponse():
                done |= {"ids": tuple(ids), "matched_count": len(ids)}
            case _:
                pass
        return held.model_copy(update=done)
