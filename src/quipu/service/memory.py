"""The memory service: every operation, for every principal, over one ledger.

A write goes through the same steps whatever face it came in by:
authorise → validate → redact → govern → commit → mirror → publish.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from quipu.model.operations import MergeStrategy
from quipu.model.principal import Permission, Principal
from quipu.ports.announcing import Recounting
from quipu.rules import validation
from quipu.rules.pushing import have_push
from quipu.service.assembly import Assembly
from quipu.service.condition import CAPABILITIES

if TYPE_CHECKING:
    from quipu.errors import QuipuError
    from quipu.model.change import Commit
    from quipu.model.governance import Edit
    from quipu.model.operations import (
        ExpireRequest,
        ForgetRequest,
        MergeRequest,
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
    from quipu.model.value import Json
    from quipu.ports.parts import Parts
    from quipu.rules.staging import Held
    from quipu.service.committing import Along

__all__ = ["CAPABILITIES", "MemoryService"]


class MemoryService(Assembly):
    """Everything memory does."""

    def __init__(self, parts: Parts, version: str) -> None:
        super().__init__(parts, version)
        if parts.settling.is_at_once and isinstance(parts.ledger, Recounting):
            parts.ledger.on_written(self._written)

    def _written(self, commits: Sequence[Commit]) -> None:
        """A window may be over now; who settles it is built with the first push."""
        if have_push(commits):
            self.consolidating.overflowing.written(commits)

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        done = await self._observing.remember(principal, request, self._operating.remember)
        return await self.mirrors.told(principal.tenant, done) if self._parts.mirrors else done

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
        from quipu.model.governance import Decision

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

    def check_batch(self, items: Sequence[object]) -> None:
        """Raise where a request holds too many; who calls from this process may hand over more."""
        validation.checked_batch(items, self._parts.limits)

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
        # Else there is no run to let go of, and nothing to load for it.
        if self._parts.host.history_ms is not None:
            await self.runs.sweep(principal)
        from quipu.service import lending_tidying  # most processes sweep nothing

        await lending_tidying.tidy(self._parts, principal.tenant)
        return closed

    def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """Renew terms, and bring everything into the configured embedder's space; yields how many were made each time."""
        self._access.authorise(principal, Permission.ADMIN)
        return self._vectors.reembed(principal.tenant, principal.name)

    async def open(self, tenant: str) -> None:
        """Open the ledger for a tenant; one that is new gets its store `main`."""
        await self._observing.opened(tenant, lambda: self._parts.ledger.open(tenant))
        await self._mirrored(tenant)

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        await self._notes.flush()

    async def close(self) -> None:
        """Let go of what was built; whatever nobody asked for has nothing to let go of."""
        if self.is_built("consolidating"):
            await self.consolidating.overflowing.close()
        if self.is_built("runs"):
            await self.runs.close()
        if self.is_built("changes"):
            await self.changes.close()
        if self.is_built("importing"):
            await self.importing.close()
        if self.is_built("moves"):
            await self.moves.close()
        if self.is_built("_recalling"):
            await self._recalling.asking.close()
        if self._parts.mirrors:
            await self.mirrors.close()
        await self._notes.close()

    async def health(self, principal: Principal | None) -> dict[str, Json]:
        """How the ledger is. A ledger that does not answer is told, not raised; strangers are told no more."""
        return await self._condition.health(principal)

    def capabilities(self, principal: Principal) -> dict[str, Json]:
        """What this memory promises."""
        return self._condition.capabilities(principal)
