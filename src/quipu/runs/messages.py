"""What operations of runs take and give, in our own spelling; `wire.py` knows OpenWOP's."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, Strict, model_validator

from quipu.fields import (
    WHOLE,
    Content,
    Cursor,
    Expiry,
    IdempotencyKey,
    JsonObject,
    Name,
    Position,
    Redact,
    ShortText,
    Text,
    fault,
)
from quipu.operation import Message, Request, Response, ScopedRequest
from quipu.runs.model import Backend, Driver, EventType, ForkMode, NodeStatus, RunStatus

#: An opaque name of memory, where it is only looked up: whatever is none names nothing.
LookedUpRef = Annotated[str, Field(max_length=4096), Redact.NONE]
EntryId = Annotated[str, Field(max_length=1500), Redact.NONE]
EntryTags = Annotated[
    tuple[Annotated[str, Field(max_length=256), Redact.REWRITE], ...], Strict(False), Field(max_length=64)
]
Labels = Annotated[tuple[ShortText, ...], Strict(False), Field(max_length=64)]
After = Annotated[int, Field(ge=-1, lt=2**53), WHOLE]
PageSize = Annotated[int, Field(ge=1, le=500), WHOLE]
ListSize = Annotated[int, Field(ge=0, lt=2**31), WHOLE]
_KEY = "Repeat it with the same request, and it happens once; a key is the whole tenant's."


DifferenceKind: TypeAlias = Literal["fact", "event", "variable", "wrote", "sees"]
ModelClass: TypeAlias = Literal[
    "reasoning",
    "tool-using",
    "chat",
    "code",
    "vision",
    "multimodal",
    "embedding",
    "classification",
    "retrieval",
]


class RunAgent(Message):
    """The agent that a run is for, as OpenWOP names one."""

    agent_id: Name = Field(description="Its id.")
    name: ShortText | None = Field(default=None, description="What people call it.")
    memory_ref: Name | None = Field(default=None, description="Where it remembers.")
    model_class: ModelClass | None = Field(default=None, description="What kind of model it uses.")
    version: ShortText | None = Field(default=None, description="Its version; not together with a channel.")
    channel: ShortText | None = Field(default=None, description="Its channel; not together with a version.")
    source_manifest_id: ShortText | None = Field(default=None, description="The manifest that it comes from.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.version is not None and self.channel is not None:
            raise fault("bad_value", "/channel", "either version or channel")
        return self


class Failure(Message):
    """Why something failed, without content and secrets."""

    code: Name = Field(description="A stable word.")
    message: Text = Field(default="", description="For people.")


# -- runs -------------------------------------------------------------------------------------------------------------


class OpenRunRequest(ScopedRequest):
    """Open a run of a workflow that you carry out. It sees memory as it is now, whatever is written later, by itself too."""

    workflow_id: Name = Field(description="The workflow.")
    described_agent: RunAgent | None = Field(default=None, description="The agent, as OpenWOP describes it.")
    inputs: JsonObject = Field(default={}, description="What the workflow is given.")
    configurable: JsonObject = Field(default={}, description="How it is set.")
    metadata: JsonObject = Field(default={}, description="Anything else.")
    tags: Labels = Field(default=(), description="Labels.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class GetRunRequest(Request):
    """Show a run: where it stands, its variables, its nodes."""

    run_id: Name = Field(description="Which run.")


class ListRunsRequest(Request):
    """List runs, the newest first."""

    workflow_id: Name | None = Field(default=None, description="Only those of this workflow.")
    agent_id: Name | None = Field(default=None, description="Only those of this agent.")
    status: RunStatus | None = Field(default=None, description="Only those that stand so.")
    source_run_id: Name | None = Field(default=None, description="Only the forks of this run.")
    limit: PageSize = Field(default=50, description="So many at most.")
    cursor: Cursor | None = Field(default=None, description="`next_cursor` of the page before.")


class RunError(Response):
    """Why it failed."""

    code: str = Field(description="A stable word.")
    message: str = Field(description="For people.")


class RunView(Response):
    """A run."""

    id: str = Field(description="Its id.")
    workflow_id: str = Field(description="The workflow.")
    status: RunStatus = Field(description="Where it stands.")
    driver: Driver = Field(description="Who makes it go on.")
    agent_id: str = Field(description="Whose run it is: the agent.")
    user_id: str | None = Field(default=None, description="And the user, if it is about one.")
    opened_by: str = Field(description="Who opened it.")
    created_at: int = Field(description="When it was opened; milliseconds since 1970.")
    ended_at: int | None = Field(default=None, description="When it ended.")
    snapshot: int = Field(description="The journal position whose memory it sees.")
    snapshot_at: int = Field(description="When that was taken.")
    last_sequence: int = Field(description="The number of its last event; -1: there is none.")
    writes: int = Field(description="How many times it wrote to memory.")
    error: RunError | None = Field(default=None, description="Why it failed.")
    described_agent: dict[str, Any] | None = Field(
        default=None, description="The agent, as it was described."
    )
    tags: tuple[str, ...] = Field(default=(), description="Labels.")
    metadata: dict[str, Any] = Field(default={}, description="Anything else, as it was given.")
    configurable: dict[str, Any] = Field(default={}, description="How it is set.")
    node_states: dict[str, Any] = Field(default={}, description="Where each node stands.")
    variables: dict[str, Any] = Field(
        default={}, description="Its results; null where a memory was erased that one repeated."
    )
    source_run_id: str | None = Field(default=None, description="The run that it was forked from.")
    from_seq: int | None = Field(default=None, description="Where it was forked.")
    mode: ForkMode | None = Field(default=None, description="How it was forked.")
    history_expired: bool = Field(default=False, description="Whether its events and variables are gone.")
    replayed: bool = Field(default=False, description="True: the first answer again, for a repeated key.")


class ListRunsResponse(Response):
    """A page of runs, without their variables."""

    runs: tuple[RunView, ...] = Field(description="The newest first.")
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` to go on; none: that was all."
    )


class RecordNodeRequest(Request):
    """Record what became of a node of a run, and the results it had."""

    run_id: Name = Field(description="Which run.")
    node_id: Name = Field(description="The node.")
    status: NodeStatus = Field(description="What became of it.")
    error: Failure | None = Field(default=None, description="Why it failed.")
    variables: JsonObject = Field(default={}, description="Results by name.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class EndRunRequest(Request):
    """End a run. A summary of it is remembered, and its notes are gone."""

    run_id: Name = Field(description="Which run.")
    status: Literal["completed", "failed"] = Field(default="completed", description="How it ended.")
    error: Failure | None = Field(default=None, description="Why it failed.")
    variables: JsonObject = Field(default={}, description="Last results by name.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class CancelRunRequest(Request):
    """Cancel a run that is not over."""

    run_id: Name = Field(description="Which run.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class GetWorkflowRequest(Request):
    """Show a workflow of this server; there are some in the conformance mode only."""

    workflow_id: Annotated[str, Field(max_length=256), Redact.NONE] = Field(description="Which one.")


class WorkflowView(Response):
    """A workflow."""

    workflow: dict[str, Any] = Field(description="Its nodes and how they follow each other.")


# -- forks ------------------------------------------------------------------------------------------------------------


class Overlay(Message):
    """What is to be different in a branch."""

    inputs: JsonObject | None = Field(default=None, description="Other inputs.")
    configurable: JsonObject | None = Field(default=None, description="Other settings.")
    tags: Labels | None = Field(default=None, description="Other labels.")


class ForkRunRequest(Request):
    """Fork a run. A replay repeats its log and does nothing; a branch is a new run that sees what the old one saw."""

    run_id: Name = Field(description="Which run.")
    mode: ForkMode = Field(default="replay", description="`replay` or `branch`.")
    from_seq: Position | None = Field(
        default=None, description="A branch has the events before this one; a replay has all of them."
    )
    overlay: Overlay | None = Field(default=None, description="What is different in a branch.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)

    @model_validator(mode="after")
    def _as_its_mode_wants(self) -> Self:
        if self.mode == "branch" and self.from_seq is None:
            raise fault("missing_field", "/from_seq", "the number of the first event that is different")
        if self.mode == "replay" and self.overlay is not None:
            raise fault("bad_value", "/overlay", "nothing: a replay repeats what was")
        return self


class ForkRunResponse(Response):
    """The new run."""

    run: RunView = Field(description="As it stands.")
    source_run_id: str = Field(description="The run that it was forked from.")
    from_seq: int = Field(description="Where.")
    mode: ForkMode = Field(description="How.")
    replayed: bool = Field(default=False, description="True: the first answer again, for a repeated key.")


class CompareRunsRequest(Request):
    """Compare two runs: where their events part, what each wrote, what each sees of memory, and which variables differ."""

    run_id: Name = Field(description="The one run.")
    other_id: Name = Field(description="The other.")
    limit: PageSize = Field(default=50, description="So many differences of each kind at most.")


class Difference(Response):
    """One thing in which two runs differ."""

    kind: DifferenceKind = Field(
        description="`fact`: what is said of the run; `event`: from where they part; `variable`; `wrote`: a memory that it wrote; `sees`: a memory that it sees."
    )
    name: str = Field(description="What it is: a name, the number of an event, the id of a memory.")
    run: Any = Field(
        description="How it is in the one run; none: it is not there. Of a memory that was written its memoryRef, of one that is seen its text."
    )
    other: Any = Field(description="How it is in the other.")


class RunComparison(Response):
    """Two runs, and what is different."""

    run: RunView = Field(description="The one, without its variables.")
    other: RunView = Field(description="The other, without its variables.")
    parts_at: int | None = Field(
        default=None,
        description="The number of the first event that is different, ids of memories and times aside; none: no event is.",
    )
    differences: tuple[Difference, ...] = Field(description="Kind by kind.")
    is_cut: bool = Field(default=False, description="True: there are more of some kind.")
    not_compared: str | None = Field(
        default=None, description="Why what they see of memory is not compared; none: it is."
    )


# -- events and notes -------------------------------------------------------------------------------------------------


class ListRunEventsRequest(Request):
    """List the events of a run, in their order."""

    run_id: Name = Field(description="Which run.")
    after: After = Field(default=-1, description="Only those behind this number.")
    limit: PageSize = Field(default=500, description="So many at most.")


class RunEventView(Response):
    """Something that happened in a run. It never says what a memory says."""

    id: str = Field(description="Its id.")
    sequence: int = Field(description="Its number: from 0, without gaps.")
    type: EventType = Field(description="What happened.")
    at: int = Field(description="When; milliseconds since 1970.")
    node_id: str | None = Field(default=None, description="The node.")
    payload: dict[str, Any] = Field(description="What there is to say of it: ids and names.")
    causation_id: str | None = Field(default=None, description="The event that this one repeats.")


class ListRunEventsResponse(Response):
    """A part of a run's log."""

    events: tuple[RunEventView, ...] = Field(description="In their order.")
    is_complete: bool = Field(description="Whether the run is over and nothing follows these.")


