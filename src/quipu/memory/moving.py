"""Whole memories on the move: files in many formats, in and out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from quipu.errors import InvalidError
from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.model.moving import (
    ExportReport,
    FileExport,
    FileImport,
    Format,
    ImportDecided,
    ImportReport,
    ImportState,
    RolledBack,
)
from quipu.model.value import JsonObject

_PIECE = 256 << 10


class Moving(Session):
    """Import and export of files."""

    async def import_file(
        self,
        file: Path | str,
        /,
        *,
        format: Format | str | None = None,
        dry_run: bool = False,
        store: str | None = None,
        keys: Mapping[str, str] | None = None,
        foreign_owner: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Bring in a bundle, another vendor's export, or pasted text. It is always tried first.

        `keys` are public keys of the sender, by id: what they signed is trusted in full. Doing it again goes on where
        it was cut off; nothing comes in twice.
        """
        service = await self._service()
        path = Path(file)
        request = FileImport(
            agent_id=self.agent_id,
            format=None if format is None else arguments.member(Format, format, "/format"),
            store=store,
            file_name=path.name,
            keys=dict(keys or {}),
            foreign_owner=foreign_owner,
        )
        report = await service.importing.tried(self._principal, _pieces(path), request, progress)
        if dry_run:
            return report
        return await service.importing.committed(self._principal, report.import_id, progress)

    async def imports(self) -> tuple[ImportState, ...]:
        """The last imports, newest first."""
        return await (await self._service()).imports.list(self._principal)

    async def decide_import(
        self, import_id: str, /, *, approved: bool, reason: str | None = None
    ) -> ImportDecided:
        """One decision over everything of an import that waits for a person."""
        service = await self._service()
        return await service.imports.decide(self._principal, import_id, approved=approved, reason=reason)

    async def roll_back_import(
        self, import_id: str, /, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack:
        """Undo an import as a whole; what was changed since is kept unless `force` says otherwise."""
        service = await self._service()
        return await service.imports.roll_back(self._principal, import_id, force=force, dry_run=dry_run)

    async def export_file(
        self,
        file: Path | str,
        /,
        *,
        format: Format | str = Format.BUNDLE,
        filter: JsonObject | None = None,
        as_of: str | int | None = None,
        store: str | None = None,
        user_id: str | None = None,
        all_agents: bool = False,
        as_lines: bool = False,
        non_exportable: bool = False,
        owner: str | None = None,
    ) -> ExportReport:
        """Write memories as a signed bundle, or in another vendor's format; the report says what got lost."""
        service = await self._service()
        request = FileExport(
            format=arguments.member(Format, format, "/format"),
            agent_id=None if all_agents else self.agent_id,
            user_id=user_id,
            store=store,
            filter=filter,
            as_of=None if as_of is None else str(as_of),
            as_lines=as_lines,
            non_exportable=non_exportable,
            owner=owner,
        )
        path = Path(file)
        draft = path.with_name(f".{path.name}.draft")
        made = await service.exporting.made(self._principal, request)
        try:
            with draft.open("wb") as target:
                while piece := await asyncio.to_thread(made.file.read, _PIECE):
                    await made.check()
                    target.write(piece)
            draft.replace(path)  # it stands there only when it is whole
        finally:
            made.close()
            draft.unlink(missing_ok=True)
        return made.report


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    try:
        with path.open("rb") as source:
            while piece := await asyncio.to_thread(source.read, _PIECE):
                yield piece
    except OSError as error:
        raise InvalidError(f"{path} cannot be read: {error.strerror}.", reason="no_file") from error
