"""vectors.safetensors: the vector of each item under its id, written and read a piece at a time.

A file is a length of eight bytes, so many bytes of JSON that name each vector and its place, and then the numbers:
little-endian float32. No package is needed for that, and nothing that a file says is believed before it was compared.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np

from quipu.errors import InvalidError
from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.spool import VECTORS_ABOUT, VECTORS_FILE, fingerprint
from quipu.transfer.formats.values import refused

_MOST_NAMES = 100_000_000
_MOST_DIMENSIONS = 65_536
_PIECE = 1 << 20
#: The place of a vector: the number of its file, and in it that of the vector.
_FILE_BITS = 40


def is_vectors(name: str) -> bool:
    """Whether a file of a bundle holds vectors."""
    return name == VECTORS_FILE or (name.startswith("vectors-") and name.endswith(".safetensors"))


class Vectors:
    """The vectors of a bundle, asked for in the order of its items.

    They are read forwards only: one that stands before another that was asked for earlier is not found, and its item
    is embedded anew. Sixteen bytes are held for each, whatever its name.
    """

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self._source = source
        self._names = sorted(names, key=lambda name: (len(name), name))
        #: Where the numbers begin in each file.
        self._starts: list[int] = []
        self.model: str = ""
        self.dimensions: int = 0
        found, places = array("Q"), array("Q")
        for file, name in enumerate(self._names):
            for item_id, number in self._named(name):
                found.append(fingerprint(item_id))
                places.append(file << _FILE_BITS | number)
        order = np.argsort(np.frombuffer(found, np.uint64), kind="stable")
        self._found = np.frombuffer(found, np.uint64)[order]
        self._places = np.frombuffer(places, np.uint64)[order]
        self._file, self._at = -1, 0
        self._stream: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self._found)

    def of(self, item_id: str) -> bytes | None:
        """The vector of an item; None where there is none, or it was passed over."""
        wanted = np.uint64(fingerprint(item_id))
        at = int(np.searchsorted(self._found, wanted))
        if at == len(self._found) or self._found[at] != wanted:
            return None
        place = int(self._places[at])
        file, number = place >> _FILE_BITS, place & ((1 << _FILE_BITS) - 1)
        width = 4 * self.dimensions
        start = self._starts[file] + number * width
        if file < self._file or (file == self._file and start < self._at):
            return None
        if file != self._file:
            self._file, self._at, self._stream = file, 0, self._source.open(self._names[file])
        stream = cast("BinaryIO", self._stream)
        _skip(stream, start - self._at)
        data = stream.read(width)
        self._at = start + width
        if len(data) < width:
            raise _damaged()
        return data

    def _named(self, name: str) -> Iterator[tuple[str, int]]:
        """The vectors of one file: whose each is, and its number."""
        stream = self._source.open(name)
        size = int.from_bytes(stream.read(8), "little")
        if not 2 <= size <= _MOST_NAMES:
            raise _damaged()
        self._starts.append(8 + size)
        try:
            for part in values.parts(cast("BinaryIO", _Beginning(stream, size))):
                body = values.an_object(part.value)
                if part.name == VECTORS_ABOUT:
                    self._describe(body)
                elif part.name is not None and (number := self._number(body)) is not None:
                    yield part.name, number
        except InvalidError as error:
            raise _damaged() from error

    def _describe(self, body: dict[str, Any]) -> None:
        model, said = body.get("model"), str(body.get("dimensions", ""))
        if not isinstance(model, str) or not said.isascii() or not said.isdecimal() or len(said) > 6:
            raise _damaged()
        about = model, int(said)
        if not 0 < about[1] <= _MOST_DIMENSIONS or (
            self.dimensions and about != (self.model, self.dimensions)
        ):
            raise _damaged()
        self.model, self.dimensions = about

    def _number(self, body: dict[str, Any]) -> int | None:
        """Which of the vectors of its file it is; None where it is of another kind."""
        width = 4 * self.dimensions
        if body.get("dtype") != "F32" or body.get("shape") != [self.dimensions] or not width:
            return None
        match body.get("data_offsets"):
            case [int(start), int(end)] if 0 <= start < 1 << _FILE_BITS and end == start + width:
                return start // width if start % width == 0 else None
            case _:
                raise _damaged()


class _Beginning:
    """The first bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


def _skip(stream: BinaryIO, size: int) -> None:
    while size > 0 and (piece := stream.read(min(size, _PIECE))):
        size -= len(piece)


def _damaged() -> InvalidError:
    return refused(
        "bad_file",
        "The bundle's vectors are damaged or cut short.",
        "Ask for a new export, or one without them.",
    )
