"""The conformance mode: fixture workflows, two test secrets, and what carries the workflows out, in this process.

Nodes do what the published fixtures say and nothing else; an unknown type or action fails the run with a code. Their
probes read what is there now, since the suite wants a run to read back what it has just written.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from quipu.errors import ForbiddenError, InvalidError, QuipuError
from quipu.memory.pipeline import Guard
from quipu.model.principal import Permission, Principal
from quipu.model.value import JsonObject
from quipu.operation import Context
from quipu.runs import messages as m
from quipu.runs.adapter import Adapter
from quipu.runs.model import RUNS, Run
from quipu.runs.rules import moved
from quipu.runs.steps import Step, Steps
from quipu.runs.wire import entry_body

#: There in the conformance mode only.
TEST_SECRETS: Mapping[str, str] = {
    "conformance-test-secret": "conformance-test-secret-value-7f3a91",
    "openwop-conformance-canary-secret": "CANARY-openwop-CONFORMANCE-NEVER-SECRET-value",
}
_DELAY_MS, _MOST_DELAY_MS = 500, 30_000
#: How long an entry lives that is meant to expire, and how often it is looked whether it has.
_LIFE_MS, _LOOKS = 50, 200
#: A fixture run that nobody goes on with is over after so long: its server has gone.
LOST_MS = 60_000


# -- workflows --------------------------------------------------------------------------------------------------------


def _workflow(
    name: str,
    node_id: str,
    type_id: str,
    *,
    config: Mapping[str, Any] | None = None,
    agent: Mapping[str, Any] | None = None,
    variables: tuple[str, ...] = (),
) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": node_id,
        "typeId": type_id,
        "name": node_id,
        "position": {"x": 0, "y": 0},
        "config": dict(config or {}),
        "inputs": {},
    }
    return {
        "id": name,
        "name": name,
        "version": "1.0",
        "nodes": [node | ({} if agent is None else {"agent": agent})],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [{"name": variable, "type": "json"} for variable in variables],
        "metadata": {"tags": ["conformance"]},
        "settings": {"timeout": 40_000},
    }


def _memory(
    short: str, node_id: str, action: str, agent: str, *variables: str, ref: str | None = None, **config: Any
) -> dict[str, Any]:
    return _workflow(
        f"conformance-agent-memory-{short}",
        node_id,
        "core.identity",
        config={"memoryAction": action, **config},
        agent={
            "agentId": f"core.conformance.{agent}",
            "modelClass": "chat",
            "memoryRef": f"conformance/agent-memory-{ref or short}",
        },
        variables=variables,
    )


FIXTURES: Mapping[str, JsonObject] = {
    workflow["id"]: workflow
    for workflow in (
        _workflow("conformance-noop", "noop", "core.noop"),
        _workflow("conformance-idempotent", "noop", "core.noop"),
        _workflow("conformance-delay", "delay", "core.delay"),
        _memory("roundtrip", "memory-roundtrip", "write-then-read", "memory-agent", "memoryReadback"),
        _memory(
            "redaction",
            "memory-redaction-probe",
            "redaction-probe",
            "byok-agent",
            "memoryReadback",
            byokSecretId="conformance-test-secret",
        ),
        _memory("ttl", "memory-ttl-probe", "ttl-probe", "ttl-agent", "memoryList", "freshId", "expiredId"),
        _memory(
            "cross-tenant",
            "cross-tenant-probe",
            "cross-tenant-probe",
            "cti-agent",
            *("ownerEntryId", "ownerProbe", "crossTenantProbe"),
            ref="cti",
            probeMemoryRef="conformance/another-tenant/agent-memory",
        ),
        _workflow(
            "openwop-smoke-byok-roundtrip",
            "resolve-secret",
            "conformance.secret.echo",
            config={"secretId": "openwop-conformance-canary-secret"},
            variables=("resolve-secret",),
        ),
    )
}


# -- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """One node of one run, on its way."""

    ctx: Context
    run: Run
    node: Mapping[str, Any]
    adapter: Adapter
    resolve: Callable[[str], Awaitable[str]]
    sleep: Callable[[float], Awaitable[None]]

    @property
    def config(self) -> Mapping[str, Any]:
        return self.node.get("config") or {}

    @property
    def ref(self) -> str:
        agent: Mapping[str, Any] = self.node.get("agent") or {}
        ref = agent.get("memoryRef")
        if not isinstance(ref, str):
            raise InvalidError("The node has no agent with a memoryRef.", reason="no_memory_ref")
        return ref

    async def put(self, content: str, expires_at: int | None = None) -> m.MemoryEntry:
        entry = m.NewEntry(content=content, tags=("source:conformance",), expires_at=expires_at)
        request = m.PutEntryRequest(
            memory_ref=self.ref, entry=entry, run_id=self.run.id, node_id=self.node["id"]
        )
        answer = await self.adapter.put_entry(self.ctx, request)
        if answer.entry is None:
            raise InvalidError("The entry waits for approval.", reason="pending_approval")
        return answer.entry

    async def get(self, entry_id: str) -> m.MemoryEntry | None:
        request = m.GetEntryRequest(memory_ref=self.ref, id=entry_id)
        return (await self.adapter.get_entry(self.ctx, request)).entry

    async def entries(self, ref: str | None = None, ctx: Context | None = None) -> tuple[m.MemoryEntry, ...]:
        request = m.ListEntriesRequest(memory_ref=ref or self.ref, options=m.ListOptions(limit=500))
        return (await self.adapter.list_entries(ctx or self.ctx, request)).entries

    async def done(self) -> dict[str, Any]:
        """Do what the node is for; its results by name."""
        match self.node.get("typeId"):
            case "core.noop":
                return {}
            case "core.delay":
                await self.sleep(self._delay_s())
                return {}
            case "core.identity":
                return await self._identity()
            case "conformance.secret.echo":
                value = (await self.resolve(str(self.config.get("secretId")))).encode()
                digest = hashlib.sha256(value).hexdigest()
                return {self.node["id"]: {"secretSha256": digest, "secretLength": len(value)}}
            case _:
                raise InvalidError("There is no such node type.", reason="unknown_node_type")

    def _delay_s(self) -> float:
        inputs: Any = self.run.body.get("inputs") or {}
        given = inputs.get("delayMs", _DELAY_MS)
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return min(max(given if is_number else _DELAY_MS, 0), _MOST_DELAY_MS) / 1000

    async def _identity(self) -> dict[str, Any]:
        match self.config.get("memoryAction"):
            case "write-then-read":
                return await self._round_trip("Conformance entry: written, then read.")
            case "redaction-probe":
                value = await self.resolve(str(self.config.get("byokSecretId")))
                return await self._round_trip(f"The key is {value}, keep it to yourself.")
            case "ttl-probe":
                return await self._ttl()
            case "cross-tenant-probe":
                return await self._cross_tenant()
            case _:
                raise InvalidError("There is no such memoryAction.", reason="unknown_memory_action")

    async def _round_trip(self, content: str) -> dict[str, Any]:
        kept = await self.put(content)
        return {"memoryReadback": _shown(await self.get(kept.id))}

    async def _ttl(self) -> dict[str, Any]:
        fresh = await self.put("An entry that stays.", self.ctx.clock() + 3_600_000)
        expired = await self.put("An entry that is soon gone.", self.ctx.clock() + _LIFE_MS)
        for _ in range(_LOOKS):
            if await self.get(expired.id) is None:
                break
            await self.sleep(_LIFE_MS / 1000)
        entries = [_shown(entry) for entry in await self.entries()]
        return {"memoryList": entries, "freshId": fresh.id, "expiredId": expired.id}

    async def _cross_tenant(self) -> dict[str, Any]:
        """An entry that another tenant has under the probed name is there, and not here."""
        own = await self.put("An entry of the run's own tenant.")
        probed = str(self.config.get("probeMemoryRef"))
        other = Context(_stranger(), self.ctx.clock, self.ctx.services)
        entry = m.NewEntry(content="An entry of another tenant.")
        planted = (
            await self.adapter.put_entry(other, m.PutEntryRequest(memory_ref=probed, entry=entry))
        ).entry
        seen: Any = None
        try:
            if planted is None or planted.id not in {one.id for one in await self.entries(probed, other)}:
                raise InvalidError("The other tenant's entry was not kept.", reason="probe_failed")
            try:
                seen = [_shown(one) for one in await self.entries(probed)]
            except ForbiddenError:
                seen = None
        finally:
            if planted is not None:
                await self.adapter.delete_entry(other, m.DeleteEntryRequest(memory_ref=probed, id=planted.id))
        mine = [_shown(one) for one in await self.entries()]
        return {"ownerEntryId": own.id, "ownerProbe": mine, "crossTenantProbe": seen}


def _shown(entry: m.MemoryEntry | None) -> dict[str, Any] | None:
    """An entry in OpenWOP's words."""
    return None if entry is None else entry_body(entry)


