"""Vectors of texts seen lately, kept in memory.

- Keys are hashes of the texts and their roles: the cache holds no text.
- Equal texts asked for at the same time are computed once.
- What was cleared stays out, also when its computation was still running: erasure relies on it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeAlias

from quipu.embed.port import Calibration, Embedder, Role
from quipu.errors import BackendUnavailableError

#: Computes the vectors of several texts, by key.
Computation: TypeAlias = asyncio.Task[dict[bytes, bytes]]


class CachedEmbedder:
    """Keeps the last `size` vectors of another embedder, which it closes with itself. One event loop."""

    def __init__(self, inner: Embedder, size: int = 4096) -> None:
        self._inner = inner
        self._size = size
        self._vectors: OrderedDict[bytes, bytes] = OrderedDict()
        #: By key, as long as it may still be shared and kept.
        self._current: dict[bytes, Computation] = {}
        self._running: set[Computation] = set()

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    @property
    def calibration(self) -> Calibration | None:
        return self._inner.calibration

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        """One unit vector per text, in order; only texts not seen lately in this role reach the inner embedder."""
        keys = [sha256(f"{role} {text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        found = {key: self._vectors[key] for key in keys if key in self._vectors}
        for key in found:
            self._vectors.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        self._start({key: text for key, text in missing.items() if key not in self._current}, role)
        computations = {self._current[key] for key in missing}
        if computations:
            # Waited for, not awaited: a caller who gives up does not take the vector away from the others.
            await asyncio.wait(computations)
        for computation in computations:
            if computation.cancelled():
                raise BackendUnavailableError("The embedder is closed.", reason="closed")
            found |= computation.result()
        return [found[key] for key in keys]

    def clear(self) -> None:
        """Forget every vector, also those that are being computed."""
        self._vectors.clear()
        self._current.clear()
        self._inner.clear()

    async def close(self) -> None:
        """Forget everything and close the inner embedder. Who still waits for a vector gets an error."""
        self.clear()
        for computation in self._running:
            computation.cancel()
        await self._inner.close()

    def _start(self, texts: dict[bytes, str], role: Role) -> None:
        if not texts:
            return
        computation = asyncio.create_task(self._computed(texts, role))
        self._running.add(computation)
        self._current.update(dict.fromkeys(texts, computation))
        computation.add_done_callback(lambda done: self._finish(done, tuple(texts)))

    async def _computed(self, texts: dict[bytes, str], role: Role) -> dict[bytes, bytes]:
        vectors = await self._inner.embed(list(texts.values()), role)
        return dict(zip(texts, vectors, strict=True))

    def _finish(self, computation: Computation, keys: Sequence[bytes]) -> None:
        self._running.discard(computation)
        has_failed = computation.cancelled() or computation.exception() is not None
        for key in keys:
            if self._current.get(key) is not computation:  # cleared meanwhile
                continue
            del self._current[key]
            if not has_failed:
                self._vectors[key] = computation.result()[key]
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)
