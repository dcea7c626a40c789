"""The built-in embedder: all-MiniLM-L6-v2 in int8 through onnxruntime.

- Nothing is loaded until the first text.
- One text per run of the model, so a vector depends on its text and nothing else, to the last bit: with one scale for
  a whole batch, the other texts pull a vector to a cosine of 0.985 against the text alone. Nor do batches save time:
  four texts a run were no faster, and sixteen took nearly twice as long, for the padding.
- Texts run in parallel on a few worker threads, each run on one thread. Splitting a single run over two threads helps
  on an idle machine only: on a busy one it took up to twice as long.
- A long call hands out small batches, so a query that arrives meanwhile waits for one batch only.
- Text beyond 256 word pieces is read in windows that overlap by 32; its vector is the mean of theirs.
"""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from quipu.embed.pooling import normalised, well_formed, windows
from quipu.embed.weights import Weights, load_weights, manifest
from quipu.embed.wordpiece import WordPieces
from quipu.errors import BackendUnavailableError

_WINDOW, _OVERLAP = 256, 32
#: About 15,000 words. A book is found by its words; its vector is that of a sample.
_MOST_WINDOWS = 64
_MOST_THREADS = 4
_BATCH_CHARACTERS = 1_000


class MiniLmEmbedder:
    """Embeds on this machine's processor. Tasks of one event loop may share it."""

    def __init__(self, directory: Path | None = None, *, threads: int = 0) -> None:
        """`directory` holds the model's files instead of the package; `threads` 0 is one per core, four at most."""
        self._directory = directory
        self._manifest = manifest()
        self._threads = threads if threads > 0 else min(_MOST_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="quipu-embed")
        self._model: _Model | None = None
        self._is_closed = False

    @property
    def model(self) -> str:
        return self._manifest.name

    @property
    def dimensions(self) -> int:
        return self._manifest.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order. The first call loads the model."""
        vectors = [b""] * len(texts)
        batches = _batches(texts)

        async def work() -> None:
            for batch in batches:
                done = await self._on_thread([texts[number] for number in batch])
                for number, vector in zip(batch, done, strict=True):
                    vectors[number] = vector

        if len(texts) == 1:
            await work()
        else:
            await asyncio.gather(*(work() for _ in range(min(self._threads, len(texts)))))
        return vectors

    def clear(self) -> None:
        """It keeps no text."""

    async def close(self) -> None:
        """Let running work end, and give back the threads and the model."""
        self._is_closed = True
        await asyncio.to_thread(self._pool.shutdown)
        self._model = None

    async def _on_thread(self, texts: Sequence[str]) -> list[bytes]:
        if self._is_closed:
            raise BackendUnavailableError("The embedder is closed.", reason="closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embedded, texts)

    def _embedded(self, texts: Sequence[str]) -> list[bytes]:
        model = self._model
        if model is None:
            self._model = model = _shared_model(self._directory)
        return [model.vector(text) for text in texts]


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Numbers of texts in small batches, the longest texts first so that no thread ends late."""
    batch: list[int] = []
    characters = 0
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        if batch and characters + len(texts[number]) > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
        batch.append(number)
        characters += len(texts[number])
    if batch:
        yield batch


class _Model:
    """The loaded model. Safe to use from several threads."""

    def __init__(self, weights: Weights) -> None:
        self._runtime = _Runtime()
        self._session = self._runtime.session(weights.graph)
        self._pieces = WordPieces(weights.vocabulary)
        self._begin, self._end = (weights.vocabulary.index(piece) for piece in ("[CLS]", "[SEP]"))

    def vector(self, text: str) -> bytes:
        """One vector for the whole text: the mean of its windows, each weighted by its length."""
        numbers = self._pieces.numbers(well_formed(text))
        inputs = [
            [self._begin, *window, self._end]
            for window in windows(numbers, _WINDOW - 2, _OVERLAP, _MOST_WINDOWS)
        ]
        vectors = [self._runtime.run(self._session, window) for window in inputs]
        if len(vectors) == 1:
            return normalised(vectors[0])
        return normalised(np.average(vectors, axis=0, weights=[len(window) for window in inputs]))


#: The models of this process by directory: several memories share one, as long as any of them is open.
_models: WeakValueDictionary[Path | None, _Model] = WeakValueDictionary()
_loading = threading.Lock()


def _shared_model(directory: Path | None) -> _Model:
    place = directory.absolute() if directory is not None else None
    with _loading:
        model = _models.get(place)
        if model is None:
            _models[place] = model = _Model(load_weights(directory))
        return model


class _Runtime:
    """onnxruntime, whose parts have no types: imported when a model is loaded, its errors wrapped."""

    def __init__(self) -> None:
        # It sends usage data to its maker unless this is set before it is imported; switching that off later does not
        # keep it from making a device id.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251  written, not read: the one way to switch it off
        try:
            self._library: Any = import_module("onnxruntime")
            self._library.disable_telemetry_events()  # somebody else may have imported it first
            state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        except ImportError as error:
            raise BackendUnavailableError(
                "onnxruntime, which runs the embedding model, cannot be imported.",
                reason="model_unloadable",
                hint="Run `pip install --force-reinstall onnxruntime`, or choose another embedder.",
            ) from error
        # Its errors have no parent in common.
        self._errors = (
            RuntimeError,
            *(
                kind
                for kind in vars(state).values()
                if isinstance(kind, type) and issubclass(kind, Exception)
            ),
        )

    def session(self, graph: bytes) -> Any:
        """The ONNX file, ready to run."""
        options = self._library.SessionOptions()
        options.intra_op_num_threads = 1
        # The graph has its fused operators already. Looking for others takes a third of the loading and changes no
        # vector; a query was 3 to 5 % faster without, and without an arena, a long text no slower.
        options.graph_optimization_level = self._library.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        try:
            return self._library.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            raise BackendUnavailableError(
                "onnxruntime cannot load the embedding model.",
                reason="model_unloadable",
                hint="Run `pip install --upgrade onnxruntime`, or choose another embedder.",
            ) from error

    def run(self, session: Any, numbers: Sequence[int]) -> NDArray[np.float32]:
        """The vector of one window."""
        try:
            return session.run(None, {"ids": np.array([numbers], np.int64)})[0][0]
        except self._errors as error:
            raise BackendUnavailableError(
                "onnxruntime could not run the embedding model.", reason="model_failed"
            ) from error