def _stranger() -> Principal:
    permissions = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE})
    return Principal(tenant="conformance-another-tenant", name="conformance", permissions=permissions)


# -- the player -------------------------------------------------------------------------------------------------------


class Driving(Protocol):
    """What a run is driven by."""

    async def record_node(self, ctx: Context, request: m.RecordNodeRequest) -> m.RunView: ...
    async def end(self, ctx: Context, request: m.EndRunRequest) -> m.RunView: ...
    async def fail(self, ctx: Context, run_id: str, code: str, message: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class FixturePlayer:
    """Carries fixture workflows out while the server runs. A run whose server has gone is failed by `Runs.work`."""

    steps: Steps
    adapter: Adapter
    is_on: bool
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])

    @property
    def workflows(self) -> Mapping[str, JsonObject]:
        return FIXTURES if self.is_on else {}

    def start(self, ctx: Context, run: Run, runs: Driving) -> None:
        task = asyncio.create_task(self._play(ctx, run, runs))
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))

    def is_playing(self, run_id: str) -> bool:
        return run_id in self._tasks

    def stop(self, run_id: str) -> None:
        if (task := self._tasks.get(run_id)) is not None:
            task.cancel()

    async def close(self) -> None:
        """What is at work is given up."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _play(self, ctx: Context, run: Run, runs: Driving) -> None:
        node_id = ""
        try:
            await self._begin(ctx, run.id)
            workflow: Any = self.workflows[run.workflow_id]
            for node in workflow["nodes"]:
                node_id = str(node["id"])
                if run.nodes.get(node_id) == "completed":
                    continue
                await runs.record_node(ctx, _node(run.id, node_id, "started"))
                work = _Node(
                    ctx=ctx,
                    run=run,
                    node=node,
                    adapter=self.adapter,
                    resolve=lambda label: self._resolved(ctx, run.id, label),
                    sleep=self.sleep,
                )
                results = await work.done()
                await runs.record_node(ctx, _node(run.id, node_id, "completed", variables=results))
            await runs.end(ctx, m.EndRunRequest(run_id=run.id))
        except QuipuError as error:
            code, message = error.reason or error.code, "The node could not be carried out."
            try:
                if node_id and error.reason != "run_over":
                    failed = m.Failure(code=code, message=message)
                    await runs.record_node(ctx, _node(run.id, node_id, "failed", error=failed))
                await runs.fail(ctx, run.id, code, message)
            except QuipuError:
                return  # it was cancelled meanwhile, or nothing can be written: then it is overdue

    async def _begin(self, ctx: Context, run_id: str) -> None:
        async def plan(guard: Guard) -> Step | None:
            kept = await self.steps.ledger.kept(RUNS, ctx.tenant, run_id)
            if kept is None or kept.value.status != "pending":
                return None
            run, changes = moved(kept, (), ctx.clock(), status="running")
            return Step(run, tuple(changes))

        await self.steps.take(ctx, "start_run", run_id, plan)

    async def _resolved(self, ctx: Context, run_id: str, label: str) -> str:
        """The value of a secret, whose label the run's row has before anything is written with it."""

        async def plan(guard: Guard) -> Step | None:
            kept = await self.steps.ledger.kept(RUNS, ctx.tenant, run_id)
            if kept is None or label in kept.value.secrets:
                return None
            run, changes = moved(kept, (), ctx.clock(), secrets=(*kept.value.secrets, label))
            return Step(run, tuple(changes))

        value = await self.steps.secrets.resolve(ctx.tenant, run_id, label)
        await self.steps.take(ctx, "resolve_secret", run_id, plan)
        return value


def _node(run_id: str, node_id: str, status: Any, **more: Any) -> m.RecordNodeRequest:
    return m.RecordNodeRequest(run_id=run_id, node_id=node_id, status=status, **more)
