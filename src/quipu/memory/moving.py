"""Whole memories on the move: files in many formats, in and out."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from quipu.errors import InvalidError
from quipu.memory import arguments
from quipu.memory.files import writing
from quipu.memory.session import Session
from quipu.model.moving_formats import Format

if TYPE_CHECKING:
    from quipu.model.moving import (
        ExportedFile,
        ExportReport,
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
        identities: Sequence[str] = (),
        passphrase: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Bring in a bundle, another vendor's export, or pasted text. It is always tried first.

        `keys` are public keys of the sender, by id: what they signed is trusted in full. Doing it again goes on where
        it was cut off; nothing comes in twice. A file that is sealed is opened here, with one of `identities` (age keys)
        or the `passphrase`; neither goes anywhere.
        """
        arguments.called(progress, "/progress")
        service = await self._service()
        path = arguments.path(file, "/file")
        arguments.truth(dry_run, "/dry_run")
        from quipu.model.moving import FileImport

        request = FileImport(
            agent_id=self.agent_id,
            format=None if format is None else arguments.member(Format, format, "/format"),
            store=arguments.maybe_plain(store, "/store"),
            file_name=path.name,
            keys={} if keys is None else arguments.named_texts(keys, "/keys"),
            foreign_owner=arguments.truth(foreign_owner, "/foreign_owner"),
        )
        arguments.maybe_plain(passphrase, "/passphrase")
        opens = arguments.texts(identities, "/identities")
        pieces = _pieces(path) if not opens and passphrase is None else _opened(path, opens, passphrase)
        report = await service.importing.tried(self._principal, pieces, request, progress)
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
        asked = arguments.text(import_id, "/import_id")
        arguments.truth(approved, "/approved")
        why = arguments.maybe_plain(reason, "/reason")
        return await service.imports.decide(self._principal, asked, approved=approved, reason=why)

    async def roll_back_import(
        self, import_id: str, /, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack:
        """Undo an import as a whole; what was changed since is kept unless `force` says otherwise."""
        service = await self._service()
        asked = arguments.text(import_id, "/import_id")
        return await service.imports.roll_back(
            self._principal,
            asked,
            force=arguments.truth(force, "/force"),
            dry_run=arguments.truth(dry_run, "/dry_run"),
        )

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
        since: str | int | None = None,
        base_export_id: str | None = None,
        receipts: bool = False,
        logs: bool = False,
        grants: bool = False,
        embeddings: bool = False,
        encrypt_to: Sequence[str] = (),
        passphrase: str | None = None,
    ) -> ExportReport:
        """Write memories as a signed bundle, or in another vendor's format; the report says what got lost.

        `since` is a position of the journal or a moment: only what has changed behind it goes out, with tombstones of
        what was forgotten. `encrypt_to` names age recipients; a `passphrase` seals the file here, and goes nowhere.
        """
        service = await self._service()
        from quipu.model.moving import FileExport

        request = FileExport(
            format=arguments.member(Format, format, "/format"),
            agent_id=None if arguments.truth(all_agents, "/all_agents") else self.agent_id,
            user_id=arguments.maybe_text(user_id, "/user_id"),
            store=arguments.maybe_text(store, "/store"),
            filter=arguments.filter(filter),
            as_of=arguments.moment(as_of, "/as_of"),
            as_lines=arguments.truth(as_lines, "/as_lines"),
            non_exportable=arguments.truth(non_exportable, "/non_exportable"),
            owner=arguments.maybe_plain(owner, "/owner"),
            since=arguments.moment(since, "/since"),
            base_export_id=arguments.maybe_plain(base_export_id, "/base_export_id"),
            receipts=arguments.truth(receipts, "/receipts"),
            logs=arguments.truth(logs, "/logs"),
            grants=arguments.truth(grants, "/grants"),
            embeddings=arguments.truth(embeddings, "/embeddings"),
            encrypt_to=arguments.texts(encrypt_to, "/encrypt_to"),
        )
        if request.encrypt_to and passphrase is not None:
            raise InvalidError.at("/passphrase", "bad_value", "Seal it to recipients, or with a passphrase.")
        arguments.maybe_plain(passphrase, "/passphrase")
        path = arguments.path(file, "/file")
        with writing(path):
            if path.is_dir():
                raise InvalidError.at(
                    "/file", "bad_value", f"{path} is a directory.", hint="Name a file in it, such as it.zip."
                )
        made = await service.exporting.made(self._principal, request)
        with writing(path):
            return await _written(made, path, passphrase)


async def _written(made: ExportedFile, path: Path, passphrase: str | None) -> ExportReport:
    """The file in its place, where it stands only when it is whole."""
    try:
        # A folder of its own: two who write one file at once would write into one draft.
        with tempfile.TemporaryDirectory(
            ".draft", ".quipu-", path.parent, ignore_cleanup_errors=True
        ) as folder:
            draft = Path(folder) / "file"
            # What is to be sealed lies nowhere under a name before.
            plain = draft.open("wb") if passphrase is None else tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  closed by with
            with plain as target:
                while piece := await asyncio.to_thread(made.file.read, _PIECE):
                    await made.check()
                    target.write(piece)
                if passphrase is not None:
                    await asyncio.to_thread(_seal, cast("BinaryIO", target), draft, passphrase)
            report = made.report
            if passphrase is not None:
                report = await asyncio.to_thread(_sealed, draft, report)
            draft.replace(path)
    finally:
        made.close()
    return report


def _seal(plain: BinaryIO, draft: Path, passphrase: str) -> None:
    from quipu.bootstrap.envelopes import envelope

    plain.seek(0)
    with draft.open("wb") as target:
        envelope().seal_with(plain, target, passphrase)


def _sealed(draft: Path, report: ExportReport) -> ExportReport:
    """The report on a file that was sealed here."""
    with draft.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    name = f"{report.file_name}.age"
    return replace(report, file_name=name, size=draft.stat().st_size, sha256=sha256)


async def _opened(path: Path, identities: Sequence[str], passphrase: str | None) -> AsyncIterator[bytes]:
    """What is in a sealed file; it lies on no disk under a name."""
    from quipu.bootstrap.envelopes import envelope

    def work() -> None:
        with path.open("rb") as source:
            envelope().open(source, plain, identities=identities, passphrase=passphrase)
        plain.seek(0)

    with tempfile.TemporaryFile(prefix="quipu-import-") as plain:
        try:
            await asyncio.to_thread(work)
        except OSError as error:
            raise _unreadable(path, error) from error
        while piece := await asyncio.to_thread(plain.read, _PIECE):
            yield piece


def _unreadable(path: Path, error: OSError) -> InvalidError:
    return InvalidError(f"{path} cannot be read: {error.strerror}.", reason="no_file")


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    try:
        with path.open("rb") as source:
            while piece := await asyncio.to_thread(source.read, _PIECE):
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from error
