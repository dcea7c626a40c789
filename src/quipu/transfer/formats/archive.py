"""A file from a stranger: plain, or a zip archive that is looked at before anything of it is unpacked.

Refused are too many entries, too much when unpacked, a ratio that no text has, paths that lead elsewhere, links, encrypted
entries, two entries of one name, entries that overlap or are not as long as they say, and packing that is not plain
deflate: whoever sends something packed in another way reads by what and how to unpack it. Archives inside are not opened.
"""

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

from quipu.errors import InvalidError
from quipu.transfer.formats import values
from quipu.transfer.formats.values import Found, refused

#: A line of NDJSON; as long as one memory with all that belongs to it may be.
LONGEST_LINE = 8 << 20
#: Entries that are no larger are not looked at one by one.
_SMALL_ENTRY = 1 << 20
_LONGEST_NAME = 1024
_PIECE = 64 << 10
_ZIP, _EMPTY_ZIP = b"PK\x03\x04", b"PK\x05\x06"
#: How files begin that were packed with what is not read here: by what, and what unpacks them.
_PACKED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"\xfd7zXZ\x00": ("xz", "xz -d"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
    **{b"BZh%d1AY&SY" % level: ("bzip2", "bzip2 -d") for level in range(1, 10)},
    b"\x1f\x8b": ("gzip", "gzip -d"),
}
#: A tar archive has its mark far from its beginning.
_TAR, _TAR_AT = b"ustar", 257
_END, _LOCATOR64, _RECORD64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_LOCATOR_BYTES, _RECORD_BYTES, _ENTRY_BYTES = 20, 56, 30
#: What the zip library raises for archives that are not what they say.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an archive may be."""

    entries: int = 50_000
    #: Bytes of its table of contents, which is read whole.
    directory: int = 8 << 20
    #: Unpacked to packed, of entries larger than a megabyte, and of all together.
    ratio: int = 200
    unpacked: int = 64 << 30
    #: So much is never too much for a ratio.
    small: int = 16 << 20


_BOUNDS = Bounds()


def is_dense(info: zipfile.ZipInfo) -> bool:
    """Whether an entry of ours is packed so well that a reader who counts a little differently might refuse it."""
    return info.file_size > _SMALL_ENTRY and info.file_size > _BOUNDS.ratio // 2 * info.compress_size


class Source:
    """The files of what was sent, by name. A plain file is its only one. Whoever opened the file closes it."""

    def __init__(self, file: BinaryIO, name: str | None = None, bounds: Bounds = _BOUNDS) -> None:
        self._file = file
        file.seek(0)
        head = file.read(_TAR_AT + len(_TAR))
        self._archive: zipfile.ZipFile | None = None
        if head.startswith((_ZIP, _EMPTY_ZIP)):
            self._archive = _checked(file, bounds)
            self.names = tuple(info.filename for info in self._archive.infolist() if not info.is_dir())
        else:
            _check_plain(head)
            self.names = (name or "",)
        self.is_archive = self._archive is not None

    def open(self, name: str | None = None) -> BinaryIO:
        """One of them from its beginning; of a plain file, the file. Several may be read side by side."""
        if self._archive is None:
            return io.BufferedReader(_View(self._file), _PIECE)
        try:
            info = self._archive.getinfo(name or "")
            return cast("BinaryIO", _Entry(self._archive.open(info), info.file_size))
        except _BROKEN as error:
            raise _damaged() from error

    def find(self, name: str) -> str | None:
        """The entry with this file name, in whatever folder; the one that lies highest."""
        found = [entry for entry in self.names if entry.rsplit("/", 1)[-1] == name]
        return min(found, key=lambda entry: (entry.count("/"), entry)) if found else None

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """The entries whose file name, in whatever folder, is like this; in the order of their paths."""
        return sorted(entry for entry in self.names if pattern.fullmatch(entry.rsplit("/", 1)[-1]))

    def whole(self, name: str | None = None, most: int = LONGEST_LINE) -> bytes:
        """A small one, at once."""
        data = self.open(name).read(most + 1)
        if len(data) > most:
            raise refused("too_large", "A part of the file is too large.")
        return data


