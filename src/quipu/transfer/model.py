"""What imports and exports are asked and answer, and the rows that are kept of imports.

Rule 1: An import's id follows from its file, its format and where it goes: the same file again is the same import.
Rule 2: A row holds counts and fixed words. Nothing of a file stands in it but its name, without secrets.
Rule 3: `ImportedMemory` is what waits for a person too, so nothing that a file said of times and ids is lost by waiting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from quipu.errors import Fault
from quipu.fields import WHOLE, Filter, Moment, Name, Names, Redact, ShortText, Text, Types
from quipu.ledger.table import Table
from quipu.memory.model import AsOf, ForgetRequest, RememberManyRequest, RememberRequest
from quipu.operation import Message, Request, Response, ScopedRequest, invalid
from quipu.sharing.grants.filters import ItemFilter
from quipu.transfer.formats.loss import LossReport
from quipu.transfer.formats.names import FormatName, WrittenName

#: How far it is: being tried, tried and waiting to be carried out, being carried out, carried out.
ImportStatus: TypeAlias = Literal["checking", "checked", "running", "done"]
#: Whether the owner that the file names has signed it; `unknown`: by a key that cannot be had.
SignatureStatus: TypeAlias = Literal["absent", "unknown", "valid"]

Format = Annotated[FormatName, Redact.NONE]
Seconds = Annotated[int, Field(ge=0, le=60), WHOLE]


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """An import that has written something, or is over."""

    id: str
    agent_id: str
    #: Of a file; `records` for lines of records.
    format: str
    file_name: str | None = None
    sha256: str | None = None
    #: A mark of the owner whose signature was good: enough to know them again.
    owner: str | None = None
    export_id: str | None = None
    is_done: bool = False
    #: What came of it, also of the runs before where it was cut off.
    counts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    actor: str
    at: int
    undone_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFile:
    """A piece of a file that waits to be carried out, counted from 1; 0 says what is known of the file."""

    id: str
    number: int
    sealed: bytes
    #: Of the first row: how many there are.
    pieces: int
    until: int
    #: Of the first row: who works on it.
    holder: str | None = None
    held_until: int | None = None


IMPORTS = Table("import", ImportRow, key=("id",))
WAITING_FILES = Table("import_file", WaitingFile, key=("id", "number"), is_journaled=False)
TABLES: tuple[Table[Any], ...] = (IMPORTS, WAITING_FILES)


# -- what is written --------------------------------------------------------------------------------------------------


class ImportedMemory(RememberRequest):
    """A memory that an import brings: a request like any other, and what a caller of `remember` cannot say."""

    import_id: Name = Field(description="The import.")
    record_id: Name = Field(description="The id that it gets.")
    captured_at: Moment = Field(description="When it was first known.")
    created_at: Moment = Field(description="When it was made where it comes from.")
    updated_at: Moment | None = Field(default=None, description="When it was changed there.")
    state: Annotated[Literal["live", "archived"], Redact.NONE] = Field(
        default="live", description="live or archived."
    )


class ImportMemories(RememberManyRequest):
    """Memories of one agent that an import brings."""

    items: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]  frozen, so nobody puts others in
        tuple[ImportedMemory, ...], Strict(False), Field(min_length=1, max_length=1000)
    ] = Field(description="The memories.")
    import_id: Name = Field(description="The import.")


class GivenName(Request):
    """A name that a file gives: what it is checked for secrets as."""

    name: Name = Field(description="The name.")


class GivenNames(Request):
    """What a file and an export are called: kept with an import, without secrets."""

    file_name: ShortText | None = Field(default=None, description="The name of the file.")
    export_id: ShortText | None = Field(default=None, description="What the export calls itself.")


class ImportRemovals(ForgetRequest):
    """Memories that are forgotten because a file says that its owner has forgotten them."""

    import_id: Name = Field(description="The import.")


# -- files ------------------------------------------------------------------------------------------------------------


class ImportFileRequest(ScopedRequest):
    """Try a file: say what would come in. Nothing is written; the file waits for an hour to be carried out.

    The file is the body. What kind of file it is, is found out by looking at it.
    """

    file_name: ShortText | None = Field(default=None, description="The name of the file.")
    format: Format | None = Field(
        default=None, description="What kind of file it is. Left out, it is found out."
    )
    store: Name | None = Field(
        default=None, description="The store that everything goes to. Left out, the one that the file names."
    )
    foreign_owner: bool = Field(
        default=False, description="Also take a bundle that was signed with a key that cannot be had."
    )
    wait_s: Seconds = Field(
        default=20, description="How long to wait for the end of the trial before answering how far it is."
    )


class CommitImportRequest(Request):
    """Carry out an import that was tried. What a rule holds waits for a person; the rest is in.

    Once more does no harm: while it is running it answers how far it is, and nothing comes in twice.
    """

    id: Name = Field(description="The import.")
    wait_s: Seconds = Field(
        default=20, description="How long to wait for its end before answering how far it is."
    )


class GetImportRequest(Request):
    """Show an import: how far it is, and what came of it."""

    id: Name = Field(description="The import.")
    wait_s: Seconds = Field(default=0, description="How long to wait for its end, where it is under way.")


class RefusedItem(Response):
    """One item of a file that does not come in."""

    place: int = Field(description="Its place in the file, or its line.")
    reason: str = Field(description="Why, as a stable word.")
    message: str = Field(description="Why, in a sentence.")


class SampleItem(Response):
    """One item as it would be kept."""

    type: str = Field(description="Its type.")
    content: str = Field(description="The beginning of its text.")
    tags: tuple[str, ...] = Field(default=(), description="Its labels.")


class ImportCounts(Response):
    """What became of the items of a file, or would."""

    read: int = Field(default=0, description="Items in the file.")
    accepted: int = Field(default=0, description="In memory, or would be.")
    held: int = Field(default=0, description="Waiting for a person, or would.")
    duplicate: int = Field(default=0, description="There already, word for word.")
    conflict: int = Field(
        default=0, description="Of those: under an id of their own, because theirs says something else here."
    )
    updated: int = Field(
        default=0, description="Of those: a newer version of what the same owner brought before."
    )
    vectors_used: int = Field(default=0, description="Of those: with the vector that the file brings.")
    embedded_anew: int = Field(
        default=0,
        description="Of those: without it, because its key is not known, it is of another model, or the text was altered.",
    )
    refused: int = Field(default=0, description="Not coming in.")
    removed: int = Field(
        default=0, description="Forgotten, because the owner who brought them has forgotten them."
    )
    removals_held: int = Field(default=0, description="The same, waiting for a person.")
    kept: int = Field(
        default=0, description="Deletions in the file that are not followed: others brought or changed it."
    )
    instruction_like: int = Field(
        default=0, description="Items whose text talks to a model instead of about the world."
    )


class ImportReport(Response):
    """What an import would do, or did."""

    import_id: str = Field(description="Names the import, to carry it out, decide on it or undo it.")
    status: ImportStatus = Field(
        description="checking: being tried; checked: tried, nothing is written; running: being carried out; done."
    )
    agent_id: str = Field(description="Whose memories they become where the file does not say.")
    format: str = Field(description="What kind of file it is; `records` for lines of records.")
    file_name: str | None = Field(default=None, description="The name of the file.")
    sha256: str | None = Field(default=None, description="The digest of the file, in hex.")
    signature: SignatureStatus = Field(
        default="absent", description="valid: its owner has signed it; unknown: by a key that cannot be had."
    )
    owner: str | None = Field(
        default=None,
        description="The DID that the file names as its owner; proven if the signature is valid.",
    )
    export_id: str | None = Field(default=None, description="The export that the file is.")
    counts: ImportCounts = Field(default=ImportCounts(), description="What became of the items.")
    rejected: tuple[RefusedItem, ...] = Field(
        default=(), description="The first thousand that do not come in."
    )
    loss: LossReport = Field(default=LossReport(), description="What there is no room for.")
    sample: tuple[SampleItem, ...] = Field(default=(), description="The first twenty as they would be kept.")
    waiting: int = Field(default=0, description="How many of it wait for a person now.")
    by: str | None = Field(default=None, description="Who carried it out.")
    at: int | None = Field(default=None, description="When; milliseconds since 1970.")
    undone_at: int | None = Field(default=None, description="When it was undone; milliseconds since 1970.")


class ListImportsRequest(Request):
    """List the imports, newest first."""


class ListImportsResponse(Response):
    """The imports."""

    imports: tuple[ImportReport, ...] = Field(description="Newest first, without samples.")


class DecideImportRequest(Request):
    """Approve or reject everything of an import that waits for a person."""

    id: Name = Field(description="The import.")
    approved: bool = Field(description="True: it comes in; false: it does not.")
    reason: Text | None = Field(default=None, description="Why.")


class DecideImportResponse(Response):
    """What was decided."""

    import_id: str = Field(description="The import.")
    approved: bool = Field(description="Whether it was approved.")
    decided: int = Field(description="How many memories that was about.")
    failed: int = Field(default=0, description="How many could not be decided on; they go on waiting.")
    reason: str | None = Field(default=None, description="Why the first of those could not.")


# -- undoing ----------------------------------------------------------------------------------------------------------

#: Kept with the number of what an import brought in its run before, where it was cut off.
ADDED: tuple[str, ...] = (
    *("accepted", "held", "conflict", "updated", "vectors_used"),
    *("removed", "removals_held"),
)


# -- exports ----------------------------------------------------------------------------------------------------------

#: What a bundle has room for beside the memories.
Extra: TypeAlias = Literal["receipts", "logs", "grants", "embeddings", "non_exportable"]

ExportId = Annotated[str, Field(pattern=r"^exp_[0-9A-Z]{26}$"), Redact.NONE]


class Export(Request):
    """Which memories."""

    agents: Names = Field(default=(), description="Only of these agents; empty: of all of them.")
    user_id: Name | None = Field(default=None, description="Only about this person.")
    store: Name | None = Field(default=None, description="Only from this memory store.")
    types: Types = Field(default=(), description="Only these kinds of memory; empty: all.")
    filter: Filter | None = Field(
        default=None, description='Only memories that fit, such as {"tags": "home"}.'
    )
    as_of: AsOf | None = Field(
        default=None, description="As it was then: a journal position, an ISO time with zone, or a run id."
    )


class ExportFileRequest(Export):
    """Write memories into a file: a bundle that its owner signs, or what mem0 or Letta read.

    Without anything else it holds every memory that is live or archived. What is erased while the file is made is not in
    it, and one that is being sent then breaks off.
    """

    format: WrittenName = Field(default="bundle", description="bundle, mem0 or letta.")
    since: AsOf | None = Field(
        default=None,
        description="Bundle: only what has changed since then, a journal position or an ISO time with zone.",
    )
    item_filter: ItemFilter | None = Field(
        default=None, description="Only memories that fit a filter as grants have it."
    )
    base_export_id: ExportId | None = Field(
        default=None, description="Bundle, with since: the export that this one goes on from."
    )
    include: Annotated[tuple[Extra, ...], Strict(False), Field(max_length=5)] = Field(
        default=(),
        description="Bundle: also receipts, logs, grants, embeddings, or what is marked as not exportable "
        "(non_exportable).",
    )
    as_lines: bool = Field(default=False, description="Bundle: one stream of lines instead of an archive.")
    encrypt_to: Annotated[tuple[Name, ...], Strict(False), Field(max_length=20)] = Field(
        default=(), description="Seal it for whoever has the key of one of these age recipients (age1…)."
    )


class ExportGrantRequest(Request):
    """Take what a grant shows as a file. It is for who has a token of the grant."""

    body: Filter = Field(description="OAP's request for an export.")


class ExportRecordsRequest(Export):
    """Write memories one by one, as `quipu list` shows them: every field, also what no other product knows.

    Live and archived ones, newest first. What is erased meanwhile is left out.
    """


class ExportReport(Response):
    """What is in a file, and what its format had no room for."""

    export_id: str = Field(description="The export's id, which stands in its journal entry, and in a bundle.")
    format: WrittenName = Field(description="What kind of file it is.")
    items: int = Field(description="Memories in it.")
    withheld: int = Field(description="Memories left out because they are marked as not exportable.")
    tombstones: int = Field(description="Deletions that a bundle names, without what was said.")
    position: int = Field(description="The journal position that it shows: `since` of the next one.")
    signed_by: str | None = Field(
        default=None, description="The key that signed it; mem0 and Letta know none."
    )
    is_sealed: bool = Field(default=False, description="True: only who has a key can read it.")
    loss: LossReport = Field(default=LossReport(), description="What the format has no room for.")


# -- exports in OAP's words -------------------------------------------------------------------------------------------

#: What OAP calls the formats that are written.
FORMATS: Mapping[str, Literal["bundle", "mem0", "letta"]] = {
    "quipu-bundle-v1": "bundle",
    "mem0": "mem0",
    "letta-blocks": "letta",
}


def _or_none(value: object) -> object:
    return value or None


class Included(Message):
    """What a bundle holds beside the items, in OAP's words."""

    receipts: bool = False
    logs: bool = False
    grants: bool = False
    embeddings: bool = False
    non_exportable: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name in Included.model_fields if getattr(self, name)]


class OapExport(Request):
    """OAP's request for an export."""

    format: Annotated[str, Field(max_length=64), Redact.NONE] = "quipu-bundle-v1"
    filter: Annotated[ItemFilter | None, BeforeValidator(_or_none)] = None
    include: Included = Field(default_factory=Included)
    since: Annotated[str, Field(min_length=1, max_length=64), Redact.NONE] | None = None
    encrypt_to: Annotated[tuple[Name, ...], Strict(False), Field(max_length=20)] = ()

    def as_operation(self) -> dict[str, Any]:
        """The same as `export_file` takes it."""
        if self.format not in FORMATS:
            raise invalid([Fault("/format", "unknown_format", ", ".join(FORMATS))])
        given: dict[str, Any] = {
            "format": FORMATS[self.format],
            "include": self.include.names,
            "encrypt_to": list(self.encrypt_to),
        }
        if self.filter is not None:
            given["item_filter"] = self.filter.model_dump(exclude_none=True)
        if self.since is not None:
            given["since"] = self.since
        return given
