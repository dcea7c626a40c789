"""The fast embedder: a table with one vector for each word piece, distilled from the weights of the default model.

- A text's vector is the mean of its pieces' vectors, so word order is lost, and one text takes microseconds.
- The table is made once, on this machine: every piece goes through the default model as a text of its own; the mean
  is taken off, the 128 directions that say least are dropped, and rare pieces count more than frequent ones.
- It stays in the model's own axes. Axes of its own would be turned a little by every processor's rounding, and vectors
  made on two machines would not fit together.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quipu.embed.artifact import Progress, kept, silent
from quipu.embed.text import well_formed
from quipu.embed.vectors import packed
from quipu.embed.weights import NAME, TENSORS
from quipu.embed.wordpiece import WordPieces
from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    from quipu.embed.runtime import Runtime

#: Raised when the table or the pooling change: then the vectors, and so the name, change.
BUILD = 2
MODEL = f"{NAME}/fast-{BUILD}-{TENSORS.sha256[:8]}"
DIMENSIONS = 384

_STEM = f"{NAME}-fast-{TENSORS.sha256[:12]}-{BUILD}"
_PIECES = 30_522
_DIRECTIONS = 256
#: Begins every text of the model; stands in for a text without a piece.
_BEGINNING = 101
_HANDFUL = 256
_LENGTH_BYTES = 8
#: More texts than this are worth a thread.
_FEW = 16


class FastEmbedder:
    """Embeds by looking up. Safe to share between tasks of one event loop, and to close twice."""

    def __init__(
        self,
        cache_dir: Path,
        *,
        weights_dir: Path | None = None,
        download: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self._cache_dir, self._weights_dir, self._download = cache_dir, weights_dir, download
        self._progress = progress or silent
        self._loading = threading.Lock()
        self._table: Table | None = None
        self._is_closed = False

    @property
    def model(self) -> str:
        return MODEL

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order. The first call loads the table, the very first makes it."""
        if self._is_closed:
            raise BackendUnavailableError("The embedder is closed.", reason="closed")
        if self._table is None or len(texts) > _FEW:
            return await asyncio.to_thread(lambda: self._loaded().embedded(texts))
        return self._table.embedded(texts)

    async def close(self) -> None:
        """Give the table back."""
        self._is_closed, self._table = True, None

    def _loaded(self) -> Table:
        with self._loading:
            if self._table is None:
                self._table = Table(kept(self._cache_dir, _STEM, ".table", self._made))
            return self._table

    def _made(self) -> bytes:
        from quipu.embed.onnx import loaded

        runtime = loaded(self._cache_dir, self._weights_dir, self._download, self._progress)
        words = runtime.tokenizer.encode("utf-8")
        table = distilled(_spoken(runtime, self._progress))
        return len(words).to_bytes(_LENGTH_BYTES, "little") + words + table.astype("<f2").tobytes()


class Table:
    """The table and its vocabulary in memory."""

    def __init__(self, payload: bytes) -> None:
        end = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "little")
        self._pieces = WordPieces(payload[_LENGTH_BYTES:end].decode("utf-8"))
        rows = np.frombuffer(payload, "<f2", offset=end)
        self._rows: NDArray[np.float32] = rows.reshape(-1, DIMENSIONS).astype(np.float32)

    def embedded(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each whole text."""
        read = (self._pieces.numbers(well_formed(text)) for text in texts)
        return [packed(self._rows[numbers or [_BEGINNING]].mean(axis=0)) for numbers in read]


def distilled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The table, from the vectors of all pieces. Their numbers go by how frequent they are, the most frequent first."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    telling = directions[:, -_DIRECTIONS:]
    weights = np.log1p(np.arange(len(vectors), dtype=np.float32))
    return (centred @ (telling @ telling.T) * weights[:, None]).astype(np.float32)


def _spoken(runtime: Runtime, progress: Progress) -> NDArray[np.float32]:
    """Every piece, as the model says it alone."""
    handfuls = [range(start, min(start + _HANDFUL, _PIECES)) for start in range(0, _PIECES, _HANDFUL)]
    vectors: list[NDArray[np.float32]] = []
    with ThreadPoolExecutor(2, thread_name_prefix="quipu-distil") as pool:
        for done in pool.map(runtime.words, handfuls):
            vectors.extend(done)
            progress("making the table", len(vectors) / _PIECES)
    return np.stack(vectors)
