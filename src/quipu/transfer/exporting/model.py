"""What exporting takes and gives."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict

from quipu.fields import Filter, Name, Names, Redact, Types
from quipu.memory.model import AsOf
from quipu.operation import Request, Response
from quipu.sharing.grants.filters import ItemFilter
from quipu.transfer.formats.loss import LossReport
from quipu.transfer.formats.names import WrittenName

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
    is_sealed: bool = Field(description="True: only who has a key can read it.")
    loss: LossReport = Field(description="What the format has no room for.")