class RunNotesRequest(Request):
    """See, add or clear the notes of a run: its scratchpad or its conversation. They are gone when it ends."""

    run_id: Name = Field(description="Which run.")
    backend: Backend = Field(description="`scratchpad` or `conversation`.")
    action: Literal["list", "add", "clear"] = Field(default="list", description="What to do.")
    content: Content | None = Field(default=None, description="The note to add.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)

    @model_validator(mode="after")
    def _says_what_to_add(self) -> Self:
        if (self.action == "add") != (self.content is not None):
            raise fault(
                "missing_field" if self.action == "add" else "bad_value", "/content", "the note to add"
            )
        return self


class NoteView(Response):
    """A note."""

    id: str = Field(description="Its id.")
    text: str = Field(description="What it says.")


class RunNotesResponse(Response):
    """The notes as they stand now."""

    notes: tuple[NoteView, ...] = Field(description="In the order they were taken.")
    replayed: bool = Field(default=False, description="True: it was done before, for a repeated key.")


# -- entries ----------------------------------------------------------------------------------------------------------


class MintMemoryRefRequest(ScopedRequest):
    """Give out an opaque name for the memory of an agent in a store: always the same one."""

    store: Name = Field(default="main", description="The store.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class MemoryRefView(Response):
    """A name that was given out."""

    memory_ref: str = Field(description="It names memory; nothing can be read off it.")
    replayed: bool = Field(default=False, description="True: the first answer again, for a repeated key.")


class ListOptions(Message):
    """What to list."""

    limit: ListSize = Field(default=0, description="So many at most, and never more than 500; 0 is 100.")
    tag: Annotated[str, Field(min_length=1, max_length=256), Redact.NONE] | None = Field(
        default=None, description="Only those with this tag."
    )


class ListEntriesRequest(Request):
    """List entries, the newest first: what a run saw when it began, or without a run what is there now."""

    memory_ref: LookedUpRef = Field(
        description="Whose memory: the name of an agent, or a name that was given out."
    )
    options: ListOptions = Field(default=ListOptions(), description="What to list.")
    cursor: Cursor | None = Field(default=None, description="`next_cursor` of the page before.")
    run_id: Name | None = Field(default=None, description="The run that reads.")


class MemoryEntry(Response):
    """An entry."""

    id: str = Field(description="Its id.")
    content: str = Field(description="The text.")
    tags: tuple[str, ...] = Field(description="Labels.")
    created_at: int = Field(description="When it was written; milliseconds since 1970.")
    expires_at: int | None = Field(default=None, description="From when on nobody sees it.")


class ListEntriesResponse(Response):
    """A page of entries."""

    entries: tuple[MemoryEntry, ...] = Field(description="The newest first.")
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` to go on; none: that was all."
    )


class GetEntryRequest(Request):
    """Read an entry: as a run saw it when it began, or without a run as it is now."""

    memory_ref: LookedUpRef = Field(description="Whose memory.")
    id: EntryId = Field(description="Which entry.")
    run_id: Name | None = Field(default=None, description="The run that reads.")


class GetEntryResponse(Response):
    """The entry, if there is one."""

    entry: MemoryEntry | None = Field(description="None: there is none that may be seen.")


class NewEntry(Message):
    """An entry to be written."""

    content: Content = Field(description="The text; at most 65,536 bytes.")
    tags: EntryTags = Field(default=(), description="Labels; empty ones are dropped.")
    expires_at: Expiry | None = Field(
        default=None, description="Unseen from then on: milliseconds since 1970, or a duration such as 30d."
    )


class HeldEntry(Response):
    """A write that waits for a person."""

    proposal_id: str = Field(description="What waits.")
    approval_url: str | None = Field(default=None, description="Where the person decides.")


class _WritesEntries(Response):
    held: HeldEntry | None = Field(default=None, description="Set: nothing happened yet, a person decides.")

    @property
    def is_held(self) -> bool:
        return self.held is not None


class PutEntryRequest(Request):
    """Write an entry, as every memory is written: redacted, judged, journaled, and named in the log of the run."""

    memory_ref: Annotated[str, Field(max_length=4096), Redact.REFUSE] = Field(
        description="Whose memory: the name of an agent, or a name that was given out."
    )
    entry: NewEntry = Field(description="The entry.")
    run_id: Name | None = Field(default=None, description="The run that writes.")
    node_id: Name | None = Field(default=None, description="The node that writes.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class PutEntryResponse(_WritesEntries):
    """The entry as it was kept."""

    entry: MemoryEntry | None = Field(default=None, description="None while a person decides.")
    replayed: bool = Field(default=False, description="True: the first answer again, for a repeated key.")


class DeleteEntryRequest(Request):
    """Delete an entry, for everybody but runs that began before."""

    memory_ref: LookedUpRef = Field(description="Whose memory.")
    id: EntryId = Field(description="Which entry.")
    run_id: Name | None = Field(default=None, description="The run that deletes.")
    node_id: Name | None = Field(default=None, description="The node that deletes.")
    idempotency_key: IdempotencyKey | None = Field(default=None, description=_KEY)


class DeleteEntryResponse(_WritesEntries):
    """Whether there was one."""

    deleted: bool = Field(description="True: it was there, and is deleted now.")
    replayed: bool = Field(default=False, description="True: the first answer again, for a repeated key.")
