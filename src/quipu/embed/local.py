"""Embedders that run on this machine's processor: the built-in model, and others that are described as it is.

- Nothing is loaded until the first text.
- One text per run of the model, so a vector depends on its text and nothing else, to the last bit: with one scale for
  a whole batch, the other texts pull a vector to a cosine of 0.985 against the text alone. Nor do batches save time:
  four texts a run were no faster, and sixteen took nearly twice as long, for the padding.
- Texts run in parallel on a few worker threads, each run on one thread. Splitting a single run over two threads helps
  on an idle machine only: on a busy one it took up to twice as long.
- A long call hands out small batches, so a query that arrives meanwhile waits for one batch only.
- Text beyond what a model reads at once is read in windows that overlap; its vector is the mean of theirs.
- Every vector is brought to length one, whatever length the model gives it.
"""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from quipu.embed.description import Description, described
from quipu.embed.port import Calibration, Role
from quipu.errors import BackendUnavailableError

_MOST_THREADS = 4
_BATCH_CHARACTERS = 1_000


class Model(Protocol):
    """A loaded model. Safe to use from several threads."""

    def vector(self, text: str) -> bytes:
        """One unit vector for the whole text."""
        ...


class LocalEmbedder:
    """Embeds on this machine's processor. Tasks of one event loop may share it."""

    def __init__(
        self, directory: Path | None = None, *, description: Description | None = None, threads: int = 0
    ) -> None:
        """`directory` holds the model's files instead of the package, and its description where none is given;
        `threads` 0 is one per core, four at most."""
        self._directory = directory
        self._description = description or described(directory)
        self._threads = threads if threads > 0 else min(_MOST_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="quipu-embed")
        self._model: Model | None = None
        self._is_closed = False

    @property
    def model(self) -> str:
        return self._description.name

    @property
    def dimensions(self) -> int:
        return self._description.dimensions

    @property
    def calibration(self) -> Calibration | None:
        return self._description.calibration

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        """One unit vector per text, in order. The first call loads the model."""
        texts = [self._description.prefixed(text, role) for text in texts]
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
            self._model = model = _shared_model(self._description, self._directory)
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


#: The models of this process by name and directory: several memories share one, as long as any of them is open.
_models: WeakValueDictionary[tuple[str, Path | None], Model] = WeakValueDictionary()
_loading = threading.Lock()


def _shared_model(description: Description, directory: Path | None) -> Model:
    place = description.name, directory.absolute() if directory is not None else None
    with _loading:
        model = _models.get(place)
        if model is None:
            _models[place] = model = _loaded(description, directory)
        return model


def _loaded(description: Description, directory: Path | None) -> Model:
    if description.package is not None:
        from quipu.embed.package_model import PackageModel  # each loads what the other does without

        return PackageModel(description)
    from quipu.embed.onnx_model import OnnxModel

    return OnnxModel(description, directory)
