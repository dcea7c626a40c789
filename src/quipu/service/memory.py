"""The memory service: every operation, for every principal, over one ledger.

A write goes through the same steps whatever face it came in by:
authorise → validate → redact → govern → commit → mirror → publish.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, assert_never

from quipu.errors import BackendUnavailableError, QuipuError, UnsupportedError
from quipu.model.change import Commit, Proposal
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules.staging import Held
from quipu.service.access import Access
from quipu.service.audit import Audit
from quipu.service.embedding import Vectors
from quipu.service.exchange import Exchange
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.reading import Reading
from quipu.service.recalling import Recalling
from quipu.service.removing import Removing
from quipu.service.stores import Stores
from quipu.service.writing import Line, Writing

#: memorywire's nine promises; the ledger keeps them all.
CAPABILITIES = frozenset(
    {
        "semantic",
        "episodic",
        "procedural",
        "emotional",
        "fts",
        "vector",
        "graph",
        "governance",
        "recall_tracking",
    }
)


class MemoryService:
    """Everything memory does."""

    def __init__(self, parts: Parts, version: str) -> None:
        self._parts = parts
        self._version = version
        access = Access(parts.ledger)
        vectors = Vectors(parts)
        self._access, self._vectors = access, vectors
        self._notes = ReadNotes(parts.ledger)
        self._writing = Writing(parts, access, vectors)
        self._recalling = Recalling(parts, access, vectors, self._notes)
        self._removing = Removing(parts, access, vectors, self._notes)
        self.reading = Reading(parts, access, self._recalling, self._notes)
        self.stores = Stores(parts, access)
        self.governance = Governance(parts, access)
        self.audit = Audit(parts, access)
        self.exchange = Exchange(parts, access, self._writing, self.reading, self._notes, self.governance)

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        accepted = self._writing.accepted(principal, request)
        if held_by := self._held_by(accepted):
            return await self._hold_remember(principal, accepted, held_by)
        return await self._writing.stored(principal, accepted)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        if request.approval_required:
            raise UnsupportedError("Recalls cannot be held for approval here.", reason="approval_on_recall")
        return await self._recalling.recall(principal, request)

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        accepted = self._removing.accepted_forget(principal, request)
        if not accepted.dry_run and (held_by := self._held_by(accepted)):
            proposal = await self.governance.hold(principal, accepted, held_by)
            return ForgetResponse(
                forgotten_ids=(),
                hard_delete=accepted.hard_delete,
                stores=(ForgetRow(store=self._parts.ledger.name, count=0),),
                pending_approval=True,
                approval_url=_url(proposal),
                extensions=_held(proposal),
            )
        return await self._removing.forgotten(principal, accepted)

    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        accepted = self._removing.accepted_merge(principal, request)
        if not accepted.dry_run and (held_by := self._held_by(accepted)):
            proposal = await self.governance.hold(principal, accepted, held_by)
            return MergeResponse(
                canonical=accepted.canonical,
                merged_count=0,
                strategy_used=accepted.strategy,
                stores=(),
                pending_approval=True,
                approval_url=_url(proposal),
                extensions=_held(proposal),
            )
        return await self._removing.merged(principal, accepted)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        accepted = self._removing.accepted_expire(principal, request)
        if not accepted.dry_run and (held_by := self._held_by(accepted)):
            proposal = await self._hold_expire(principal, accepted, held_by)
            return ExpireResponse(
                matched_count=0,
                action_taken=accepted.action,
                stores=(),
                pending_approval=True,
                approval_url=_url(proposal),
                extensions=_held(proposal),
            )
        return await self._removing.expired(principal, accepted)

    # -- governance ---------------------------------------------------------------------------------------------

    @staticmethod
    def _held_by(request: Held) -> tuple[str, ...]:
        """Who wants a person to look at this first."""
        return ("caller",) if request.approval_required else ()

    async def _hold_remember(
        self, principal: Principal, request: RememberRequest, held_by: Sequence[str]
    ) -> RememberResponse:
        await self._writing.check_target(principal, request)
        proposal = await self.governance.hold(principal, request, held_by)
        return RememberResponse(
            id=proposal.record_id or proposal.id,
            stored_at=proposal.created_at,
            stores=(),
            pending_approval=True,
            approval_url=_url(proposal),
            extensions=_held(proposal),
        )

    async def _hold_expire(
        self, principal: Principal, request: ExpireRequest, held_by: Sequence[str]
    ) -> Proposal:
        """An expiry that forgets is shown, and carried out, as forgetting exactly what it matched."""
        if request.action is not ExpireAction.FORGET:
            return await self.governance.hold(principal, request, held_by)
        await self._notes.flush()
        matched = await self._removing.matching_policy(principal, request)
        ids = tuple(record.id for record in matched)
        forget = ForgetRequest(
            agent_id=request.agent_id, user_id=request.user_id, ids=ids, reason=request.reason
        )
        return await self.governance.hold(principal, forget, held_by)

    async def decide(
        self, principal: Principal, proposal_id: str, *, approved: bool, reason: str | None = None
    ) -> Any:
        """Approve, which carries the write out, or reject, which drops it. Decision and effect are one transaction."""
        proposal, request, settled = await self.governance.decision(
            principal, proposal_id, approved=approved, reason=reason
        )
        if not approved:
            await self._parts.ledger.commit(settled)
            return None
        return await self._let_through(principal, proposal, request, [settled])

    async def _let_through(
        self, principal: Principal, proposal: Proposal, request: Held, before: Sequence[Commit]
    ) -> Any:
        match request:
            case RememberRequest():
                return await self._writing.stored(principal, request, proposal.record_id, before)
            case ForgetRequest():
                return await self._removing.forgotten(principal, request, before)
            case MergeRequest():
                return await self._removing.merged(principal, request, before)
            case ExpireRequest():
                return await self._removing.expired(principal, request, before)
            case _:
                assert_never(request)

    # -- more than one, and bringing back -----------------------------------------------------------------------

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        """Many at once, embedded and committed together. Plain new memories share transactions; the rest go one by one."""
        answers: list[RememberResponse | QuipuError | None] = [None] * len(requests)
        plain: list[tuple[int, Line]] = []
        for place, request in enumerate(requests):
            try:
                accepted = self._writing.accepted(principal, request)
            except QuipuError as error:
                if atomic:
                    raise in_item(error, place) from error
                answers[place] = error
                continue
            is_plain = (
                accepted.id is None and accepted.idempotency_key is None and not accepted.approval_required
            )
            if is_plain and not accepted.links:
                plain.append((place, Line(accepted)))
            elif atomic:
                raise in_item(UnsupportedError("An atomic batch holds new memories only."), place)
            else:
                answers[place] = await self._answer(principal, accepted)
        stored = await self._writing.many_stored(principal, [line for _, line in plain], is_whole=atomic)
        for (place, _), answer in zip(plain, stored, strict=True):
            answers[place] = answer
        return [answer for answer in answers if answer is not None]

    async def _answer(self, principal: Principal, request: RememberRequest) -> RememberResponse | QuipuError:
        try:
            return await self.remember(principal, request)
        except QuipuError as error:
            return error

    async def restore(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        return await self._writing.restore(principal, agent_id, record_id, reason)

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def sweep(self, principal: Principal) -> int:
        return await self._removing.sweep(principal)

    def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """Bring everything into the configured embedder's space; yields how many were done each time."""
        self._access.authorise(principal, Permission.ADMIN)
        return self._vectors.reembed(principal.tenant, principal.name)

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        await self._notes.flush()

    async def close(self) -> None:
        await self._notes.close()

    async def health(self, principal: Principal) -> dict[str, Json]:
        """How the ledger is. A ledger that does not answer is told, not raised."""
        row: dict[str, Json] = {"backend": self._parts.ledger.name, "role": "ledger", "status": "ok"}
        told: dict[str, Json] = {"status": "ok", "backend": "quipu", "stores": [row]}
        started = time.perf_counter()
        try:
            told["seq"] = (await self._parts.ledger.head(principal.tenant)).seq
        except BackendUnavailableError:
            told["status"] = row["status"] = "error"
            row["error"] = "does not answer"
        latency_ms = int((time.perf_counter() - started) * 1000)
        row |= {"lag": 0, "breaker": "closed", "latency_ms": latency_ms}
        return {**told, "version": self._version, "time": self._parts.clock()}


def _url(proposal: Proposal) -> str:
    return f"quipu:proposal/{proposal.id}"


def _held(proposal: Proposal) -> dict[str, Json]:
    return {"proposal_id": proposal.id, "held_by": list(proposal.held_by)}


def in_item(error: QuipuError, place: int) -> QuipuError:
    """The same error, pointing into the batch."""
    faults = [replace(fault, pointer=f"/items/{place}{fault.pointer}") for fault in error.faults]
    return type(error)(error.message, reason=error.reason, hint=error.hint, faults=faults)