class _View(io.RawIOBase):
    """A file read from its beginning, wherever others read in it. Closing it leaves the file open."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._whole, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._whole.seek(self._at)
        data = self._whole.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Entry:
    """An entry of an archive; what is wrong with its packing is told in our words."""

    def __init__(self, entry: IO[bytes], size: int) -> None:
        self._entry, self._left = entry, size

    def read(self, size: int = -1) -> bytes:
        try:
            return self._counted(self._entry.read(size), is_asked=size != 0)
        except _BROKEN as error:
            raise _damaged() from error

    def readline(self, size: int = -1) -> bytes:
        try:
            return self._counted(self._entry.readline(size), is_asked=size != 0)
        except _BROKEN as error:
            raise _damaged() from error

    def _counted(self, data: bytes, *, is_asked: bool) -> bytes:
        self._left -= len(data)
        if is_asked and not data and self._left > 0:
            raise EOFError  # it ended before the length that the archive gave for it
        return data


def lines(stream: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes | InvalidError]]:
    """The lines that hold something, numbered from 1; one that is too long stands as its error."""
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(longest)
            yield number, refused("too_large", f"A line is longer than {longest >> 20} MiB.")
        elif line.strip():
            yield number, line


def objects(stream: BinaryIO) -> Iterator[Found]:
    """The lines as JSON objects; one that is none stands as its error."""
    return ((number, an_object(line)) for number, line in lines(stream))


def an_object(line: bytes | InvalidError) -> dict[str, Any] | InvalidError:
    if isinstance(line, InvalidError):
        return line
    try:
        return values.an_object(values.parsed(line)) or refused("bad_json", "A line is no JSON object.")
    except InvalidError as error:
        return error


def _check_plain(head: bytes) -> None:
    """What is no archive is read as it is, so nothing else may have packed it."""
    found = next(((what, how) for mark, (what, how) in _PACKED.items() if head.startswith(mark)), None)
    if found is None and head[_TAR_AT:] == _TAR:
        found = "tar", "tar -xf"
    if found is not None:
        what, unpacks = found
        raise refused(
            "packed_file",
            f"The file is packed with {what}, which is not read here.",
            f"Unpack it ({unpacks} FILE) and send what comes out: a zip archive, or the file itself.",
        )


def _checked(file: BinaryIO, bounds: Bounds) -> zipfile.ZipFile:
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
    # By the bytes that are there: entries may be too small to be looked at one by one.
    if unpacked > min(bounds.unpacked, max(bounds.small, bounds.ratio * file.seek(0, 2))):
        raise refused("too_large", "The archive unpacks to far too much.")
    seen: set[str] = set()
    for info in infos:
        _check(info, bounds)
        if info.filename in seen:
            raise refused("hostile_archive", "Two files in the archive have one name.")
        seen.add(info.filename)
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise refused("hostile_archive", "Two files in the archive are the same bytes.")
        end = info.header_offset + _ENTRY_BYTES + info.compress_size
    if end > archive.start_dir:
        raise refused("hostile_archive", "A file in the archive reaches into its table of contents.")
    return archive


def _check(info: zipfile.ZipInfo, bounds: Bounds) -> None:
    # zipfile has cut the name at a NUL; what stood there shows that somebody tried.
    _check_name(info.orig_filename)
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refused("hostile_archive", "The archive holds a link, or something else that is no file.")
    if info.flag_bits & 0x1:
        raise refused("encrypted_archive", "The archive is encrypted.", "Unpack it and send what comes out.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise refused(
            "packed_file",
            "The archive is packed in a way that is not read here.",
            "Pack it again as a plain zip (deflate).",
        )
    if info.file_size > _SMALL_ENTRY and info.file_size > bounds.ratio * max(1, info.compress_size):
        raise refused("too_large", "A file in the archive unpacks to far too much.")


def _check_name(name: str) -> None:
    """The name of an entry leads nowhere else."""
    parts = name.replace("\\", "/").split("/")
    is_long = not name or len(name) > _LONGEST_NAME
    if is_long or name.startswith("/") or ".." in parts or ":" in parts[0] or "\x00" in name:
        raise refused("hostile_archive", "A file in the archive has a path that leads elsewhere.")


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
    locator = at - _LOCATOR_BYTES
    if locator >= 0 and tail.startswith(_LOCATOR64, locator):
        # Where there is a larger record it is believed, whatever the small one says: some look for it right before
        # this, others where this points to.
        (place,) = struct.unpack_from("<Q", tail, locator + 8)
        for start in (tail_at + locator - _RECORD_BYTES, min(place, end)):
            file.seek(max(0, start))
            record = file.read(_RECORD_BYTES)
            if len(record) == _RECORD_BYTES and record.startswith(_RECORD64):
                told += struct.unpack_from("<Q", record, 40)
    if not told:
        raise _damaged()
    return max(told)


def _damaged() -> InvalidError:
    return refused(
        "bad_file",
        "The archive is damaged or cut short.",
        "Export it once more, or check that it came over whole.",
    )
