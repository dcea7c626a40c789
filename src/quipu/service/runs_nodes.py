"""What nodes do: the few node types that the engine knows."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quipu.errors import ForbiddenError, InvalidError, QuipuError, UnsupportedError
from quipu.model.record import Record
from quipu.model.runs import Run, RunEvent, Variable
from quipu.model.value import Json
from quipu.rules import runs_workflows
from quipu.rules.runs_options import ListOptions, NewEntry, size
from quipu.rules.runs_wire import entry_body, entry_id

_EVERYTHING = ListOptions(limit=500)
#: How long an entry lives that is meant to expire, and how often it is looked whether it has.
_LIFE_MS = 5
_LOOKS = 400


class Surroundings(Protocol):
    """What a node can do; handed in by the engine."""

    async def list(self, ref: object, options: ListOptions) -> list[Record]: ...

    async def get(self, ref: object, entry_id: object) -> Record | None: ...

    async def put(self, ref: object, entry: NewEntry, record_id: str | None = None) -> Record: ...

    async def resolve(self, secret_id: str) -> str:
        """The value of a secret, which from then on is kept out of whatever the run writes."""
        ...

    async def planted(self, ref: str) -> bool:
        """An entry of another tenant under that name: written, listed there, and not seen from here; then removed."""
        ...

    def now(self) -> int: ...


@dataclass(slots=True)
class Work:
    """One node of one run, on its way."""

    run: Run
    node: Mapping[str, Any]
    around: Surroundings
    #: What the node wrote before the engine was interrupted, in order: it is not written again.
    recorded: Sequence[RunEvent] = ()
    _used: int = field(default=0)

    @property
    def config(self) -> Mapping[str, Any]:
        return self.node.get("config") or {}

    @property
    def ref(self) -> str:
        """The memory of the node's agent."""
        agent: Mapping[str, Any] = self.node.get("agent") or {}
        ref = agent.get("memoryRef")
        if not isinstance(ref, str):
            raise InvalidError("The node has no agent with a memoryRef.", reason="no_memory_ref")
        return ref

    async def put(
        self, content: str, *, ref: str | None = None, tags: Sequence[str] = (), life: int | None = None
    ) -> str:
        """Write an entry, or name the one that was written before an interruption."""
        if self._used < len(self.recorded):
            event = self.recorded[self._used]
            self._used += 1
            return str(event.payload["memoryId"])
        expires_at = None if life is None else self.around.now() + life
        entry = NewEntry(content=content, tags=tuple(tags), expires_at=expires_at)
        record = await self.around.put(ref or self.ref, entry)
        return entry_id(record)


def told(name: str, records: Sequence[Record], value: Json) -> Variable:
    """A result that repeats entries."""
    return Variable(name, value, tuple(record.id for record in records))


async def performed(work: Work) -> list[Variable]:
    """Do what the node is for."""
    match work.node.get("typeId"):
        case runs_workflows.NOOP:
            return []
        case runs_workflows.IDENTITY:
            return await _identity(work)
        case runs_workflows.SECRET_ECHO:
            return await _secret_echo(work)
        case _:
            raise UnsupportedError("There is no such node type.", reason="node_type")


async def _identity(work: Work) -> list[Variable]:
    action = work.config.get("memoryAction")
    if action is None:
        return [Variable("payload", work.run.inputs.get("payload"))]
    match action:
        case "write-then-read":
            return await _round_trip(work, "Conformance entry: written, then read.")
        case "redaction-probe":
            value = await work.around.resolve(str(work.config.get("byokSecretId")))
            return await _round_trip(work, f"The key is {value}, keep it to yourself.")
        case "ttl-probe":
            return await _ttl(work)
        case "cross-tenant-probe":
            return await _cross_tenant(work)
        case "list-budgeted":
            return await _budgeted(work)
        case _:
            raise UnsupportedError("There is no such memoryAction.", reason="memory_action")


