"""What audit keeps, takes and gives; and the list of faults that a verification makes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, Strict, model_validator

from quipu.fields import Count, Cursor, Moment, Name, Position, Redact, Share, ShortText, Text, fault
from quipu.ledger.table import Table
from quipu.operation import Request, Response

UndoAction: TypeAlias = Literal["undo", "quarantine"]
Step: TypeAlias = Literal["forget", "erase", "revert", "restore", "quarantine", "archive", "leave"]
Outcome: TypeAlias = Literal["done", "held", "left", "failed"]
#: Every tenant of the ledger.
EVERY_TENANT = "*"

Target = Annotated[str, Field(min_length=1, max_length=2048), Redact.NONE]
Globs = Annotated[tuple[ShortText, ...], Strict(False), Field(max_length=100)]

#: The files of an export.
JOURNAL, CHECKPOINTS, KEYS, RECORDS = "journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"
FILES = (JOURNAL, CHECKPOINTS, KEYS, RECORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """A position of the journal that was published outside of the database."""

    target: str
    #: The position, and its hash in hexadecimal digits.
    entry: int
    hash: str
    at: int
    #: What the target answered.
    proof: str


ANCHORS = Table("anchor", Anchored, key=("target", "entry"))


# -- the journal ------------------------------------------------------------------------------------------------------


class CheckpointView(Response):
    """A signed statement of where the journal stood."""

    tenant: str = Field(description="Whose journal.")
    seq: int = Field(description="The position.")
    hash: str = Field(description="Its hash.")
    at: int = Field(description="When it was signed; milliseconds since 1970.")
    key_id: str = Field(description="The key that signed it.")
    signature: str = Field(description="Ed25519 over the canonical JSON of tenant, seq, hash and at.")


class HeadView(Response):
    """Where the journal ends."""

    seq: int = Field(description="The last position; 0: nothing has happened yet.")
    hash: str = Field(description="Its hash.")
    at: int = Field(description="When it was written; milliseconds since 1970.")


class MentionView(Response):
    """A version that an entry names."""

    id: str = Field(description="The memory.")
    version: int = Field(description="Its version.")
    digest: str = Field(description="The digest that the version had.")


class EntryView(Response):
    """One entry of the journal. It holds no content."""

    seq: int = Field(description="Its position.")
    at: int = Field(description="When; milliseconds since 1970.")
    actor: str = Field(description="Who.")
    op: str = Field(description="What happened.")
    agent_id: str | None = Field(default=None, description="Whose memory.")
    store: str | None = Field(default=None, description="The id of the memory store.")
    run_id: str | None = Field(default=None, description="The workflow run.")
    node_id: str | None = Field(default=None, description="The node of the workflow.")
    records: tuple[MentionView, ...] = Field(default=(), description="The versions it is about.")
    detail: dict[str, Any] = Field(description="More about it: ids, numbers and fixed words.")
    hash: str = Field(description="Its hash, over all of it and the hash before.")


class JournalRequest(Request):
    """Read the journal: who did what, when, to which memories. Without content."""

    op: Name | None = Field(default=None, description="Only this kind of entry, such as remember or approve.")
    agent_id: Name | None = Field(default=None, description="Only of this agent.")
    user_id: Name | None = Field(default=None, description="Only about memories of this user.")
    actor: Name | None = Field(default=None, description="Only what this principal did.")
    run: Name | None = Field(default=None, description="Only what this run did.")
    record: Name | None = Field(default=None, description="Only about this memory.")
    since: Moment | None = Field(default=None, description="From then on; milliseconds since 1970.")
    until: Moment | None = Field(default=None, description="Until then; milliseconds since 1970.")
    cursor: Cursor | None = Field(default=None, description="next_cursor of the page before.")
    limit: Count = Field(default=100, description="At most so many entries.")
    newest_first: bool = Field(default=False, description="The newest first.")


class JournalResponse(Response):
    """A page of the journal."""

    entries: tuple[EntryView, ...] = Field(description="The entries.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins; none: the end.")
    head: HeadView = Field(description="Where the journal ends.")
    signed: CheckpointView | None = Field(default=None, description="The last position that was signed.")


class JournalHeadRequest(Request):
    """Say where the journal ends: the last position and its hash."""


class ListCheckpointsRequest(Request):
    """List the signed positions of the journal, and the public keys to check them with."""

    after: Position = Field(default=0, description="Only behind this position.")
    limit: Count = Field(default=1000, description="At most so many.")


class ListCheckpointsResponse(Response):
    """Signed positions, in order."""

    checkpoints: tuple[CheckpointView, ...] = Field(description="The signed positions.")
    keys: dict[str, str] = Field(description="Public keys by their ids, as base64url.")


class SignCheckpointRequest(Request):
    """Sign where the journal stands now."""


class AnchorRequest(Request):
    """Sign where the journal stands now, and publish it outside of the database."""

    target: Target | None = Field(default=None, description="One of the configured targets; none: all.")


class AnchorView(Response):
    """A published position."""

    target: str = Field(description="Where.")
    seq: int = Field(description="The position.")
    hash: str = Field(description="Its hash.")
    proof: str = Field(description="What the target answered.")


class AnchorResponse(Response):
    """What was published."""

    anchors: tuple[AnchorView, ...] = Field(description="One for each target.")


class ExportJournalRequest(Request):
    """Export the journal as lines of files that are verified without the ledger.

    Position, entries, signatures, keys, and every version with its salt. All of it is as of the position that is signed
    first; when something is erased meanwhile, the export ends with an error and is to be begun again.
    """

    with_records: bool = Field(default=True, description="The versions too; without them only the chain.")


class ExportLine(Response):
    """One line of an export."""

    file: str = Field(description="The file it belongs into.")
    line: str = Field(description="The line, without its end.")


# -- verification -----------------------------------------------------------------------------------------------------


class AuditFault(Response):
    """Something that is not what was written."""

    kind: str = Field(description="What is wrong, as a stable word.")
    seq: int | None = Field(default=None, description="The journal position it is about.")
    id: str | None = Field(default=None, description="The memory or the row it is about.")
    detail: str = Field(description="What is wrong, in words.")


class TenantReport(Response):
    """What was verified of one tenant."""

    tenant: str = Field(description="Whose journal.")
    entries: int = Field(description="Entries of the journal.")
    records: int = Field(description="Versions of memories.")
    side_rows: int = Field(description="Rows that other parts of Quipu keep.")
    checkpoints: int = Field(description="Signed positions.")
    anchors: int = Field(description="Positions that were published outside of the database.")
    head_seq: int = Field(description="The last position.")
    head_hash: str = Field(description="Its hash.")
    faults: tuple[AuditFault, ...] = Field(
        description="What is not as it was written, the first cause first."
    )
    fault_count: int = Field(description="How many faults there are; at most 1000 are named.")
    unverifiable: tuple[str, ...] = Field(description="What could not be checked, and why.")
    reasons: tuple[str, ...] = Field(description="The same as stable words.")

    @property
    def is_verified(self) -> bool:
        return not self.fault_count


class VerifyRequest(Request):
    """Check that journal, memories and all other rows are what was written.

    Every entry, every version, every row, what search knows, signatures, published positions, and the schema itself.
    """

    tenant: Name | None = Field(
        default=None,
        description="Another tenant, or * for every one: for who runs the server. None: one's own.",
    )


class VerifyResponse(Response):
    """What was verified, and what is not as it was written."""

    verified: bool = Field(description="True: there is no fault.")
    tenants: tuple[TenantReport, ...] = Field(description="One report for each tenant.")
    faults: tuple[AuditFault, ...] = Field(
        default=(), description="Faults of the database itself: its tables, triggers and pages."
    )
    unverifiable: tuple[str, ...] = Field(
        default=(), description="What of the database itself could not be checked."
    )


#: How a reason begins that says that a cause was undone.
UNDONE = "undo: "

# -- undo -------------------------------------------------------------------------------------------------------------


class UndoRequest(Request):
    """Find what a cause did to memory, or what looks suspicious, and undo it. First a trial, unless it is said otherwise.

    Conditions are combined by and. What came goes, what was changed is as before, what was taken away comes
    back; what somebody else has changed since is left alone.
    """

    agent_id: Name | None = Field(default=None, description="Only memories of this agent; none: of all.")
    source: ShortText | None = Field(default=None, description="What came from this source, such as web_*.")
    run_id: Name | None = Field(default=None, description="What this run did.")
    import_id: Name | None = Field(default=None, description="What this import brought.")
    pass_id: Name | None = Field(default=None, description="What this consolidation pass did.")
    proposal_id: Name | None = Field(default=None, description="What came of this proposal.")
    principal: Name | None = Field(default=None, description="What this principal did.")
    since: Moment | None = Field(
        default=None, description="What was done from then on; milliseconds since 1970."
    )
    until: Moment | None = Field(
        default=None, description="What was done until then; milliseconds since 1970."
    )
    trusted: Globs = Field(
        default=(), description="Suspicious is what has none of these sources, such as user or crm_*."
    )
    confidence_below: Share | None = Field(default=None, description="Suspicious is what is less sure.")
    detectors: bool = Field(default=False, description="Suspicious is what reads like an instruction.")
    action: UndoAction = Field(
        default="undo",
        description="undo, or quarantine: out of sight until a person has decided whether it comes back.",
    )
    hard_delete: bool = Field(default=False, description="Erase for good what would be forgotten.")
    dry_run: bool = Field(default=True, description="Only say what would be done.")
    reason: Text | None = Field(default=None, description="Why; kept with the history.")
    limit: Count = Field(default=1000, description="At most so many memories.")

    @property
    def has_cause(self) -> bool:
        causes = (self.source, self.run_id, self.import_id, self.pass_id, self.proposal_id, self.principal)
        return any(one is not None for one in (*causes, self.since, self.until))

    @property
    def has_suspicion(self) -> bool:
        return bool(self.trusted) or self.confidence_below is not None or self.detectors

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if not self.has_cause and not self.has_suspicion:
            raise fault(
                "no_scope",
                "",
                "a cause (source, run_id, import_id, pass_id, proposal_id, principal, since, until) "
                "or a suspicion (trusted, confidence_below, detectors)",
            )
        return self


class UndoFinding(Response):
    """One memory, and what is to be done to it."""

    id: str = Field(description="The memory.")
    version: int = Field(description="Its newest version.")
    type: str = Field(description="Its type.")
    content: str = Field(description="The beginning of its text; nothing of one that is labelled secret.")
    source: str | None = Field(default=None, description="Where it came from.")
    written_by: str = Field(description="Who wrote the newest version.")
    step: Step = Field(description="What is to be done.")
    why: str = Field(description="Why.")
    back_to: int | None = Field(default=None, description="The version that comes back.")
    outcome: Outcome | None = Field(default=None, description="What became of it; none in a trial.")
    detail: str | None = Field(default=None, description="The proposal that it waits as, or why it failed.")


class UndoResponse(Response):
    """What was found, and what was done."""

    dry_run: bool = Field(description="True: nothing was done.")
    is_cut: bool = Field(description="True: there is more than the limit.")
    withdrawn: int = Field(
        default=0,
        description="Memories of the import that waited for a person, and are dropped, or would be.",
    )
    findings: tuple[UndoFinding, ...] = Field(
        description="One for each memory, the first that was touched first."
    )


# -- what a verification finds ---------------------------------------------------------------------------------------

#: What could not be checked: a stable word → the same in words, each once.
Unverifiable: TypeAlias = dict[str, str]
#: All faults are counted, and so many are named.
_MOST = 1_000


class Faults:
    """What is wrong with one tenant."""

    def __init__(self) -> None:
        self.count = 0
        self._named: list[AuditFault] = []

    def add(self, kind: str, detail: str, *, seq: int | None = None, id: str | None = None) -> None:
        """`kind` is a stable word, `detail` says it in words; neither holds memory text."""
        self.extend([AuditFault(kind=kind, detail=detail, seq=seq, id=id)])

    def extend(self, faults: Iterable[AuditFault]) -> None:
        for one in faults:
            self.count += 1
            if len(self._named) < _MOST:
                self._named.append(one)

    def include(self, other: "Faults") -> None:
        """What somebody else found comes behind."""
        unnamed = other.count - len(other._named)
        self.extend(other._named)
        self.count += unnamed

    @property
    def named(self) -> tuple[AuditFault, ...]:
        return tuple(self._named)

    @property
    def kinds(self) -> tuple[AuditFault, ...]:
        """That there are such faults, without what they are about."""
        kinds = dict.fromkeys(fault.kind for fault in self._named)
        return tuple(AuditFault(kind=kind, detail="who runs the server sees what it is") for kind in kinds)
