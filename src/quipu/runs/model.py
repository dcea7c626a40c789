"""Runs: executions of somebody's workflow, what happened in them, and what they keep. Rows and nothing else.

Rule 1: A run goes `pending` → `running` → one of the three ends; `cancelling` is on the way to `cancelled` alone.
Rule 2: What is over stays over. Only a write that a person approves late adds an event behind the end.
Rule 3: Events are numbered from 0 without gaps: whoever adds some expects the run's row as it was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quipu.ledger.table import Table

RunStatus: TypeAlias = Literal["pending", "running", "cancelling", "completed", "failed", "cancelled"]
#: Who makes it go on: whoever opened it, this server (fixtures of the conformance mode), nobody.
Driver: TypeAlias = Literal["external", "fixture", "replay"]
ForkMode: TypeAlias = Literal["replay", "branch"]
End: TypeAlias = Literal["completed", "failed", "cancelled"]
NodeStatus: TypeAlias = Literal["started", "completed", "failed"]
Backend: TypeAlias = Literal["scratchpad", "conversation"]
EventType: TypeAlias = Literal[
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "node.started",
    "node.completed",
    "node.failed",
    "variable.changed",
    "memory.written",
]
ENDS: Mapping[End, EventType] = {
    "completed": "run.completed",
    "failed": "run.failed",
    "cancelled": "run.cancelled",
}
#: What may follow what; an end has no way on.
TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = {
    "pending": frozenset({"running", "cancelling", "failed"}),
    "running": frozenset({"cancelling", "completed", "failed"}),
    "cancelling": frozenset({"cancelled", "failed"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as it stands. It belongs to an agent, and to a user where one was named."""

    id: str
    workflow_id: str
    status: RunStatus
    driver: Driver
    agent_id: str
    user_id: str | None = None
    #: The principal that opened it.
    opened_by: str
    #: Journal position of the commit that opened it, and what a fork saw instead: that of its source.
    position: int = 0
    view: int | None = None
    #: When what it sees was taken.
    taken_at: int
    #: Inputs, configurable, metadata, tags and agent as they were given, without secrets.
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: Labels of the secrets that were resolved in it; the values are nowhere.
    secrets: tuple[str, ...] = ()
    #: Number of the last event; -1 before the first.
    last: int = -1
    #: Where each node stands.
    nodes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: How many entries of memory it wrote.
    writes: int = 0
    #: The end that was decided, while the last words are written.
    ending: End | None = None
    error: Mapping[str, Any] | None = None
    source_run_id: str | None = None
    from_seq: int | None = None
    mode: ForkMode | None = None
    created_at: int
    ended_at: int | None = None
    #: Its events and variables are gone; the row says that there was such a run.
    is_expired: bool = False

    @property
    def is_over(self) -> bool:
        return not TRANSITIONS[self.status]

    @property
    def seen(self) -> int:
        """The journal position whose memory it sees."""
        return self.position if self.view is None else self.view


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run's log."""

    run_id: str
    sequence: int
    type: EventType
    node_id: str | None = None
    #: Ids and names; never what a memory says.
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: Of `memory.written`: the version that was written. Its tags are read from there.
    record_id: str | None = None
    record_version: int | None = None
    at: int
    causation_id: str | None = None
    #: Journal position of its commit.
    position: int = 0

    @property
    def id(self) -> str:
        return event_id(self.run_id, self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A result of a run, by its name."""

    run_id: str
    name: str
    #: The event that set it.
    sequence: int
    #: JSON text; none once a memory that it repeated was erased.
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableRecord:
    """A memory that a variable names, so that erasing it empties the variable."""

    record_id: str
    run_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that a run notes for itself; gone when it ends."""

    run_id: str
    backend: Backend
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """An opaque name that was given out for the memory of an agent in a store."""

    ref: str
    agent_id: str
    store_id: str
    created_at: int


def event_id(run_id: str, sequence: int) -> str:
    """Unique within the server, because run ids are."""
    return f"{run_id}.{sequence}"


RUNS = Table("run", Run, key=("id",), stamps="position")
EVENTS = Table("run_event", RunEvent, key=("run_id", "sequence"), stamps="position")
VARIABLES = Table("run_variable", Variable, key=("run_id", "name"))
VARIABLE_RECORDS = Table(
    "run_variable_record", VariableRecord, key=("record_id", "run_id", "name"), names=("record_id",)
)
NOTES = Table("run_note", Note, key=("run_id", "backend", "id"))
MEMORY_REFS = Table("memory_ref", MemoryRef, key=("ref",))
TABLES: tuple[Table[Any], ...] = (RUNS, EVENTS, VARIABLES, VARIABLE_RECORDS, NOTES, MEMORY_REFS)
