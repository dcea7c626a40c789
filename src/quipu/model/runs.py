"""Runs: executions of agent workflows that saw memory as it was when they began, and what happened in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from quipu.model.value import Json, JsonObject


class RunStatus(StrEnum):
    """Where a run stands, in the words of the contract."""

    PENDING = "pending"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen in it."""
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class Driver(StrEnum):
    """Who makes a run go on."""

    ENGINE = "engine"
    #: An orchestrator outside, by the API.
    EXTERNAL = "external"
    #: Nobody: it repeats what another one did.
    REPLAY = "replay"


class ForkMode(StrEnum):
    """What a run that comes from another one is."""

    REPLAY = "replay"
    BRANCH = "branch"


class EventType(StrEnum):
    """What an event tells. Names of the contract."""

    RUN_STARTED = "run.started"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    NODE_STARTED = "node.started"
    NODE_COMPLETED = "node.completed"
    NODE_FAILED = "node.failed"
    VARIABLE_CHANGED = "variable.changed"
    MEMORY_WRITTEN = "memory.written"
    MEMORY_COMPACTED = "memory.compacted"
    MEMORY_CONSOLIDATED = "agent.memory.consolidated"
    COMMITMENT_FIRED = "commitment.fired"
    WORKSPACE_UPDATED = "workspace.updated"


@dataclass(frozen=True, slots=True)
class View:
    """What a run sees of memory: a journal position, and when it was taken."""

    seq: int
    at: int


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run or a node failed. Holds no content and no secret."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as it stands."""

    tenant: str
    id: str
    workflow_id: str
    driver: Driver
    status: RunStatus = RunStatus.PENDING
    #: Taken when it begins, or inherited from the run it was forked from.
    view: View | None = None
    #: Who opened it, as far as the engine needs to know to act for them.
    authority: JsonObject = field(default_factory=dict[str, Json])
    #: Without secrets, and in no event.
    inputs: JsonObject = field(default_factory=dict[str, Json])
    configurable: JsonObject = field(default_factory=dict[str, Json])
    metadata: JsonObject = field(default_factory=dict[str, Json])
    tags: tuple[str, ...] = ()
    agent: JsonObject | None = None
    #: Ids of the secrets that were resolved in it; the values are nowhere.
    secrets: tuple[str, ...] = ()
    #: The engine that executes it, or the server that keeps its notes alive, and until when others leave it alone.
    worker: str | None = None
    lease_until: int = 0
    #: Number of the last event; -1 before the first.
    last: int = -1
    source_run_id: str | None = None
    from_seq: int | None = None
    mode: ForkMode | None = None
    created_at: int
    ended_at: int | None = None
    error: RunError | None = None
    #: Its events and variables are gone; what is left says that there was such a run.
    is_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event before the ledger gives it its number."""

    type: EventType
    payload: JsonObject = field(default_factory=dict[str, Json])
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run's log. Numbers begin with 0 and have no gaps."""

    run_id: str
    sequence: int
    type: EventType
    payload: JsonObject
    node_id: str | None = None
    at: int
    causation_id: str | None = None
    #: Journal position of the commit that told it.
    position: int

    @property
    def id(self) -> str:
        """Unique within the host, because run ids are."""
        return f"{self.run_id}.{self.sequence}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A result of a run; erasing one of the records that it repeats erases it."""

    name: str
    value: Json
    record_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptVariable:
    """A variable as it was set, and by which event."""

    name: str
    value: Json
    sequence: int
    record_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a run notes for itself, and where: its scratchpad or its conversation."""

    backend: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedRef:
    """A ref that the host gave out: an opaque name of one agent's memory in one store."""

    tenant: str
    ref: str
    agent_id: str
    store_id: str
    created_at: int


# -- what a ledger is asked to write --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Begin a run. Without a view of its own it gets the position of this very commit, told by `run.started`."""

    run: Run
    #: A replay's whole log and variables, as they were recorded.
    recorded: tuple[RunEvent, ...] = ()
    variables: tuple[KeptVariable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """Something happens in a run that is not over."""

    run_id: str
    events: tuple[Happening, ...] = ()
    variables: tuple[Variable, ...] = ()
    status: RunStatus | None = None
    error: RunError | None = None
    #: The engine that says so; another one that has taken the run over meanwhile is a conflict.
    worker: str | None = None
    lease_until: int = 0
    #: The server that keeps the run's notes alive until then; while another one does, it goes on doing so.
    keeper: str | None = None
    #: Secrets that have been resolved.
    secrets: tuple[str, ...] = ()
    #: What the run notes for itself, and a place whose notes go. All of them go with the run's last step.
    note: Note | None = None
    clears: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRun:
    """Drop the events and variables of a run that is over; a small record of it stays."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRef:
    """Give out a ref."""

    ref: MintedRef


RunChange: TypeAlias = OpenRun | RunStep | ExpireRun | KeepRef
RUN_CHANGES = (OpenRun, RunStep, ExpireRun, KeepRef)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What an OpenWOP host is set to."""

    #: Test seams, fixture workflows and test secrets.
    has_seams: bool = False
    tells_writes: bool = True
    backends: frozenset[str] = frozenset({"scratchpad", "conversation", "longTerm"})
    entry_bytes: int = 65_536
    #: Agents of the inventory, as checked manifests.
    manifests: tuple[JsonObject, ...] = ()
    #: History of runs that ended longer ago than this is dropped by the sweep; None: kept.
    history_ms: int | None = None
    #: So long a run stays with a server that is not heard of any more; others look three times as often.
    lease_ms: int = 15_000
    #: Refs that the server looks after by itself, and from how many entries on they are compacted; 0: never.
    keeps: tuple[str, ...] = ()
    compact_above: int = 0
