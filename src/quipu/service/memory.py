"""The memory service: every operation, for every principal, over one ledger.

A write goes through the same steps whatever face it came in by:
authorise → validate → redact → govern → commit → mirror → publish.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from quipu.errors import ConflictError, QuipuError
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
from quipu.service.consolidating import Consolidating
from quipu.service.credentials import Credentials
from quipu.service.decisions import Decisions
from quipu.service.embedding import Vectors
from quipu.service.exchange import Exchange
from quipu.service.exporting import Exporting
from quipu.service.extracting import Extracting
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.graph import Graphs
from quipu.service.hit_signing import HitSigning
from quipu.service.import_register import Imports
from quipu.service.importing import Importing
from quipu.service.learning import Learning
from quipu.service.lending_moves import Moves
from quipu.service.mirror_checks import MirrorChecks
from quipu.service.mirrors import Mirrors
from quipu.service.notes import ReadNotes
from quipu.service.notices import Notices
from quipu.service.observed import ObservedReading, ObservedStores, ObservedTenancy
from quipu.service.observing import Observing
from quipu.service.permits import Permits
from quipu.service.policies import Policies
from quipu.service.previewing import Previewing
from quipu.service.procedures import Procedures
from quipu.service.recalling import Recalling
from quipu.service.recovery import Recovery, Ways
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.restoring import Restoring
from quipu.service.reviewing import Reviewing
from quipu.service.runs_assembly import assembled
from quipu.service.runs_entering import Entering
from quipu.service.secrets import Checked, Secrets
from quipu.service.sharing import Sharing
from quipu.service.tidying import Tidying
from quipu.service.together import Together
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
        self._observing = Observing(parts, access, self.secrets)
        self._removing = Removing(parts, access, vectors, self._notes)
        self.policies = Policies(parts, access)
        resembling = Resembling(parts, vectors)
        self._gate = Gate(parts, access, self._removing, resembling, self.policies)
        self.governance = Governance(parts, access)
        self._writing = Writing(parts, access, vectors, self.secrets, self._gate, self.governance)
        together = Together(self._writing)
        self._restoring = Restoring(
            parts, access, vectors, self.secrets, self._gate, self.governance, self._writing
        )
        self.reviewing = Reviewing(
            parts,
            self.governance,
            self._writing,
            self._removing,
            self._restoring,
            together,
            resembling,
            self.secrets,
        )
        self._permits = Permits(parts, self._gate, self.governance)
        self._recalling = Recalling(parts, access, vectors, self._notes)
        self._budgets = Budgets(parts.clock, rate=parts.rate, recall_budget=parts.recall_budget)
        self.reading = ObservedReading(
            self._observing, parts, access, self._recalling, self._notes, self._budgets
        )
        self.stores = ObservedStores(self._observing, parts, access, self.secrets)
        self.tenancy = ObservedTenancy(self._observing, parts, access)
        self.tokens = Tokens(parts, access)
        self.credentials = Credentials(parts, self._budgets)
        self.consolidating = Consolidating(
            parts,
            access,
            vectors,
            self.secrets,
            self._gate,
            self.governance,
            self._writing,
            self._removing,
            resembling,
            self._notes,
            Extracting(parts, resembling, self.remember),
            self.forget,
            self.restore,
            self._observing,
        )
        self.graphs = Graphs(parts, access, self._recalling, self._notes, self._budgets)
        self.procedures = Procedures(parts, access, self.remember, self._writing.accepted)
        self.audit = Audit(parts, access)
        self.changes = Changes(parts, access)
        self._batches = Batches(
            parts, self._writing, self.secrets, self._gate, self.governance, together, self._remember
        )
        self.mirrors = Mirrors(parts)
        self.mirror_checks = MirrorChecks(parts, access, self.mirrors)
        self.hit_signing = HitSigning(parts)
        self._condition = Condition(parts, access, self.mirrors, version)
        self.decisions = Decisions(parts, self.changes)
        self.previewing = Previewing(parts, self._recalling)
        self.learning = Learning(parts, access, self.policies)
        self.tidying = Tidying(
            parts, access, self.secrets, self._gate, self.governance, resembling, self._notes
        )
        self.notices = Notices(parts, access)
        self.recovery = Recovery(
            parts,
            access,
            self.secrets,
            self._gate,
            self.governance,
            Ways(self.remember, self.forget, self.restore),
        )
        self.trail = Trail(parts, access, self._notes)
        self.upkeep = Upkeep(parts, access, self._notes)
        self.sharing = Sharing(parts, access, vectors, version)
        self.exchange = Exchange(
            parts,
            access,
            self._writing,
            self.reading,
            self._notes,
            self._gate,
            self.secrets,
            self._observing,
        )
        entering = Entering(
            parts, access, vectors, self.secrets, self._gate, self.governance, self._observing
        )
        self.runs = assembled(
            parts,
            access,
            self.secrets,
            entering,
            self._notes,
            self._budgets,
            self.recall,
            self.forget,
            self.merge,
        )
        self.exporting = Exporting(parts, access, self.reading, self.exchange, version)
        self.importing = Importing(parts, access, self.secrets, self._writing, self.governance, self.stores)
        self.imports = Imports(parts, access, self.governance, self.reviewing)
        self.moves = Moves(
            parts, access, self.sharing.disclosing, self.exporting, self.importing, self.imports
        )

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        done = await self._observing.remember(principal, request, self._remember)
        return await self.mirrors.told(principal.tenant, done)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        return await self._observing.recall(principal, request, self._recall)

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        done = await self._observing.forget(principal, request, self._forget)
        if done.hard_delete:  # whoever was shown any of it is told
            await self.sharing.erasing.followed(principal, done.forgotten_ids)
        return await self.mirrors.told(principal.tenant, done)

    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        done = await self._observing.merge(principal, request, self._merge)
        return await self.mirrors.told(principal.tenant, done)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        done = await self._observing.expire(principal, request, self._expire)
        return await self.mirrors.told(principal.tenant, done)

    async def _remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
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
            return await self._writing.stored(principal, kept, guard=checked.position, rule=verdict.by_rule)

        return await self.secrets.checking(principal.tenant, work, request.run_id)

    async def _recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        self._access.authorise(principal, Permission.READ, request.agent_id)
        await self._permits.check(principal, request)
        self._budgets.check_recall(principal, request.agent_id)
        answer = await self._recalling.recall(principal, request)
        self._budgets.charge_recall(principal, request.agent_id, len(answer.results))
        return answer

    async def _forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        accepted = self._removing.accepted_forget(principal, request)

        async def work(checked: Checked) -> ForgetResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ForgetResponse, first)
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                told = partial(answers.pending_forget, kept, ledger=self._parts.ledger.name)
                return await self.governance.hold(principal, kept, verdict, told, guard=checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.forgotten(principal, kept, guard=checked.position, rule=rule)

        return await self.secrets.checking(principal.tenant, work)

    async def _merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        accepted = self._removing.accepted_merge(principal, request)

        async def work(checked: Checked) -> MergeResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(MergeResponse, first)
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                told = partial(answers.pending_merge, kept)
                return await self.governance.hold(principal, kept, verdict, told, guard=checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.merged(principal, kept, guard=checked.position, rule=rule)

        return await self.secrets.checking(principal.tenant, work)

    async def _expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        accepted = self._removing.accepted_expire(principal, request)

        async def work(checked: Checked) -> ExpireResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ExpireResponse, first)
            await self._notes.flush()  # rules that count go by fresh recall marks, as expiry does
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                return await self._hold_expire(principal, kept, verdict, checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.expired(principal, kept, guard=checked.position, rule=rule)

        return await self.secrets.checking(principal.tenant, work)

    async def _first(self, principal: Principal, request: Held) -> Committed | None:
        """What was answered when the same request came with the same key before; whatever has happened since."""
        is_dry = isinstance(request, ForgetRequest | MergeRequest | ExpireRequest) and request.dry_run
        known = None if is_dry else answers.once(principal, request, self._parts.canonical)
        if known is None:
            return None
        return await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())

    # -- governance ---------------------------------------------------------------------------------------------

    async def _verdict(
        self, principal: Principal, request: ForgetRequest | MergeRequest | ExpireRequest, checked: Checked
    ) -> Verdict | None:
        """What the rules say. A dry run changes nothing, so nobody asks them."""
        return None if request.dry_run else await self._gate.judged(principal, request, checked.position)

    async def is_held(self, principal: Principal, request: Held) -> bool:
        """Whether a person would have to look at this first. Nothing is written; a rule that denies it raises."""

        async def work(checked: Checked) -> bool:
            # No commit tells that the rules have changed meanwhile, so it is asked.
            if (await self._parts.ledger.guard(principal.tenant)).position != checked.position:
                raise ConflictError(reason="secrets_changed")
            kept = checked.kept(request) if isinstance(request, RememberRequest) else request
            verdict = await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not request, is_trial=True
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
        with self._parts.observer.review(proposal_id):
            return await self.reviewing.decide(principal, proposal_id, decision, is_in_place=is_in_place)

    # -- more than one, and bringing back -----------------------------------------------------------------------

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        """Many at once, embedded and committed together; with `atomic` all or none, and an error names its item."""

        async def work() -> list[RememberResponse | QuipuError]:
            if atomic:
                return [*await self._batches.whole(principal, requests)]
            return await self._batches.each(principal, requests)

        return await self._observing.remember_many(principal, requests, work)

    async def restore(
        self, principal: Principal, agent_id: str | None, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        """Bring back what was forgotten, merged away, archived or demoted. Without an agent: of any in reach."""
        return await self._observing.restore(
            principal,
            agent_id,
            record_id,
            lambda: self._restoring.restore(principal, agent_id, record_id, reason),
        )

    async def whoami(self, principal: Principal) -> Principal:
        """Whom the credential stands for."""
        return principal

    async def described(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises, for callers that may have to wait for it."""
        return self.capabilities(principal)

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def sweep(self, principal: Principal) -> int:
        """Close what has expired, and proposals that nobody decided on in time. Returns how many records it closed."""
        closed = await self._observing.sweep(principal, self._removing.sweep)
        await self.governance.lapse(principal.tenant)
        await self.runs.sweep(principal)
        return closed

    def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """Bring everything into the configured embedder's space; yields how many were done each time."""
        self._access.authorise(principal, Permission.ADMIN)
        return self._vectors.reembed(principal.tenant, principal.name)

    async def open(self, tenant: str) -> None:
        """Open the ledger for a tenant; one that is new gets its store `main`."""
        await self._observing.opened(tenant, lambda: self._parts.ledger.open(tenant))

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        await self._notes.flush()

    async def close(self) -> None:
        await self.runs.close()
        await self.changes.close()
        self.importing.close()
        await self._recalling.asking.close()
        await self.mirrors.close()
        await self._notes.close()

    async def health(self, principal: Principal | None) -> dict[str, Json]:
        """How the ledger is. A ledger that does not answer is told, not raised; strangers are told no more."""
        return await self._condition.health(principal)

    def capabilities(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises."""
        return self._condition.capabilities(principal)
