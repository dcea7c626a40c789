"""A file that is whole before its first byte is sent: written, sealed, measured, and handed out piece by piece."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from quipu.operation import FilePart
from quipu.transfer import age
from quipu.transfer.exporting.erasure_watch import ErasureWatch
from quipu.transfer.exporting.model import ExportReport
from quipu.transfer.formats import registry
from quipu.transfer.formats.contents import Contents
from quipu.transfer.formats.loss import Loss

_PIECE = 256 << 10


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file from its beginning, its size and its digest. Whoever has it closes it."""

    data: BinaryIO
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file that waits, what is told of it, and what is looked at while it is sent."""

    file: WrittenFile
    name: str
    media_type: str
    report: ExportReport
    watch: ErasureWatch

    async def parts(self, check: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[FilePart]:
        """The file, piece by piece; ConflictError once something is erased, and what `check` raises. Closes it."""
        with self.file.data:
            await self._check(check)
            yield FilePart(
                data=b"",
                file_name=self.name,
                media_type=self.media_type,
                size=self.file.size,
                sha256=self.file.sha256,
                report=self.report.to_dict(),
            )
            while piece := await asyncio.to_thread(self.file.data.read, _PIECE):
                await self._check(check)
                yield FilePart(data=piece)

    async def _check(self, check: Callable[[], Awaitable[None]] | None) -> None:
        await self.watch.check()
        if check is not None:
            await check()


def made(
    file: WrittenFile, contents: Contents, report: ExportReport, day: str, watch: ErasureWatch
) -> MadeFile:
    """The file with its name."""
    suffix, media_type = registry.named(report.format).file_kind(as_lines=contents.as_lines)
    name = f"memories-{day}{suffix}"
    if report.is_sealed:
        name, media_type = f"{name}.age", "application/octet-stream"
    return MadeFile(file, name, media_type, report, watch)


def written(format: str, contents: Contents, loss: Loss, encrypt_to: Sequence[str] = ()) -> WrittenFile:
    """What was spooled, as a file; readable only for `encrypt_to` where there is somebody. Blocks."""
    target: IO[bytes] = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
    try:
        write = registry.named(format).write
        assert write is not None
        write(cast("BinaryIO", target), contents, loss)
        if encrypt_to:
            target = _sealed(target, encrypt_to)
        target.seek(0)
        digest = hashlib.sha256()
        while piece := target.read(_PIECE):
            digest.update(piece)
        size = target.tell()
        target.seek(0)
    except BaseException:
        target.close()
        raise
    return WrittenFile(cast("BinaryIO", target), size, digest.hexdigest())


def _sealed(plain: IO[bytes], recipients: Sequence[str]) -> IO[bytes]:
    """The same, readable only for these."""
    sealed = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
    try:
        plain.seek(0)
        age.seal(cast("BinaryIO", plain), cast("BinaryIO", sealed), recipients)
    except BaseException:
        sealed.close()
        raise
    plain.close()
    return sealed
