"""Whole memories on the move: what an import or an export of a file is asked for, and what it reports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from quipu.model.moving_formats import Format
from quipu.model.record import MemoryType
from quipu.model.value import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImport:
    """How a file is to be brought in."""

    #: Whose memories they become where the file does not say.
    agent_id: str
    #: None: told by looking at it.
    format: Format | None = None
    #: Into this store, whatever the file says.
    store: str | None = None
    file_name: str | None = None
    #: Public keys of the sender, by id, beside the host's own; what they signed is trusted in full.
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Also take a bundle that somebody signed whose key is not known here.
    foreign_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedItem:
    """One item of a file that does not come in, and why."""

    line: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A field that a format has no room for."""

    field: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A kind or a value that becomes another one."""

    origin: str
    to: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """What does not survive the way from one format to another."""

    dropped: tuple[Dropped, ...] = ()
    mapped: tuple[Mapped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import would do, or did. `accepted` counts what is in; `quarantined` what waits for a person."""

    import_id: str
    format: Format
    #: Of the file, in hexadecimal.
    sha256: str
    file_name: str | None = None
    importer_version: int = 1
    dry_run: bool = False
    read: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicate: int = 0
    #: Same id with other content: kept under a new id that points to the old one.
    conflict: int = 0
    #: What came from the same owner before and has changed there since: a new version of it.
    updated: int = 0
    #: What came from the same owner before and was forgotten there since: it goes here too, or waits for a person.
    removed: int = 0
    removals_waiting: int = 0
    #: Tombstones of what did not come from there, or was changed here since: it stays.
    kept: int = 0
    refused: int = 0
    #: The first thousand.
    rejected: tuple[RefusedItem, ...] = ()
    #: valid, foreign (by a key that is not known here), or absent.
    signature: str = "absent"
    owner: str | None = None
    export_id: str | None = None
    loss: LossReport = LossReport()
    #: The first few, as they would be kept.
    sample: tuple[JsonObject, ...] = ()
    #: Items whose text talks to a model instead of about the world.
    instruction_like: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportState:
    """An import as the journal knows it, and what still waits of it."""

    import_id: str
    at: int
    by: str
    detail: JsonObject = field(default_factory=dict[str, Json])
    waiting: int = 0
    is_rolled_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDecided:
    """One decision over all that waited of an import."""

    import_id: str
    approved: bool
    decided: int
    #: Those that could not be: they go on waiting.
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """An import undone: what went, what was dropped from the queue, what was kept because it was changed since."""

    import_id: str
    forgotten: int
    withdrawn: int
    kept: tuple[str, ...] = ()
    #: What it had changed or taken away, and is again as it was.
    restored: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExport:
    """Which memories go out, and how."""

    format: Format = Format.BUNDLE
    agent_id: str | None = None
    user_id: str | None = None
    store: str | None = None
    types: tuple[MemoryType, ...] = ()
    filter: JsonObject | None = None
    as_of: str | None = None
    #: As lines that can be piped, instead of an archive. Of bundles only.
    as_lines: bool = False
    #: Also what its writer wanted kept here; for the owner's own copy.
    non_exportable: bool = False
    #: The owner's DID; without it the key that signs.
    owner: str | None = None
    #: Only what has changed since this position of the journal, or moment. Of bundles only.
    since: str | None = None
    #: The export that this goes on from.
    base_export_id: str | None = None
    #: Readable only with the key of one of these age recipients.
    encrypt_to: tuple[str, ...] = ()
    #: Also the receipts of what was lent, and the logs of each item: for the owner's own bundle.
    receipts: bool = False
    logs: bool = False
    #: Also the grants that were given: for the owner's own bundle.
    grants: bool = False
    #: Also the vectors of the items. Of bundles that are archives only.
    embeddings: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What is in an exported file."""

    export_id: str
    format: Format
    file_name: str
    media_type: str
    size: int
    sha256: str
    items: int
    #: Left at home because its writer said so.
    withheld: int = 0
    loss: LossReport = LossReport()


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that is whole, read from its beginning, and what is in it. Whoever has it closes it."""

    file: BinaryIO
    report: ExportReport
    #: Raises once something was erased that may be in it: nothing more of it is handed out then.
    still: Callable[[], Awaitable[None]] | None = None

    async def check(self) -> None:
        """Before each piece that is handed out."""
        if self.still is not None:
            await self.still()

    def close(self) -> None:
        """Let go of it; it leaves nothing behind."""
        self.file.close()
