"""The memory service: every operation, for every principal, over one ledger.

A write goes through the same steps whatever face it came in by:
authorise → validate → redact → govern → commit → mirror → publish.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from quipu.errors import QuipuError
from quipu.model.governance import Decision, Edit
from quipu.model.operations import (
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
from quipu.service.access import Access
from quipu.service.audit import Audit
from quipu.service.batches import Batches
from quipu.service.budgets import Budgets
from quipu.service.changes import Changes
from quipu.service.committing import Along
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
from quipu.service.import_tombstones import Burying
from quipu.service.importing import Importing
from quipu.service.learning import Learning
from quipu.service.lending_moves import Moves
from quipu.service.mirror_checks import MirrorChecks
from quipu.service.mirrors import Mirrors
from quipu.service.notes import ReadNotes
from quipu.service.notices import Notices
from quipu.service.observed import ObservedReading, ObservedStores, ObservedTenancy
from quipu.service.observing import Observing
from quipu.service.operating import Operating
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
from quipu.service.secrets import Secrets
from quipu.service.sharing import Sharing
from quipu.service.tidying import Tidying
from quipu.service.together import Together
from quipu.service.tokens import Tokens
from quipu.service.trail import Trail
from quipu.service.undoing import Undoing
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
        self._operating = Operating(
            parts,
            access,
            self.secrets,
            self._gate,
            self.governance,
            self._writing,
            self._removing,
            self._permits,
            self._recalling,
            self._budgets,
            self._notes,
        )
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
            parts,
            self._writing,
            self.secrets,
            self._gate,
            self.governance,
            together,
            self._operating.remember,
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
        self.undoing = Undoing(parts, access, self.governance, self.recovery)
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
        burying = Burying(parts, access, self._gate, self.secrets, self.forget)
        self.importing = Importing(
            parts, access, self.secrets, self._writing, self.governance, self.stores, burying
        )
        self.imports = Imports(parts, access, self.governance, self.reviewing, vectors)
        self.moves = Moves(
            parts, access, self.sharing.disclosing, self.exporting, self.importing, self.imports
        )

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        done = await self._observing.remember(principal, request, self._operating.remember)
        return await self.mirrors.told(principal.tenant, done)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        return await self._observing.recall(principal, request, self._operating.recall)

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        done = await self._observing.forget(principal, request, self._operating.forget)
        if done.hard_delete:  # whoever was shown any of it is told
            await self.sharing.erasing.followed(principal, done.forgotten_ids)
        return await self.mirrors.told(principal.tenant, done)

    async def merge(
        self, principal: Principal, request: MergeRequest, along: Along | None = None
    ) -> MergeResponse:
        """`along` is what the host tells of a merge of its own, in the same transaction."""
        done = await self._observing.merge(principal, request, partial(self._operating.merge, along=along))
        return await self.mirrors.told(principal.tenant, done)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        done = await self._observing.expire(principal, request, self._operating.expire)
        return await self.mirrors.told(principal.tenant, done)

    # -- governance ---------------------------------------------------------------------------------------------

    async def is_held(self, principal: Principal, request: Held) -> bool:
        """Whether a person would have to look at this first. Nothing is written; a rule that denies it raises."""
        return await self._operating.is_held(principal, request)

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
        undoable: bool = False,
    ) -> Any:
        """Approve, which carries the write out, or reject, which drops it. Decision and effect are one transaction.

        `is_in_place`: the person in front of the client that wrote it was asked, and has a reviewer's credential.
        `undoable`: what was proposed is kept until it is too late to take the decision back, and let go by a sweep.
        """
        decision = Decision(
            approved=approved,
            reason=reason,
            etag=etag,
            edit=edit,
            merge_into=merge_into,
            strategy=strategy,
            supersedes=tuple(dict.fromkeys(supersedes)),
            undoable=undoable,
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
        await self.undoing.let_go(principal.tenant)
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
        await self.consolidating.overflowing.close()
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
