"""Runs: opened, executed or driven from outside, followed, cancelled, forked, forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Commit, Committed, Once
from quipu.model.journal import Draft, Op
from quipu.model.principal import Permission, Principal
from quipu.model.runs import (
    Driver,
    EventType,
    ExpireRun,
    Happening,
    MintedRef,
    OpenRun,
    Run,
    RunError,
    RunEvent,
    RunStatus,
    RunStep,
    Variable,
)
from quipu.model.value import Json, JsonObject
from quipu.ports.announcing import Announcing
from quipu.ports.parts import Parts
from quipu.rules import runs_authority, runs_redacting, runs_states, runs_wire, runs_workflows
from quipu.rules.chain import exact
from quipu.service.access import Access
from quipu.service.committing import plain
from quipu.service.runs_commitments import Commitments
from quipu.service.runs_deriving import Deriving
from quipu.service.runs_engine import Engine
from quipu.service.runs_forking import Forking, ForkRequest
from quipu.service.runs_memory import RunMemory
from quipu.service.runs_scratch import Scratch
from quipu.service.runs_stepping import Stepping, changed
from quipu.service.runs_upkeep import RunUpkeep
from quipu.service.secrets import Checked, Secrets

#: How long an event of another process may go unnoticed.
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """What a run is opened with."""

    workflow_id: str
    inputs: JsonObject = field(default_factory=dict[str, Json])
    configurable: JsonObject = field(default_factory=dict[str, Json])
    metadata: JsonObject = field(default_factory=dict[str, Json])
    tags: tuple[str, ...] = ()
    agent: JsonObject | None = None
    #: Driven from outside, by whoever opened it.
    is_external: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A run, and whether it is the answer to a repeated request."""

    run: Run
    is_replayed: bool = False


