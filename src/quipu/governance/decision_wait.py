"""Waiting for a person: what a held write answers once it was decided on.

A decision and its effect are neighbours in the journal, so whoever waits, in whatever process, reads both there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from quipu.errors import ApprovalRejectedError, QuipuError
from quipu.governance.model import PROPOSALS, DecideRequest, Proposal, Review, ReviewRequest
from quipu.governance.review import Reviews
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
from quipu.model.principal import Permission, Principal
from quipu.operation import AnyBinding, Binding, Context, Request, Response

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


_log = logging.getLogger("quipu.governance")
#: So long an object may think.
DEADLINE_S = 30.0
#: The name under which it decides; the journal says it.
NAME = "governance"


class InProcessReviewer(Protocol):
    """What decides. Its answer has `approved` and may have a `reason`, as attributes or as keys."""

    def review(self, review: Review) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessReview:
    """Shows what is held to an object, and carries out what it says."""

    reviewer: InProcessReviewer
    reviews: Reviews
    waits: DecisionWait
    deadline_s: float = DEADLINE_S

    def around(self, binding: AnyBinding) -> AnyBinding:
        """The same operation, decided at once where it is held."""
        if not issubclass(binding.operation.response, WriteResponse | RememberManyResponse):
            return binding

        async def handler(ctx: Context, request: Request) -> Response:
            held: Response = await cast("Any", binding.handler)(ctx, request)
            if not held.is_held:
                return held
            for proposal_id in _proposals(held):
                await self._decide(ctx, proposal_id)
            return await self.waits.decided(ctx, held, 0)

        return Binding(binding.operation, handler)

    async def _decide(self, ctx: Context, proposal_id: str) -> None:
        asking = Context(_person(ctx.principal), ctx.clock, ctx.services)
        shown = await self.reviews.review(asking, ReviewRequest(id=proposal_id))
        try:
            async with asyncio.timeout(self.deadline_s):
                said = await self.reviewer.review(shown)
        except Exception as error:  # noqa: BLE001  somebody else's code: what it does not decide goes on waiting
            _log.warning("The governance object did not decide: %s.", type(error).__name__)
            return
        approved, reason = _field(said, "approved"), _field(said, "reason")
        if not isinstance(approved, bool):
            _log.warning("The governance object's answer has no `approved`; the write goes on waiting.")
            return
        request = DecideRequest(
            id=proposal_id,
            approved=approved,
            reason=reason[:4096] if isinstance(reason, str) else None,
            etag=shown.etag if approved else None,
        )
        try:
            await self.reviews.decide(asking, request)
        except ApprovalRejectedError:
            raise
        except QuipuError as error:
            _log.warning("The governance object's decision could not be carried out: %s", error.message)


def _person(principal: Principal) -> Principal:
    """Who decides: somebody else than who wrote, in the same tenant."""
    return replace(
        principal,
        name=NAME,
        permissions=frozenset({Permission.READ, Permission.REVIEW}),
        agents=("*",),
        user_id=None,
        review_stores=("*",),
        review_operations=("*",),
        token_id=None,
        is_local=False,
    )


def _field(said: Any, name: str) -> Any:
    return said.get(name) if isinstance(said, Mapping) else getattr(said, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  whatever it answered


def _proposals(held: Response) -> list[str]:
    """What waits of an answer."""
    answers = [item.response for item in held.results] if isinstance(held, RememberManyResponse) else [held]
    names = [answer.proposal_id for answer in answers if isinstance(answer, WriteResponse) and answer.is_held]
    return list(dict.fromkeys(name for name in names if name is not None))
