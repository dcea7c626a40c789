"""Steps of runs: one journal entry each, kept clear of secrets, and taken once where the caller gave a key."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from quipu.errors import ConflictError, InvalidError
from quipu.ledger.commit import Change, Commit, Committed, Once
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import PASSING, Guard, once_of
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.operation import Context, Request
from quipu.runs.model import RUNS, Run
from quipu.runs.rules import RunOverError, is_run_id
from quipu.secrets.service import Secrets

_MOST_ATTEMPTS = 256
#: Keys are the tenant's: whoever repeats a request, it happens once.
_EVERYBODY = ""
#: What is done at an address of a run's own.
_OF_A_RUN = frozenset({"record_node", "end_run", "cancel_run", "fork_run", "run_notes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecrets:
    """The redactor that also knows what a run has resolved. Its row names the labels; the values are in memory only, and
    are resolved again after a restart."""

    ledger: Ledger
    secrets: Secrets
    #: Those of the conformance mode: label → value.
    built_in: Mapping[str, str]
    #: Tenant and run → the labels whose values are in memory.
    _known: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]], init=False
    )

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        if run_id is not None and is_run_id(run_id):
            run = await self.ledger.get(RUNS, tenant, run_id)
            known = self._known.get((tenant, run_id), frozenset())
            for label in () if run is None else run.secrets:
                if label not in known:
                    await self.resolve(tenant, run_id, label)
        return await self.secrets.guard(tenant, run_id)

    async def resolve(self, tenant: str, run_id: str, label: str) -> str:
        """The value, which from now on is kept out of whatever the run writes."""
        value = self.built_in.get(label) or await self.secrets.value(tenant, label)
        if value is None:
            raise InvalidError("The run needs a secret that is not there.", reason="credential_unavailable")
        self.secrets.resolve(tenant, run_id, label, value)
        self._known[tenant, run_id] = self._known.get((tenant, run_id), frozenset()) | {label}
        return value

    def end_run(self, tenant: str, run_id: str) -> None:
        """The run is over: its values are forgotten, and resolved anew for what a person approves late."""
        self._known.pop((tenant, run_id), None)
        self.secrets.end_run(tenant, run_id)


def once_for(principal: Principal, operation: str, request: Request | None) -> Once | None:
    """Under which key a request happens once; None where the caller gave none."""
    found = None if request is None else once_of(principal, operation, request)
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

    async def take(
        self,
        ctx: Context,
        operation: str,
        run_id: str,
        plan: Callable[[Guard], Awaitable[Step | None]],
        request: Request | None = None,
    ) -> Committed | None:
        """Plan and commit, again where somebody else came in between; None: there was nothing to do.

        An equal request may have come first, or in between: then its answer, `replayed`, is the answer.
        """
        once = once_for(ctx.principal, operation, request)
        if (first := await first_answer(self.ledger, ctx, once)) is not None:
            return first
        for _ in range(_MOST_ATTEMPTS):
            guard = await self.secrets.guard(ctx.tenant, run_id)
            try:
                step = await plan(guard)
            except RunOverError:
                if (first := await first_answer(self.ledger, ctx, once)) is None:
                    raise
                return first
            if step is None:
                return await first_answer(self.ledger, ctx, once)
            draft = Draft(
                op=operation,
                actor=ctx.principal.name,
                at=ctx.clock(),
                agent=step.run.agent_id,
                run=step.run.id,
                node=step.node_id,
            )
            answer = once and replace(once, answer={"run_id": step.run.id, "status": step.run.status})
            commit = Commit(tenant=ctx.tenant, draft=draft, changes=step.changes, once=answer)
            try:
                (done,) = await self.ledger.commit(commit, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason not in PASSING:
                    raise
            else:
                ctx.facts.seq = done.seq
                return done
        raise ConflictError("The run keeps being changed by others.", reason="row_changed")


async def first_answer(ledger: Ledger, ctx: Context, once: Once | None) -> Committed | None:
    """What the same request was answered before."""
    if once is None:
        return None
    return await ledger.replayed(
        ctx.tenant, once.principal, once.operation, once.key, once.fingerprint, ctx.clock()
    )
