"""What a host offers for bringing memory in and taking it along."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
)
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.errors import QuipuError
    from quipu.model.moving import (
        ExportedFile,
        FileExport,
        FileImport,
        ImportDecided,
        ImportReport,
        ImportState,
        RolledBack,
    )
    from quipu.model.operations import (
        Line,
        ListRequest,
    )
    from quipu.model.outcomes import (
        ImportSummary,
    )
    from quipu.model.principal import Principal
    from quipu.model.record import Record


class Exchange(Protocol):
    """Many memories in and out."""

    async def import_lines(
        self,
        principal: Principal,
        lines: AsyncIterable[Line | QuipuError],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary: ...

    def export(self, principal: Principal, request: ListRequest) -> AsyncGenerator[Record]: ...


class Importing(Protocol):
    """Whole files of memories, tried and then carried out."""

    async def tried(
        self,
        principal: Principal,
        pieces: AsyncIterable[bytes],
        request: FileImport,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport: ...

    async def committed(
        self, principal: Principal, import_id: str, progress: Callable[[int], None] | None = None
    ) -> ImportReport: ...


class Imports(Protocol):
    """What became of imports."""

    async def list(self, principal: Principal) -> tuple[ImportState, ...]: ...

    async def decide(
        self, principal: Principal, import_id: str, *, approved: bool, reason: str | None = None
    ) -> ImportDecided: ...

    async def roll_back(
        self, principal: Principal, import_id: str, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack: ...


class Exporting(Protocol):
    """Memories as a file."""

    async def made(self, principal: Principal, request: FileExport) -> ExportedFile: ...
