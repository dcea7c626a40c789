"""vectors.safetensors: the vector of each item under its id, written and read a piece at a time (contract 10.1).

The file is a length of eight bytes, so many bytes of JSON that name each vector and its place, and then the numbers.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from quipu.errors import InvalidError, QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.seen import Seen, fingerprint
from quipu.formats.spool import Spool
from quipu.formats.values import refused

FILE = "vectors.safetensors"
#: Vectors of one file: readers of this format take 100 MB of names and places at most.
PER_FILE = 250_000
_MOST_NAMES = 100_000_000
_ABOUT = "__metadata__"
_PIECE = 1 << 20
#: The place of a vector: the number of its file, and in it that of the vector.
_FILE_BITS = 40


def is_vectors(name: str) -> bool:
    """Whether a file of a bundle holds vectors."""
    return name == FILE or (name.startswith("vectors-") and name.endswith(".safetensors"))


# -- writing ----------------------------------------------------------------------------------------------------


class Written:
    """Vectors that wait on disk, as the items do: added with falling ids, written with rising ones."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._names, self._data, self._seen = Spool(), Spool(), Seen()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, item_id: str, vector: bytes) -> None:
        """One more; a name that is there already would be another item's."""
        if len(vector) == 4 * self.dimensions and item_id != _ABOUT and self._seen.add(item_id):
            self._names.add(json.dumps(item_id).encode("ascii"))
            self._data.add(vector)

    def files(self) -> dict[str, Callable[[], Iterator[bytes]]]:
        """The pieces of each file, by its name."""
        return {
            FILE if not first else f"vectors-{first // PER_FILE + 1}.safetensors": self._file(first)
            for first in range(0, len(self), PER_FILE)
        }

    def _file(self, first: int) -> Callable[[], Iterator[bytes]]:
        def pieces() -> Iterator[bytes]:
            size = sum(map(len, self._head(first)))
            padding = -size % 8
            yield (size + padding).to_bytes(8, "little")
            yield from self._head(first)
            yield b" " * padding
            yield from self._data.lines(first, PER_FILE)

        return pieces

    def _head(self, first: int) -> Iterator[bytes]:
        about = {"dimensions": str(self.dimensions), "model": self.model}
        yield b'{"%s":%s' % (_ABOUT.encode(), json.dumps(about).encode("ascii"))
        width = 4 * self.dimensions
        for number, name in enumerate(self._names.lines(first, PER_FILE)):
            told = (name, self.dimensions, number * width, (number + 1) * width)
            yield b',%s:{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}' % told
        yield b"}"

    def close(self) -> None:
        """Let go of them."""
        self._names.close()
        self._data.close()


# -- reading ----------------------------------------------------------------------------------------------------


class Vectors:
    """The vectors of a bundle, asked for in the order of its items.

    They are read forwards only, so one that stands before another that was asked for earlier is not found: it is made
    anew. What is held of each is its hash and its place.
    """

    def __init__(self, source: Source, names: list[str]) -> None:
        self._source, self._names = source, sorted(names, key=_number)
        self._places = _Places()
        #: Where the numbers begin in each file.
        self._starts: list[int] = []
        self.model: str = ""
        self.dimensions: int = 0
        for file, name in enumerate(self._names):
            self._noted(file, name)
        self._file, self._at, self._stream = -1, 0, cast("BinaryIO | None", None)

    def __len__(self) -> int:
        return len(self._places)

    def of(self, item_id: str) -> bytes | None:
        """The vector of an item; None where there is none, or it was passed over."""
        place = self._places.get(item_id)
        if place is None:
            return None
        file, number = place >> _FILE_BITS, place & ((1 << _FILE_BITS) - 1)
        width = 4 * self.dimensions
        at = self._starts[file] + number * width
        if file < self._file or (file == self._file and at < self._at):
            return None
        if file != self._file:
            self._file, self._at, self._stream = file, 0, self._source.open(self._names[file])
        stream = cast("BinaryIO", self._stream)
        _skip(stream, at - self._at)
        data = stream.read(width)
        self._at = at + width
        if len(data) < width:
            raise _damaged()
        return data

    def _noted(self, file: int, name: str) -> None:
        stream = self._source.open(name)
        size = int.from_bytes(stream.read(8), "little")
        if not 2 <= size <= _MOST_NAMES:
            raise _damaged()
        self._starts.append(8 + size)
        try:
            for part in json_stream.parts(cast("BinaryIO", _Cut(stream, size))):
                self._note(file, part.name or "", values.an_object(values.parsed(part.raw)))
        except QuipuError as error:
            raise _damaged() from error

    def _note(self, file: int, name: str, body: dict[str, Any]) -> None:
        if name == _ABOUT:
            about = _about(body)
            if self.dimensions and about != (self.model, self.dimensions):
                raise _damaged()
            self.model, self.dimensions = about
            return
        width, offsets = 4 * self.dimensions, body.get("data_offsets")
        if body.get("dtype") != "F32" or body.get("shape") != [self.dimensions] or not width:
            return
        match offsets:
            case [int(start), int(end)] if 0 <= start < 1 << _FILE_BITS and end == start + width:
                if start % width == 0:
                    self._places.put(name, file << _FILE_BITS | start // width)
            case _:
                raise _damaged()


class _Cut:
    """The first bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


class _Places:
    """A number for each name, in 16 bytes; open addressed, it doubles when it is half full."""

    def __init__(self) -> None:
        self._keys, self._values = array("Q", bytes(8 << 12)), array("Q", bytes(8 << 12))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, name: str, value: int) -> None:
        key = fingerprint(name)
        place = self._find(key)
        if not self._keys[place]:
            self._count += 1
        self._keys[place], self._values[place] = key, value
        if 2 * self._count > len(self._keys):
            keys, numbers = self._keys, self._values
            self._keys, self._values = array("Q", bytes(16 * len(keys))), array("Q", bytes(16 * len(keys)))
            for key, number in zip(keys, numbers, strict=True):
                if key:
                    place = self._find(key)
                    self._keys[place], self._values[place] = key, number

    def get(self, name: str) -> int | None:
        key = fingerprint(name)
        place = self._find(key)
        return self._values[place] if self._keys[place] == key else None

    def _find(self, key: int) -> int:
        """Where it is, or would be."""
        mask = len(self._keys) - 1
        place = key & mask
        while self._keys[place] not in (0, key):
            place = (place + 1) & mask
        return place


def _about(body: dict[str, Any]) -> tuple[str, int]:
    model, told = body.get("model"), str(body.get("dimensions", ""))
    if not isinstance(model, str) or not told.isascii() or not told.isdecimal() or len(told) > 6:
        raise _damaged()
    return model, int(told)


def _number(name: str) -> tuple[int, str]:
    return len(name), name


def _skip(stream: BinaryIO, size: int) -> None:
    while size > 0 and (piece := stream.read(min(size, _PIECE))):
        size -= len(piece)


def _damaged() -> InvalidError:
    return refused("bad_file", "The bundle's vectors are damaged or cut short.")
