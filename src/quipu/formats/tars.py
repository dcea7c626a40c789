"""A tar archive from a stranger, plain or packed with gzip: looked at by its headers, and nothing is ever unpacked by name.

Only files and folders are let in. Links, devices, pipes and holes are refused, and so are names that lead elsewhere;
what gzip has packed is unpacked into a file that nobody else sees, up to a bound.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, cast

from quipu.errors import InvalidError
from quipu.formats.bounds import Bounds, check_name
from quipu.formats.values import refused

_BLOCK = 512
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
#: No name is longer, with all that is told beside it.
_LONGEST_NAME = 64 << 10
_FILES, _FOLDER, _PAX, _PAX_ALL, _LONG_NAME = (b"0", b"\0", b"7"), b"5", b"x", b"g", b"L"


class Tar:
    """The files of a tar archive, by name."""

    def __init__(self, file: BinaryIO, bounds: Bounds, *, is_own: bool) -> None:
        self._file, self._is_own = file, is_own
        self._places: dict[str, tuple[int, int]] = {}
        told = 0
        for name, start, size in _entries(file, bounds):
            check_name(name)
            name = name.removeprefix("./")
            if name in self._places:
                raise refused("hostile_archive", "Two files in the archive have one name.")
            told += len(name)
            if len(self._places) >= bounds.entries or told > bounds.directory:
                raise refused("too_large", "The archive holds too many files.")
            self._places[name] = start, size

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are files."""
        return tuple(self._places)

    def open(self, name: str) -> BinaryIO:
        """One of them, from its beginning; several can be read side by side."""
        return cast("BinaryIO", _Slice(self._file, *self._places[name]))

    def close(self) -> None:
        """Let go of what was unpacked."""
        if self._is_own:
            self._file.close()


class _Slice:
    """A stretch of a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._at, self._end = file, start, start + size

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        self._file.seek(self._at)
        return self._on(self._file.read(left if size < 0 else min(size, left)))

    def readline(self, size: int = -1) -> bytes:
        left = self._end - self._at
        self._file.seek(self._at)
        return self._on(self._file.readline(left if size < 0 else min(size, left)))

    def _on(self, data: bytes) -> bytes:
        self._at += len(data)
        return data


def opened(file: BinaryIO, bounds: Bounds) -> Tar | None:
    """The archive, if it is one."""
    file.seek(0)
    head = file.read(_BLOCK)
    if _is_header(head):
        return Tar(file, bounds, is_own=False)
    if not head.startswith(_GZIP):
        return None
    unpacked = _unpacked(file, bounds)
    if unpacked is None:
        return None
    try:
        return Tar(unpacked, bounds, is_own=True)
    except BaseException:
        unpacked.close()
        raise


def _unpacked(file: BinaryIO, bounds: Bounds) -> BinaryIO | None:
    """What gzip has packed; None where it is no tar archive."""
    most = min(bounds.spooled, max(bounds.small, bounds.ratio * file.seek(0, 2)))
    file.seek(0)
    pieces = _pieces(file)
    first = next(pieces, b"")
    if not _is_header(first):
        return None
    target = tempfile.TemporaryFile(prefix="quipu-import-")  # noqa: SIM115  handed on
    try:
        for piece in chain((first,), pieces):
            target.write(_within(piece, most - target.tell()))
    except BaseException:
        target.close()
        raise
    return cast("BinaryIO", target)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The first block, and then larger ones."""
    size = _BLOCK
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while piece := packed.read(size):
                yield piece
                size = _PIECE
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged() from error


def _within(piece: bytes, left: int) -> bytes:
    if len(piece) > left:
        raise refused("too_large", "The archive unpacks to far too much.")
    return piece


def _entries(file: BinaryIO, bounds: Bounds) -> Iterator[tuple[str, int, int]]:
    """Name, first byte and size of each file."""
    end, at, count, more = file.seek(0, 2), 0, 0, dict[str, str]()
    while True:
        file.seek(at)
        header = file.read(_BLOCK)
        if len(header) == _BLOCK and not header.strip(b"\0"):
            return  # the block of zeros that ends it
        if not _is_header(header):
            raise _damaged()
        count += 1
        if count > 4 * bounds.entries:  # a file may have a header or two that tell more of it
            raise refused("too_large", "The archive holds too many files.")
        kind, start, size = header[156:157], at + _BLOCK, _size(header[124:136])
        if kind in (_PAX, _PAX_ALL, _LONG_NAME):
            if size > _LONGEST_NAME or start + size > end:
                raise refused("hostile_archive", "A name in the archive is too long.")
            if kind != _PAX_ALL:
                more |= _told(kind, file.read(size))
        elif kind in _FILES or kind == _FOLDER:
            size = _decimal(more["size"]) if "size" in more else size
            name = more.get("path") or _name(header)
            if start + size > end:
                raise _damaged()
            if kind != _FOLDER and not name.endswith("/"):
                yield name, start, size
            more = {}
        else:
            raise refused("hostile_archive", "The archive holds a link, or something else that is no file.")
        at = start + -(-size // _BLOCK) * _BLOCK


def _is_header(block: bytes) -> bool:
    """Whether a block is the header of an entry: its sum is right."""
    if len(block) < _BLOCK or block[257:262] != b"ustar":
        return False
    try:
        told = int(block[148:156].strip(b" \0") or b"0", 8)
    except ValueError:
        return False
    return told == sum(block[:148]) + 8 * 0x20 + sum(block[156:])


def _size(field: bytes) -> int:
    if field[0] == 0x80:  # larger than octal digits can tell
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        raise _damaged() from None


def _decimal(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise _damaged()
    return int(text)


def _name(header: bytes) -> str:
    name, prefix = header[:100].split(b"\0", 1)[0], header[345:500].split(b"\0", 1)[0]
    # The older GNU form has other things where the prefix would be.
    return _text(prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name)


def _told(kind: bytes, data: bytes) -> dict[str, str]:
    """What a header of its own says of the entry that follows: a long name, or lines of `length name=value`."""
    if kind == _LONG_NAME:
        return {"path": _text(data.rstrip(b"\0"))}
    told: dict[str, str] = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not len(length) < int(length) <= len(data):
            raise _damaged()
        name, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        told[_text(name)] = _text(value)
        data = data[int(length) :]
    if any(name.startswith("GNU.sparse") for name in told) or "linkpath" in told:
        raise refused("hostile_archive", "The archive holds a link, or something else that is no file.")
    return told


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _damaged() from None


def _damaged() -> InvalidError:
    return refused("bad_file", "The archive is damaged or cut short.")