async def _round_trip(work: Work, content: str) -> list[Variable]:
    name = await work.put(content, tags=("source:conformance",))
    record = await work.around.get(work.ref, name)
    return [
        Variable("memoryReadback", None)
        if record is None
        else told("memoryReadback", [record], entry_body(record))
    ]


async def _ttl(work: Work) -> list[Variable]:
    fresh = await work.put("An entry that stays.", life=3_600_000)
    expired = await work.put("An entry that is soon gone.", life=_LIFE_MS)
    for _ in range(_LOOKS):
        if await work.around.get(work.ref, expired) is None:
            break
        await asyncio.sleep(_LIFE_MS / 1000)
    entries = await work.around.list(work.ref, _EVERYTHING)
    return [
        told("memoryList", entries, [entry_body(entry) for entry in entries]),
        Variable("freshId", fresh),
        Variable("expiredId", expired),
    ]


async def _cross_tenant(work: Work) -> list[Variable]:
    own = await work.put("An entry of the run's own tenant.")
    mine = await work.around.list(work.ref, _EVERYTHING)
    probed = str(work.config.get("probeMemoryRef"))
    try:
        is_hidden = await work.around.planted(probed)
        seen: Json = [] if is_hidden else [{"error": "visible"}]
    except ForbiddenError:
        seen = None
    return [
        Variable("ownerEntryId", own),
        told("ownerProbe", mine, [entry_body(entry) for entry in mine]),
        Variable("crossTenantProbe", seen),
    ]


async def _budgeted(work: Work) -> list[Variable]:
    """The entry that is too large is the oldest, the one with the secret the newest."""
    asked = work.run.inputs.get("tokenBudget") or work.config.get("tokenBudget")
    budget = asked if isinstance(asked, int) and asked > 0 else runs_workflows.BUDGET
    ref = f"{work.ref}/{work.run.id}"
    too_large = await work.put("x" * (budget + 1), ref=ref)
    await work.put("Lighthouses guide ships along the rocky coast.", ref=ref)
    await work.put("Bread rises when yeast is warm.", ref=ref)
    value = await work.around.resolve(str(work.config.get("byokSecretId")))
    secret = await work.put(f"Today's key is {value}.", ref=ref)
    entries = await work.around.list(ref, ListOptions(limit=500, token_budget=budget))
    names: list[Json] = [entry_id(entry) for entry in entries]
    everything = await work.around.list(ref, _EVERYTHING)
    relevant = await work.around.list(ref, ListOptions(limit=500, query="lighthouses guide ships coast"))
    kept = next((entry for entry in everything if entry_id(entry) == secret), None)
    sample: Json = None if kept is None else kept.content
    is_hidden = await work.around.planted(f"{ref}/another-tenant")
    return [
        Variable("tokenBudget", budget),
        Variable("budgetedTokenTotal", sum(size(entry.content) for entry in entries)),
        told("budgetedEntries", entries, [entry_body(entry) for entry in entries]),
        Variable("overBudgetEntryId", too_large),
        Variable("overBudgetEntryOmitted", too_large not in names),
        Variable("redactedContentSample", sample, () if kept is None else (kept.id,)),
        Variable("crossTenantBudgetedProbe", [] if is_hidden else [{"error": "visible"}]),
        Variable("recencyOrder", [entry_id(entry) for entry in everything]),
        Variable("relevanceOrder", [entry_id(entry) for entry in relevant]),
    ]


async def _secret_echo(work: Work) -> list[Variable]:
    """That a secret was resolved is shown by its hash and its length."""
    value = (await work.around.resolve(str(work.config.get("secretId")))).encode("utf-8")
    shown: Json = {"secretSha256": hashlib.sha256(value).hexdigest(), "secretLength": len(value)}
    return [Variable(str(work.node["id"]), shown)]


def failure_code(error: QuipuError) -> str:
    """The typed code of a node that failed."""
    if error.reason in (
        "node_type",
        "memory_action",
        "no_memory_ref",
        "credential_unavailable",
        "node_timeout",
    ):
        return {"node_type": "unknown_node_type", "memory_action": "unknown_memory_action"}.get(
            error.reason, error.reason
        )
    return error.code