class Runs:
    """Everything about runs. The tenant is always the principal's own: another's run is the same as none."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        secrets: Secrets,
        memory: RunMemory,
        stepping: Stepping,
        engine: Engine,
        scratch: Scratch,
        deriving: Deriving,
        commitments: Commitments,
        upkeep: RunUpkeep,
    ) -> None:
        self._parts, self._access, self._secrets = parts, access, secrets
        self.memory, self.engine, self.scratch = memory, engine, scratch
        self.deriving, self.commitments, self.upkeep = deriving, commitments, upkeep
        self._stepping = stepping
        self._forking = Forking(parts, stepping)
        self._news = asyncio.Event()
        if isinstance(parts.ledger, Announcing):
            parts.ledger.on_commit(self._wake)

    @property
    def workflows(self) -> Mapping[str, JsonObject]:
        return self.engine.workflows

    def authorise(self, principal: Principal, permission: Permission) -> None:
        """Raise unless the principal may; for what is told without asking the ledger."""
        self._access.authorise(principal, permission)

    # -- opening ------------------------------------------------------------------------------------------------

    async def open(
        self,
        principal: Principal,
        request: OpenRequest,
        key: str | None = None,
        said: JsonObject | None = None,
    ) -> Opened:
        """Begin a run. The same key and request give the first one again. `said`: all of it, as it was sent."""
        self._access.authorise(principal, Permission.WRITE)
        if not request.is_external:
            runs_workflows.found(self.workflows, request.workflow_id)
        operation = "drive_run" if request.is_external else "open_run"
        once = self._once(principal, operation, key, said or request)
        if once is not None and (first := await self._first(principal, once)) is not None:
            return first
        draft = self._drafted(principal, request)

        async def work(checked: Checked) -> Committed:
            change = OpenRun(run=runs_redacting.opened(draft, checked.redaction))
            return await self._stepping.opened(
                principal, change, _answering(once, draft.id), guard=checked.position
            )

        done = await self._secrets.checking(principal.tenant, work)
        if done.replayed is not None:
            return Opened(await self._stepping.run(principal.tenant, str(done.replayed["runId"])), True)
        kept = await self._stepping.run(principal.tenant, draft.id)
        if kept.driver is Driver.ENGINE:
            self.engine.begin(kept)
        return Opened(kept)

    def _drafted(self, principal: Principal, request: OpenRequest) -> Run:
        """The run that is asked for, before its texts are checked."""
        return Run(
            tenant=principal.tenant,
            id=self._parts.mint_id("run"),
            workflow_id=request.workflow_id,
            driver=Driver.EXTERNAL if request.is_external else Driver.ENGINE,
            status=RunStatus.RUNNING if request.is_external else RunStatus.PENDING,
            authority=runs_authority.kept(principal),
            inputs=request.inputs,
            configurable=request.configurable,
            metadata=request.metadata,
            tags=request.tags,
            agent=request.agent,
            created_at=self._parts.clock(),
        )

    def _once(self, principal: Principal, operation: str, key: str | None, request: object) -> Once | None:
        """A key is the tenant's, whoever uses it."""
        if key is None:
            return None
        if not 0 < len(key) <= self._parts.limits.key_length or not key.isprintable():
            raise InvalidError.at("/Idempotency-Key", "bad_value", "The key cannot be used.")
        body = self._parts.canonical(exact(plain(request)))
        return Once(
            principal="openwop",
            operation=operation,
            key=hashlib.sha256(f"{principal.tenant}\0{operation}\0{key}".encode()).hexdigest(),
            fingerprint=hashlib.sha256(body).hexdigest(),
            answer={},
        )

    async def _first(self, principal: Principal, once: Once) -> Opened | None:
        done = await self._parts.ledger.answered(principal.tenant, once, self._parts.clock())
        if done is None or done.replayed is None:
            return None
        return Opened(await self._stepping.run(principal.tenant, str(done.replayed["runId"])), True)

    async def fork(self, principal: Principal, request: ForkRequest, key: str | None = None) -> Opened:
        """A replay or a branch of a run."""
        self._access.authorise(principal, Permission.WRITE)
        once = self._once(principal, "fork_run", key, request)
        if once is not None and (first := await self._first(principal, once)) is not None:
            return first
        run_id = self._parts.mint_id("run")

        async def work(checked: Checked) -> Run:
            clean = self._overlaid(principal, request, checked)
            return await self._forking.fork(
                principal, clean, _answering(once, run_id), run_id, checked.position
            )

        run = await self._secrets.checking(principal.tenant, work)
        if run.driver is Driver.ENGINE:
            self.engine.begin(run)
        return Opened(run, run.id != run_id)

    def _overlaid(self, principal: Principal, request: ForkRequest, checked: Checked) -> ForkRequest:
        """What a branch is to do otherwise, without secrets."""
        given = OpenRequest(
            workflow_id="fork", inputs=request.inputs or {}, configurable=request.configurable or {}
        )
        clean = runs_redacting.opened(self._drafted(principal, given), checked.redaction)
        return replace(
            request,
            inputs=None if request.inputs is None else clean.inputs,
            configurable=None if request.configurable is None else clean.configurable,
        )

    # -- looking ------------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, run_id: str) -> Run:
        self._access.authorise(principal, Permission.READ)
        self._access.authorise_whole(principal)
        return await self._stepping.run(principal.tenant, run_id)

    async def list(
        self,
        principal: Principal,
        *,
        below: str | None = None,
        workflow_id: str | None = None,
        limit: int = 50,
    ) -> Sequence[Run]:
        """Runs of the tenant, the newest first."""
        self._access.authorise(principal, Permission.READ)
        self._access.authorise_whole(principal)
        return await self._parts.ledger.runs(
            principal.tenant, below=below, workflow_id=workflow_id, limit=max(1, min(limit, 500))
        )

    async def snapshot(self, principal: Principal, run_id: str) -> JsonObject:
        """A run as the contract shows it, with its variables."""
        run = await self.get(principal, run_id)
        variables: dict[str, Json] = {}
        for variable in await self._parts.ledger.run_variables(run.tenant, run.id):
            variables[variable.name] = variable.value
        events = await self._stepping.log(run.tenant, run.id)
        return runs_wire.run_body(run, variables, runs_wire.node_states(events))

    async def events(self, principal: Principal, run_id: str, after: int = -1) -> list[RunEvent]:
        """The log, behind a number."""
        run = await self.get(principal, run_id)
        events = await self._stepping.log(run.tenant, run.id)
        return [event for event in events if event.sequence > after]

    async def follow(
        self, principal: Principal, run_id: str, after: int = -1, *, idle_s: float = 15.0
    ) -> AsyncGenerator[tuple[RunEvent, ...]]:
        """Events as they come, until the last one; an empty tuple says that nothing happened for a while."""
        run = await self.get(principal, run_id)
        now = asyncio.get_running_loop().time
        due = now() + idle_s
        while True:
            news = self._news
            page = await self._parts.ledger.run_events(run.tenant, run.id, after)
            if page:
                after = page[-1].sequence
                due = now() + idle_s
                yield tuple(page)
                continue
            run = await self._stepping.run(run.tenant, run.id)
            if run.status.is_over and after >= run.last:
                return
            if now() >= due:
                due = now() + idle_s
                yield ()
                if run.is_expired:  # what is missing was dropped, and never comes
                    return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(_LOOK_S, max(due - now(), 0.001)))

    def _wake(self, _tenants: frozenset[str]) -> None:
        """Something was committed: whoever waits looks again."""
        self._news.set()
        self._news = asyncio.Event()

    # -- driving ------------------------------------------------------------------------------------------------

    async def driven(self, principal: Principal, run_id: str) -> Run:
        """A run that can still go on."""
        self._access.authorise(principal, Permission.WRITE)
        run = await self._stepping.run(principal.tenant, run_id)
        if run.status.is_over:
            raise runs_states.run_over(run.status)
        return run

    async def _external(self, principal: Principal, run_id: str) -> Run:
        run = await self.driven(principal, run_id)
        if run.driver is not Driver.EXTERNAL:
            raise InvalidError.at("/runId", "bad_value", "The engine drives this run.")
        return run

    async def node(
        self,
        principal: Principal,
        run_id: str,
        node_id: str,
        event: EventType,
        *,
        error: RunError | None = None,
        variables: Sequence[Variable] = (),
    ) -> Run:
        """An orchestrator outside tells what a node does."""
        run = await self._external(principal, run_id)

        async def work(checked: Checked) -> None:
            runs_redacting.failed(error, node_id, checked.redaction)
            kept = runs_redacting.results(variables, checked.redaction)
            payload: dict[str, Json] = {"nodeId": node_id, **_failure(error, checked)}
            told = Happening(type=event, node_id=node_id, payload=payload)
            change = RunStep(run_id=run.id, events=(*changed(kept), told), variables=kept)
            await self._stepping.step(run.tenant, principal.name, change, checked.position)

        await self._secrets.checking(run.tenant, work, run.id)
        return await self._stepping.run(run.tenant, run.id)

    async def complete(self, principal: Principal, run_id: str, variables: Sequence[Variable] = ()) -> Run:
        """An orchestrator outside has finished."""
        run = await self._external(principal, run_id)

        async def work(checked: Checked) -> Run:
            kept = runs_redacting.results(variables, checked.redaction)
            return await self._stepping.end(
                run, principal.name, RunStatus.COMPLETED, variables=kept, guard=checked.position
            )

        return await self._secrets.checking(run.tenant, work, run.id)

    async def fail(self, principal: Principal, run_id: str, error: RunError) -> Run:
        """An orchestrator outside gives up."""
        run = await self._external(principal, run_id)

        async def work(checked: Checked) -> Run:
            runs_redacting.failed(error, None, checked.redaction)
            told = RunError(error.code, checked.reason(error.message, "/error/message") or "")
            return await self._stepping.end(
                run, principal.name, RunStatus.FAILED, error=told, guard=checked.position
            )

        return await self._secrets.checking(run.tenant, work, run.id)

    async def cancel(self, principal: Principal, run_id: str) -> Run:
        """Ask a run to stop; one that nobody executes stops at once."""
        run = await self.driven(principal, run_id)
        await self._stepping.step(
            run.tenant, principal.name, RunStep(run_id=run.id, status=RunStatus.CANCELLING)
        )
        if run.driver is Driver.EXTERNAL:
            try:
                return await self._stepping.end(run, principal.name, RunStatus.CANCELLED)
            except ConflictError:
                ended = await self._stepping.run(run.tenant, run.id)
                if ended.status is not RunStatus.CANCELLED:
                    raise
                return ended  # whoever drives it saw that it was to end, and was faster
        self.engine.begin(run := await self._stepping.run(run.tenant, run.id))
        return run

    # -- retention ----------------------------------------------------------------------------------------------

    async def expire(self, principal: Principal, run_id: str) -> Run:
        """Drop the history of a run that is over. That there was one stays known, so that forks are refused rightly."""
        self._access.authorise(principal, Permission.ADMIN)
        run = await self._stepping.run(principal.tenant, run_id)
        await self._expire(principal, run)
        return await self._stepping.run(run.tenant, run.id)

    async def sweep(self, principal: Principal) -> int:
        """Drop the history of runs that ended longer ago than is kept; returns of how many."""
        if self._parts.host.history_ms is None:
            return 0
        self._access.authorise(principal, Permission.ADMIN)
        before = self._parts.clock() - self._parts.host.history_ms
        due = await self._parts.ledger.ended_runs(principal.tenant, before)
        for run in due:
            await self._expire(principal, run)
        return len(due)

    async def _expire(self, principal: Principal, run: Run) -> None:
        draft = Draft(op=Op.EXPIRE_RUN, actor=principal.name, at=self._parts.clock(), run=run.id)
        change = ExpireRun(run_id=run.id)
        await self._parts.ledger.commit(Commit(tenant=run.tenant, draft=draft, changes=(change,)))

    async def mint(self, principal: Principal, agent_id: str, store: str) -> MintedRef:
        return await self.memory.mint(principal, agent_id, store)

    async def close(self) -> None:
        await self.scratch.close()
        await self.engine.close()


def _answering(once: Once | None, run_id: str) -> Once | None:
    return None if once is None else replace(once, answer={"runId": run_id})


def _failure(error: RunError | None, checked: Checked) -> JsonObject:
    if error is None:
        return {}
    return runs_wire.failure(error.code, checked.reason(error.message, "/error/message") or "")
