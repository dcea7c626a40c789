"""The engine: executes runs, and goes on with those that another process left.

1. A run is executed by one engine at a time: each step renews a lease, and a lease that has passed can be taken.
2. What a node has written is in the log. A node that was interrupted is done again, and what it wrote before is
   taken from the log instead of being written twice.
3. What fails in a node fails the run, with a code. What fails in the ledger leaves the run for later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    DeadlineError,
    InvalidError,
    QuipuError,
    SecretLeakageError,
)
from quipu.model.operations import ForgetRequest
from quipu.model.principal import Principal, local
from quipu.model.record import Record
from quipu.model.runs import EventType, Happening, Run, RunError, RunEvent, RunStatus, RunStep, Variable
from quipu.ports.parts import Parts
from quipu.rules import redaction, runs_authority, runs_redacting, runs_wire, runs_workflows
from quipu.rules.runs_options import ListOptions, NewEntry
from quipu.service import runs_nodes
from quipu.service.runs_memory import Forget, RunMemory
from quipu.service.runs_nodes import Work
from quipu.service.runs_stepping import Stepping, changed
from quipu.service.secrets import Checked, Secrets

_log = logging.getLogger("quipu.runs")
_NODE_S = 10.0
#: The tenant in which a probe plants what nobody else may see.
_PROBED_TENANT = "openwop-conformance-probe"
#: Conflicts that say that somebody else has the run now.
_LOST = ("run_taken", "run_over")


class Engine:
    """Runs at work in this process."""

    def __init__(
        self,
        parts: Parts,
        memory: RunMemory,
        stepping: Stepping,
        secrets: Secrets,
        forget: Forget,
        worker: str,
    ) -> None:
        self._parts, self._memory, self._stepping, self._secrets = parts, memory, stepping, secrets
        self._forget, self._worker = forget, worker
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def workflows(self) -> Mapping[str, Any]:
        """What can be executed; fixtures exist only while the seams are on."""
        return runs_workflows.FIXTURES if self._parts.host.has_seams else {}

    def begin(self, run: Run) -> None:
        """Execute a run, beside whatever else is done."""
        key = (run.tenant, run.id)
        if self._is_closed or key in self._tasks:
            return
        task = self._tasks[key] = asyncio.create_task(self._guarded(run))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def recover(self) -> int:
        """Go on with runs that nobody is at work on; returns how many there are."""
        count = 0
        for tenant in await self._parts.ledger.tenants():
            for run in await self._parts.ledger.unfinished_runs(tenant.id, self._parts.clock()):
                if (run.tenant, run.id) not in self._tasks:
                    self.begin(run)
                    count += 1
        return count

    async def settle(self) -> None:
        """Wait until every run at work here has ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop in the middle; others may go on at once."""
        self._is_closed = True
        left = dict(self._tasks)
        for task in left.values():
            task.cancel()
        await asyncio.gather(*left.values(), return_exceptions=True)
        for tenant, run_id in left:
            try:
                await self._stepping.step(tenant, "quipu", RunStep(run_id=run_id, worker=self._worker))
            except QuipuError as error:
                _log.debug("Run %s was not let go: %s", run_id, error.code)

    # -- one run ------------------------------------------------------------------------------------------------

    async def _guarded(self, run: Run) -> None:
        """Nobody waits for it, so what goes wrong is kept in the run, or in the log."""
        try:
            await self._executed(run)
        except BackendUnavailableError as error:
            _log.warning("Run %s waits for the ledger: %s", run.id, error.code)
        except ConflictError as error:
            if error.reason not in _LOST:
                _log.warning("Run %s stopped: %s", run.id, error.reason)
        except Exception as error:  # noqa: BLE001  nobody waits for it: the run is told, and the log what kind it was
            _log.error("Run %s failed: %s", run.id, type(error).__name__)
            await self._failed(run, RunError("internal_error", "The run failed."))

    async def _failed(self, run: Run, error: RunError) -> None:
        try:
            await self._stepping.end(run, "quipu", RunStatus.FAILED, error=error, worker=self._worker)
        except QuipuError as again:
            _log.warning("Run %s could not be ended: %s", run.id, again.code)

    async def _executed(self, run: Run) -> None:
        workflow = self.workflows.get(run.workflow_id) or runs_workflows.HOSTS_OWN.get(run.workflow_id)
        cancelling = run.status is RunStatus.CANCELLING
        await self._step(run, RunStep(run_id=run.id, status=None if cancelling else RunStatus.RUNNING))
        if workflow is None:
            await self._failed(run, RunError("unknown_workflow", "The workflow is not there any more."))
            return
        principal = runs_authority.revived(run.tenant, run.authority)
        events = await self._stepping.log(run.tenant, run.id)
        try:
            for secret_id in run.secrets:  # what was resolved before an interruption must stay out after it
                await self._resolved(run, secret_id)
        except InvalidError as error:
            await self._failed(run, RunError(runs_nodes.failure_code(error), error.message))
            return
        done = {event.node_id for event in events if event.type is EventType.NODE_COMPLETED}
        done.update(cast("list[str]", run.authority.get("skips", [])))
        for node in runs_workflows.in_order(workflow):
            if node["id"] in done:
                continue
            current = await self._stepping.run(run.tenant, run.id)
            if current.status is RunStatus.CANCELLING:
                await self._stepping.end(current, "quipu", RunStatus.CANCELLED, worker=self._worker)
                return
            failure = await self._node(run, principal, node, events)
            if failure is not None:
                await self._failed(run, failure)
                return
        await self._stepping.end(run, "quipu", RunStatus.COMPLETED, worker=self._worker)

    async def _node(
        self, run: Run, principal: Principal, node: dict[str, Any], events: list[RunEvent]
    ) -> RunError | None:
        """One node. Its results and its end are one step."""
        name = str(node["id"])
        mine = [event for event in events if event.node_id == name]
        if not any(event.type is EventType.NODE_STARTED for event in mine):
            started = Happening(type=EventType.NODE_STARTED, node_id=name, payload={"nodeId": name})
            await self._step(run, RunStep(run_id=run.id, events=(started,)))
        recorded = [event for event in mine if event.type is EventType.MEMORY_WRITTEN]
        work = Work(run, node, _Around(self, run, principal, name), recorded)
        try:
            # It ends well before the lease does, so that nobody else takes the run meanwhile.
            async with asyncio.timeout(min(_NODE_S, self._parts.host.lease_ms / 1500)):
                results = await runs_nodes.performed(work)
        except TimeoutError:
            return await self._node_failed(run, name, DeadlineError(reason="node_timeout"))
        except (BackendUnavailableError, asyncio.CancelledError):
            raise
        except QuipuError as error:
            if error.reason in _LOST:
                raise
            return await self._node_failed(run, name, error)
        try:
            await self._node_completed(run, name, results)
        except SecretLeakageError as error:
            return await self._node_failed(run, name, error)
        return None

    async def _node_completed(self, run: Run, name: str, results: Sequence[Variable]) -> None:
        ended = Happening(type=EventType.NODE_COMPLETED, node_id=name, payload={"nodeId": name})

        async def work(checked: Checked) -> None:
            kept = runs_redacting.results(results, checked.redaction)
            change = RunStep(run_id=run.id, events=(*changed(kept), ended), variables=kept)
            await self._step(run, change, checked.position)

        await self._secrets.checking(run.tenant, work, run.id)

    async def _node_failed(self, run: Run, name: str, error: QuipuError) -> RunError:
        async def work(checked: Checked) -> RunError:
            message = redaction.redacted_text(error.message, checked.redaction.redactors, [])
            failure = RunError(runs_nodes.failure_code(error), message)
            payload = {"nodeId": name, **runs_wire.failure(failure.code, failure.message)}
            told = Happening(type=EventType.NODE_FAILED, node_id=name, payload=payload)
            await self._step(run, RunStep(run_id=run.id, events=(told,)), checked.position)
            return failure

        return await self._secrets.checking(run.tenant, work, run.id)

    async def _step(self, run: Run, change: RunStep, guard: int | None = None) -> None:
        until = self._parts.clock() + self._parts.host.lease_ms
        leased = RunStep(
            run_id=change.run_id,
            events=change.events,
            variables=change.variables,
            status=change.status,
            secrets=change.secrets,
            worker=self._worker,
            lease_until=until,
        )
        await self._stepping.step(run.tenant, "quipu", leased, guard)

    # -- what nodes reach ---------------------------------------------------------------------------------------

    async def resolve(self, run: Run, secret_id: str) -> str:
        """A secret of the tenant, or of the test; its value is kept out of the run from here on."""
        value = await self._resolved(run, secret_id)
        await self._step(run, RunStep(run_id=run.id, secrets=(secret_id,)))
        return value

    async def _resolved(self, run: Run, secret_id: str) -> str:
        value = await self._secrets.value(run.tenant, secret_id)
        if value is None and self._parts.host.has_seams:
            value = runs_workflows.TEST_SECRETS.get(secret_id)
        if value is None:
            raise InvalidError("The secret cannot be resolved.", reason="credential_unavailable")
        self._secrets.resolved(run.tenant, run.id, secret_id, value)
        return value

    async def planted(self, principal: Principal, ref: str) -> bool:
        """Whether an entry that another tenant has under this name stays unseen from here."""
        ledger, memory = self._parts.ledger, self._memory
        await ledger.open(_PROBED_TENANT)
        other = local(_PROBED_TENANT)
        record = await memory.put(other, ref, NewEntry(content="Of another tenant."))
        everything = ListOptions(limit=500)
        try:
            theirs = await memory.list(other, ref, everything)
            if record.id not in [entry.id for entry in theirs]:
                raise InvalidError("The probe could not be planted.", reason="bad_value")
            mine = await memory.list(principal, ref, everything)
            return (
                record.id not in [entry.id for entry in mine]
                and await memory.get(principal, ref, record.id) is None
            )
        finally:
            await self._forget(other, ForgetRequest(agent_id=ref, ids=(record.id,), hard_delete=True))

    @property
    def memory(self) -> RunMemory:
        return self._memory

    def now(self) -> int:
        return self._parts.clock()


class _Around:
    """A node's surroundings: probes read what is there now."""

    def __init__(self, engine: Engine, run: Run, principal: Principal, node_id: str) -> None:
        self._engine, self._run, self._principal, self._node_id = engine, run, principal, node_id

    async def list(self, ref: object, options: ListOptions) -> list[Record]:
        return await self._engine.memory.list(self._principal, ref, options)

    async def get(self, ref: object, entry_id: object) -> Record | None:
        return await self._engine.memory.get(self._principal, ref, entry_id)

    async def put(self, ref: object, entry: NewEntry, record_id: str | None = None) -> Record:
        return await self._engine.memory.put(
            self._principal, ref, entry, run=self._run, node_id=self._node_id, record_id=record_id
        )

    async def resolve(self, secret_id: str) -> str:
        return await self._engine.resolve(self._run, secret_id)

    async def planted(self, ref: str) -> bool:
        return await self._engine.planted(self._principal, ref)

    def now(self) -> int:
        return self._engine.now()
