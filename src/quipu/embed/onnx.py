"""The default embedder: all-MiniLM-L6-v2 in int8 through onnxruntime, no torch.

- Nothing is loaded until the first text; the first start ever builds the graph, later ones only read it.
- One text per run of the model, so a vector depends on its text and nothing else, to the last bit: with one
  scale for a whole batch, batch mates pull a vector to a cosine of 0.985 against the text alone. Nor do batches
  gain time: four texts a run were no faster, and sixteen took nearly twice as long, for the padding.
- Texts run side by side on a few worker threads, each run on one thread. Splitting a single run over two
  threads helps on an idle machine only: on a busy one it took up to twice as long.
- A long call hands out small pieces of work, so a query that arrives meanwhile waits for one piece only.
- Text beyond 256 word pieces is read in windows that overlap by 32, and all of them count.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from quipu.embed.artifact import Progress, kept, silent
from quipu.embed.weights import NAME, TENSORS, load_weights
from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    from quipu.embed.runtime import Runtime

#: Raised when the graph, the tokens or the pooling change: then the vectors, and so the name, change.
BUILD = 2
MODEL = f"{NAME}/int8-{BUILD}-{TENSORS.sha256[:8]}"
DIMENSIONS = 384

_STEM = f"{NAME}-int8-{TENSORS.sha256[:12]}-{BUILD}"
_MOST_THREADS = 4

#: The models of this process by where they are kept: several memories share one, as long as any of them is open.
_in_use: WeakValueDictionary[Path, Runtime] = WeakValueDictionary()
_loading = threading.Lock()
_PIECE_CHARACTERS = 1_000


class OnnxEmbedder:
    """Embeds on this machine's processor. Safe to share between tasks of one event loop, and to close twice."""

    def __init__(
        self,
        cache_dir: Path,
        *,
        weights_dir: Path | None = None,
        download: bool = True,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._cache_dir = cache_dir
        self._weights_dir = weights_dir
        self._download = download
        self._progress = progress or silent
        self._threads = threads if threads > 0 else min(_MOST_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="quipu-embed")
        self._loaded: Runtime | None = None
        self._is_closed = False

    @property
    def model(self) -> str:
        return MODEL

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order. The first call loads the model, the very first builds it."""
        if len(texts) == 1:  # a query: no lanes, and fewer turns of the event loop before its answer is there
            return await self._worked(texts)
        vectors = [b""] * len(texts)
        pieces = iter(_pieces(texts))
        lanes = [self._lane(texts, pieces, vectors) for _ in range(min(self._threads, len(texts)))]
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes:
                    group.create_task(lane)
        except ExceptionGroup as failures:  # one failure says as much as all of them
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        return vectors

    async def close(self) -> None:
        """Let running work end and give the threads and the model back."""
        self._is_closed = True
        await asyncio.to_thread(self._pool.shutdown)
        self._loaded = None

    async def _lane(self, texts: Sequence[str], pieces: Iterator[list[int]], vectors: list[bytes]) -> None:
        for piece in pieces:
            results = await self._worked([texts[number] for number in piece])
            for number, vector in zip(piece, results, strict=True):
                vectors[number] = vector

    async def _worked(self, texts: Sequence[str]) -> list[bytes]:
        """One piece of work, done on a worker thread."""
        if self._is_closed:
            raise BackendUnavailableError("The embedder is closed.", reason="closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embedded, texts)

    def _embedded(self, texts: Sequence[str]) -> list[bytes]:
        runtime = self._runtime()
        return [runtime.embedded(text) for text in texts]

    def _runtime(self) -> Runtime:
        runtime = self._loaded
        if runtime is None:
            with _loading:
                place = self._cache_dir.absolute()
                runtime = _in_use.get(place)
                if runtime is None:
                    runtime = loaded(self._cache_dir, self._weights_dir, self._download, self._progress)
                    _in_use[place] = runtime
            self._loaded = runtime
        return runtime


def loaded(cache_dir: Path, weights_dir: Path | None, download: bool, progress: Progress) -> Runtime:
    """The model in memory, from the graph that is kept, or else built now."""

    def built() -> bytes:
        weights = load_weights(cache_dir, directory=weights_dir, download=download, progress=progress)
        # The libraries that build are slow to import and needed once.
        from quipu.embed.graph import build_graph

        return build_graph(weights, progress)

    payload = kept(cache_dir, _STEM, ".onnx", built)
    from quipu.embed.runtime import Runtime

    return Runtime(payload)


def _pieces(texts: Sequence[str]) -> Iterator[list[int]]:
    """Numbers of texts in handfuls of work, the longest texts first so that no lane ends late."""
    piece: list[int] = []
    characters = 0
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        if piece and characters + len(texts[number]) > _PIECE_CHARACTERS:
            yield piece
            piece, characters = [], 0
        piece.append(number)
        characters += len(texts[number])
    if piece:
        yield piece
