"""Steps of runs: one journal entry each, checked for secrets, and taken once where the caller gave a key."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError
from quipu.ledger.commit import Change, Commit, Committed, Once
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Guard, once_of
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.operation import Context, Request
from quipu.runs.model import Run
from quipu.runs.rules import RunOverError
from quipu.runs.run_secrets import RunSecrets

_MOST_ATTEMPTS = 256
#: Conflicts that pass when the step is checked and planned again.
_PASSING = frozenset({"secrets_changed", "row_changed"})
#: Keys are the tenant's: whoever repeats a request, it happens once.
_EVERYBODY = ""
#: What is done at an address of a run's own.
_OF_A_RUN = frozenset({"record_node", "end_run", "cancel_run", "fork_run", "run_notes"})


def once_for(principal: Principal, operation: str, request: Request) -> Once | None:
    """Under which key a request happens once; None where the caller gave none."""
    found = once_of(principal, operation, request)
    if found is None:
        return None
    # One key may be used for each of several runs; where a run is a part of the request and not its place, it may not.
    place = getattr(request, "run_id", None) if operation in _OF_A_RUN else None
    name = operation if place is None else f"{operation} {place}"
    return replace(found, principal=_EVERYBODY, operation=name)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step writes."""

    run: Run
    changes: tuple[Change, ...]
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Commits steps."""

    ledger: Ledger
    secrets: RunSecrets

    async def first(self, ctx: Context, once: Once | None) -> dict[str, Any] | None:
        """What the same request was answered before."""
        done = await self._done(ctx, once)
        return None if done is None else dict(done.replayed or {})

    async def _done(self, ctx: Context, once: Once | None) -> Committed | None:
        if once is None:
            return None
        return await self.ledger.replayed(
            ctx.tenant, once.principal, once.operation, once.key, once.fingerprint, ctx.clock()
        )

    async def take(
        self,
        ctx: Context,
        operation: str,
        run_id: str,
        plan: Callable[[Guard], Awaitable[Step | None]],
        *,
        once: Once | None = None,
    ) -> Committed | None:
        """Plan and commit, again where somebody else came in between; None: there was nothing to do.

        An equal request may be what came in between: then its answer is the answer.
        """
        for _ in range(_MOST_ATTEMPTS):
            guard = await self.secrets.guard(ctx.tenant, run_id)
            try:
                step = await plan(guard)
            except RunOverError:
                if (done := await self._done(ctx, once)) is None:
                    raise
                return done
            if step is None:
                return await self._done(ctx, once)
            commit = Commit(
                tenant=ctx.tenant,
                draft=Draft(
                    op=operation,
                    actor=ctx.principal.name,
                    at=ctx.clock(),
                    agent=step.run.agent_id,
                    run=step.run.id,
                    node=step.node_id,
                ),
                changes=step.changes,
                once=once and replace(once, answer={"run_id": step.run.id, "status": step.run.status}),
            )
            try:
                (done,) = await self.ledger.commit(commit, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason not in _PASSING:
                    raise
            else:
                ctx.facts.seq = done.seq
                return done
        raise ConflictError("The run keeps being changed by others.", reason="row_changed")
