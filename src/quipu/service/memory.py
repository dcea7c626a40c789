"""The memory service: every operation, for every principal, over one ledger.

A write goes through the same steps whatever face it came in by:
authorise → validate → redact → govern → commit → mirror → publish.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from quipu.errors import ConflictError, QuipuError, UnsupportedError
from quipu.model.change import Committed
from quipu.model.governance import Decision, Edit, Effect, Verdict
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules.staging import Held
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.audit import Audit
from quipu.service.batches import Batches
from quipu.service.budgets import Budgets
from quipu.service.changes import Changes
from quipu.service.condition import CAPABILITIES, Condition
from quipu.service.credentials import Credentials
from quipu.service.decisions import Decisions
from quipu.service.embedding import Vectors
from quipu.service.exchange import Exchange
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.policies import Policies
from quipu.service.procedures import Procedures
from quipu.service.reading import Reading
from quipu.service.recalling import Recalling
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.reviewing import Reviewing
from quipu.service.secrets import Checked, Secrets
from quipu.service.stores import Stores
from quipu.service.tenancy import Tenancy
from quipu.service.tokens import Tokens
from quipu.service.trail import Trail
from quipu.service.upkeep import Upkeep
from quipu.service.writing import Writing

__all__ = ["CAPABILITIES", "MemoryService"]


class MemoryService:
    """Everything memory does."""

    def __init__(self, parts: Parts, version: str) -> None:
        self._parts = parts
        access = Access(parts.ledger)
        vectors = Vectors(parts)
        self._access, self._vectors = access, vectors
        self._notes = ReadNotes(parts.ledger)
        self.secrets = Secrets(parts, access)
        self._removing = Removing(parts, access, vectors, self._notes)
        self.policies = Policies(parts, access)
        resembling = Resembling(parts, vectors)
        self._gate = Gate(parts, access, self._removing, resembling, self.policies)
        self.governance = Governance(parts, access)
        self._writing = Writing(parts, access, vectors, self.secrets, self._gate, self.governance)
        self.reviewing = Reviewing(
            parts, self.governance, self._writing, self._removing, resembling, self.secrets
        )
        self._recalling = Recalling(parts, access, vectors, self._notes)
        self._budgets = Budgets(parts.clock, rate=parts.rate, recall_budget=parts.recall_budget)
        self.reading = Reading(parts, access, self._recalling, self._notes, self._budgets)
        self.stores = Stores(parts, access, self.secrets)
        self.tenancy = Tenancy(parts, access)
        self.tokens = Tokens(parts, access)
        self.credentials = Credentials(parts, self._budgets)
        self.procedures = Procedures(parts, access, self.remember)
        self.audit = Audit(parts, access)
        self.changes = Changes(parts, access)
        self._batches = Batches(parts, self._writing, self.secrets, self._gate, self.remember)
        self._condition = Condition(parts, access, version)
        self.decisions = Decisions(parts, self.changes)
        self.trail = Trail(parts, access, self._notes)
        self.upkeep = Upkeep(parts, access, self._notes)
        self.exchange = Exchange(
            parts, access, self._writing, self.reading, self._notes, self._gate, self.secrets
        )

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        accepted = self._writing.accepted(principal, request)

        async def work(checked: Checked) -> RememberResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(RememberResponse, first)
            verdict = await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not accepted
            )
            if verdict.effect is Effect.HOLD:
                await self._writing.check_target(principal, kept)
                told = partial(answers.pending_remember, kept)
                return await self.governance.hold(principal, kept, verdict, told, guard=checked.position)
            return await self._writing.stored(principal, kept, guard=checked.position)

        return await self.secrets.checking(principal.tenant, work, request.run_id)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        if request.approval_required:
            raise UnsupportedError("Recalls cannot be held for approval here.", reason="approval_on_recall")
        self._budgets.check_recall(principal, request.agent_id)
        answer = await self._recalling.recall(principal, request)
        self._budgets.charge_recall(principal, request.agent_id, len(answer.results))
        return answer

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        accepted = self._removing.accepted_forget(principal, request)

        async def work(checked: Checked) -> ForgetResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ForgetResponse, first)
            if verdict := await self._holding(principal, kept, checked):
                told = partial(answers.pending_forget, kept, ledger=self._parts.ledger.name)
                return await self.governance.hold(principal, kept, verdict, told, guard=checked.position)
            return await self._removing.forgotten(principal, kept, guard=checked.position)

        return await self.secrets.checking(principal.tenant, work)

    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        accepted = self._removing.accepted_merge(principal, request)

        async def work(checked: Checked) -> MergeResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(MergeResponse, first)
            if verdict := await self._holding(principal, kept, checked):
                told = partial(answers.pending_merge, kept)
                return await self.governance.hold(principal, kept, verdict, told, guard=checked.position)
            return await self._removing.merged(principal, kept, guard=checked.position)

        return await self.secrets.checking(principal.tenant, work)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        accepted = self._removing.accepted_expire(principal, request)

        async def work(checked: Checked) -> ExpireResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ExpireResponse, first)
            await self._notes.flush()  # rules that count go by fresh recall marks, as expiry does
            if verdict := await self._holding(principal, kept, checked):
                return await self._hold_expire(principal, kept, verdict, checked.position)
            return await self._removing.expired(principal, kept, guard=checked.position)

        return await self.secrets.checking(principal.tenant, work)

    async def _first(self, principal: Principal, request: Held) -> Committed | None:
        """What was answered when the same request came with the same key before; whatever has happened since."""
        is_dry = not isinstance(request, RememberRequest) and request.dry_run
        known = None if is_dry else answers.once(principal, request, self._parts.canonical)
        if known is None:
            return None
        return await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())

    # -- governance ---------------------------------------------------------------------------------------------

    async def _holding(
        self, principal: Principal, request: ForgetRequest | MergeRequest | ExpireRequest, checked: Checked
    ) -> Verdict | None:
        """Who wants a person to look at this first. A dry run changes nothing, so nobody does."""
        if request.dry_run:
            return None
        verdict = await self._gate.judged(principal, request, checked.position)
        return verdict if verdict.effect is Effect.HOLD else None

    async def is_held(self, principal: Principal, request: Held) -> bool:
        """Whether a person would have to look at this first. Nothing is written; a rule that denies it raises."""

        async def work(checked: Checked) -> bool:
            # No commit tells that the rules have changed meanwhile, so it is asked.
            if (await self._parts.ledger.guard(principal.tenant)).position != checked.position:
                raise ConflictError(reason="secrets_changed")
            kept = checked.kept(request) if isinstance(request, RememberRequest) else request
            verdict = await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not request
            )
            return verdict.effect is Effect.HOLD

        return await self.secrets.checking(principal.tenant, work)

    async def _hold_expire(
        self, principal: Principal, request: ExpireRequest, verdict: Verdict, guard: int
    ) -> ExpireResponse:
        """An expiry that forgets is shown, and carried out, as forgetting exactly what it matched."""
        told = partial(answers.pending_expire, request)
        if request.action is not ExpireAction.FORGET:
            return await self.governance.hold(principal, request, verdict, told, guard=guard)
        matched = await self._removing.matching_policy(principal, request)
        ids = tuple(record.id for record in matched)
        forget = ForgetRequest(
            agent_id=request.agent_id, user_id=request.user_id, ids=ids, reason=request.reason
        )
        return await self.governance.hold(principal, request, verdict, told, guard=guard, staged=forget)

    async def decide(
        self,
        principal: Principal,
        proposal_id: str,
        *,
        approved: bool,
        reason: str | None = None,
        is_in_place: bool = False,
        etag: str | None = None,
        edit: Edit | None = None,
        merge_into: str | None = None,
        strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL,
        supersedes: Sequence[str] = (),
    ) -> Any:
        """Approve, which carries the write out, or reject, which drops it. Decision and effect are one transaction.

        `is_in_place`: the person in front of the client that wrote it was asked, and has a reviewer's credential.
        """
        decision = Decision(
            approved=approved,
            reason=reason,
            etag=etag,
            edit=edit,
            merge_into=merge_into,
            strategy=strategy,
            supersedes=tuple(dict.fromkeys(supersedes)),
        )
        return await self.reviewing.decide(principal, proposal_id, decision, is_in_place=is_in_place)

    # -- more than one, and bringing back -----------------------------------------------------------------------

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        """Many at once, embedded and committed together; with `atomic` all or none, and an error names its item."""
        if atomic:
            return [*await self._batches.whole(principal, requests)]
        return await self._batches.each(principal, requests)

    async def restore(
        self, principal: Principal, agent_id: str | None, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        """Bring back what was forgotten, merged away, archived or demoted. Without an agent: of any in reach."""
        return await self._writing.restore(principal, agent_id, record_id, reason)

    async def whoami(self, principal: Principal) -> Principal:
        """Whom the credential stands for."""
        return principal

    async def described(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises, for callers that may have to wait for it."""
        return self.capabilities(principal)

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def sweep(self, principal: Principal) -> int:
        """Close what has expired, and proposals that nobody decided on in time. Returns how many records it closed."""
        closed = await self._removing.sweep(principal)
        await self.governance.lapse(principal.tenant)
        return closed

    def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """Bring everything into the configured embedder's space; yields how many were done each time."""
        self._access.authorise(principal, Permission.ADMIN)
        return self._vectors.reembed(principal.tenant, principal.name)

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        await self._notes.flush()

    async def close(self) -> None:
        await self.changes.close()
        await self._notes.close()

    async def health(self, principal: Principal | None) -> dict[str, Json]:
        """How the ledger is. A ledger that does not answer is told, not raised; strangers are told no more."""
        return await self._condition.health(principal)

    def capabilities(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises."""
        return self._condition.capabilities(principal)
