"""What is to be written, waiting on disk, and all that a writer of files is given."""

import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.values import number

VECTORS_FILE, VECTORS_ABOUT = "vectors.safetensors", "__metadata__"
#: Vectors of one file: readers of this format take 100 MB of names and places at most.
VECTORS_PER_FILE = 250_000


class Spool:
    """A temporary file that nobody else sees, and where its lines begin."""

    def __init__(self, *, is_rising: bool = False) -> None:
        """`is_rising`: the lines come in the order that they are read in."""
        self._is_rising = is_rising
        self._file = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  closed by close
        self._starts = array("Q")
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, line: bytes) -> None:
        """One more."""
        self._starts.append(self._end)
        self._file.write(line)
        self._end += len(line)

    def lines(self, first: int = 0, most: int | None = None) -> Iterator[bytes]:
        """All of them; or some, counted in the order of reading."""
        count = len(self._starts)
        for index in range(first, count if most is None else min(count, first + most)):
            place = index if self._is_rising else count - 1 - index
            start = self._starts[place]
            end = self._starts[place + 1] if place + 1 < count else self._end
            self._file.seek(start)
            yield self._file.read(end - start)

    def items(self) -> Iterator[dict[str, Any]]:
        """The same as values."""
        return (json.loads(line, parse_int=number) for line in self.lines())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_SAFE = 2**53 - 1


def fingerprint(text: str) -> int:
    """Eight bytes that stand for a text; two texts in 2^64 are taken for one."""
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


class WrittenVectors:
    """Vectors that wait on disk, as items do: added in the order of falling ids, written in that of rising ones."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._names, self._data = Spool(), Spool()
        self._seen: set[int] = set()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, item_id: str, vector: bytes) -> None:
        """One more; a name that is there already would be another item's."""
        number = fingerprint(item_id)
        if len(vector) == 4 * self.dimensions and item_id != VECTORS_ABOUT and number not in self._seen:
            self._seen.add(number)
            self._names.add(json.dumps(item_id).encode("ascii"))
            self._data.add(vector)

    def files(self) -> dict[str, Callable[[], Iterator[bytes]]]:
        """The pieces of each file, by its name."""
        return {
            VECTORS_FILE if not first else f"vectors-{first // VECTORS_PER_FILE + 1}.safetensors": self._file(
                first
            )
            for first in range(0, len(self), VECTORS_PER_FILE)
        }

    def close(self) -> None:
        self._names.close()
        self._data.close()

    def _file(self, first: int) -> Callable[[], Iterator[bytes]]:
        def pieces() -> Iterator[bytes]:
            size = sum(map(len, self._head(first)))
            padding = -size % 8
            yield (size + padding).to_bytes(8, "little")
            yield from self._head(first)
            yield b" " * padding
            yield from self._data.lines(first, VECTORS_PER_FILE)

        return pieces

    def _head(self, first: int) -> Iterator[bytes]:
        about = {"dimensions": str(self.dimensions), "model": self.model}
        yield b'{"%s":%s' % (VECTORS_ABOUT.encode(), json.dumps(about).encode("ascii"))
        width = 4 * self.dimensions
        for at, name in enumerate(self._names.lines(first, VECTORS_PER_FILE)):
            place = (name, self.dimensions, at * width, (at + 1) * width)
            yield b',%s:{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}' % place
        yield b"}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All that a writer needs. Whoever made the spools closes them."""

    #: Lines (`line`) of items as the owner's copy has them (`sharing.items.owners_item`), in the order of their ids.
    items: Spool
    #: What a bundle's manifest says beside counts and digests: export_id, exported_at, exporter, owner, stores …
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: What else a bundle holds, by the name of its file: relations, tombstones, logs, receipts, grants.
    others: Mapping[str, Spool] = field(default_factory=dict[str, Spool])
    #: Of a bundle that is an archive.
    vectors: WrittenVectors | None = None
    #: Who signs a bundle: the owner. None: nobody does.
    by: Signatory | None = None
    #: A bundle as one stream of lines instead of an archive.
    as_lines: bool = False


def line(value: Mapping[str, Any], loss: Loss) -> bytes:
    """A value in the one way it is written. Whole numbers that other readers of JSON would round become text."""
    return canonical(_safe(value, loss))


def _safe(value: Any, loss: Loss) -> Any:
    if isinstance(value, Mapping):
        return {name: _safe(inner, loss) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_safe(inner, loss) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        loss.mapped("a number beyond 2^53", "text")
        return str(value)
    return value
