"""A file from a stranger: plain, or a zip or tar archive that is looked at before anything of it is unpacked.

Refused are too many entries, too much when unpacked, a ratio that no text has, paths that lead elsewhere, links,
encrypted entries, two entries of one name, and packing that is not plain deflate: whoever sends something packed in another
way is told by what and how to unpack it. Archives inside are not opened.
"""

from __future__ import annotations

import stat
import struct
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

from quipu.errors import InvalidError
from quipu.formats import tars
from quipu.formats.bounds import SMALL_ENTRY, Bounds, check_name
from quipu.formats.values import refused

_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
#: How files begin that were packed with what is not read here: by what, and what unpacks them.
_PACKED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"\xfd7zXZ\x00": ("xz", "xz -d"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
    **{b"BZh%d1AY&SY" % level: ("bzip2", "bzip2 -d") for level in range(1, 10)},
    b"\x1f\x8b": ("gzip", "gzip -d"),
}
_END, _END64, _RECORD = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
#: The two that large archives have before their end, and how long they are.
_LOCATOR, _RECORD64 = 20, 56
#: A line of NDJSON; as long as one memory with all that belongs to it may be.
LONGEST_LINE = 8 << 20


#: What the zip library raises for archives that are not what they say.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


class Source:
    """The files of what was sent, by name. A plain file is its only one."""

    def __init__(self, file: BinaryIO, name: str | None = None, bounds: Bounds = Bounds()) -> None:  # noqa: B008  frozen, so one for all is safe
        self._file = file
        file.seek(0)
        head = file.read(4)
        self._archive: zipfile.ZipFile | tars.Tar | None = None
        if head in (_ZIP, _EMPTY_ZIP):
            self._archive = _opened(file, bounds)
            self.names = tuple(info.filename for info in self._archive.infolist() if not info.is_dir())
        elif (tar := tars.opened(file, bounds)) is not None:
            self._archive, self.names = tar, tar.names
            weakref.finalize(self, tar.close)
        else:
            _check_plain(file)
            self.names = (name or "",)
        self.is_archive = self._archive is not None

    def open(self, name: str) -> BinaryIO:
        """One of them, from its beginning."""
        if self._archive is None:
            self._file.seek(0)
            return self._file
        if isinstance(self._archive, tars.Tar):
            return self._archive.open(name)
        try:
            return cast("BinaryIO", _Entry(self._archive.open(name)))
        except _BROKEN as error:
            raise _damaged() from error

    def find(self, name: str) -> str | None:
        """The entry with this file name, in whatever folder; the one that lies highest."""
        found = [entry for entry in self.names if entry.rsplit("/", 1)[-1] == name]
        return min(found, key=lambda entry: (entry.count("/"), entry)) if found else None

    def whole(self, name: str, most: int = LONGEST_LINE) -> bytes:
        """A small one, at once."""
        data = self.open(name).read(most + 1)
        if len(data) > most:
            raise refused("too_large", "A part of the file is too large.")
        return data


class _Entry:
    """An entry of an archive; what is wrong with its packing is told in our words."""

    def __init__(self, entry: IO[bytes]) -> None:
        self._entry = entry

    def read(self, size: int = -1) -> bytes:
        try:
            return self._entry.read(size)
        except _BROKEN as error:
            raise _damaged() from error

    def readline(self, size: int = -1) -> bytes:
        try:
            return self._entry.readline(size)
        except _BROKEN as error:
            raise _damaged() from error


def lines(stream: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes | InvalidError]]:
    """The lines of a file that hold something, numbered from 1; one that is too long stands as its error."""
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(longest)
            yield number, refused("too_large", "A line is too long.")
        elif line.strip():
            yield number, line


def _opened(file: BinaryIO, bounds: Bounds) -> zipfile.ZipFile:
    if _directory_size(file) > bounds.directory:
        raise refused("too_large", "The archive holds too many files.")
    try:
        archive = zipfile.ZipFile(file)
    except (*_BROKEN, struct.error) as error:
        raise _damaged() from error
    infos = archive.infolist()
    if len(infos) > bounds.entries:
        raise refused("too_large", "The archive holds too many files.")
    unpacked = sum(info.file_size for info in infos)
    # By the bytes that are there: entries may share them, or be too small to be looked at one by one.
    if unpacked > min(bounds.unpacked, max(bounds.small, bounds.ratio * file.seek(0, 2))):
        raise refused("too_large", "The archive unpacks to far too much.")
    seen: set[str] = set()
    for info in infos:
        _check(info, bounds)
        if info.filename in seen:
            raise refused("hostile_archive", "Two files in the archive have one name.")
        seen.add(info.filename)
    return archive


def _check_plain(file: BinaryIO) -> None:
    """What is no archive is read as it is, so nothing else may have packed it."""
    file.seek(0)
    head = file.read(max(map(len, _PACKED)))
    for mark, (what, unpacks) in _PACKED.items():
        if head.startswith(mark):
            raise InvalidError(
                f"The file is packed with {what}, which is not read here.",
                reason="packed_file",
                hint=f"Unpack it ({unpacks} FILE) and send what comes out: a zip or tar archive, or the file itself.",
            )


def _check(info: zipfile.ZipInfo, bounds: Bounds) -> None:
    # zipfile has cut the name at a NUL; what stood there tells that somebody tried.
    check_name(info.orig_filename)
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refused("hostile_archive", "The archive holds a link, or something else that is no file.")
    if info.flag_bits & 0x1:
        raise refused("encrypted_archive", "The archive is encrypted.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidError(
            "The archive is packed in a way that is not read here.",
            reason="packed_file",
            hint="Pack it again as a plain zip (deflate), or as a tar archive.",
        )
    if info.file_size > SMALL_ENTRY and info.file_size > bounds.ratio * max(1, info.compress_size):
        raise refused("too_large", "A file in the archive unpacks to far too much.")


def _directory_size(file: BinaryIO) -> int:
    """How large the table of contents says it is: it is held in memory, whatever the entries are."""
    end = file.seek(0, 2)
    tail_at = max(0, end - (1 << 16) - 22)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + 22:
        raise _damaged()
    (size,) = struct.unpack_from("<I", tail, at + 12)
    told = [] if size == 0xFFFFFFFF else [int(size)]
    locator = at - _LOCATOR
    if locator >= 0 and tail.startswith(_END64, locator):
        # Where there is a larger record it is believed, whatever the small one says: some look for it right before
        # this, others where this points to.
        (place,) = struct.unpack_from("<Q", tail, locator + 8)
        for start in (tail_at + locator - _RECORD64, min(place, end)):
            file.seek(max(0, start))
            record = file.read(_RECORD64)
            if len(record) == _RECORD64 and record.startswith(_RECORD):
                told += struct.unpack_from("<Q", record, 40)
    if not told:
        raise _damaged()
    return max(told)


def _damaged() -> InvalidError:
    return refused("bad_file", "The archive is damaged or cut short.")
