"""Vectors of texts seen lately, kept in memory.

- Keys are hashes of model and text: the cache holds no text.
- Equal texts asked for at the same time are computed once.
- What is evicted stays out, also when its computation is still under way: erasure relies on it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256

from quipu.ports.embedder import Embedder

Computation = asyncio.Task[dict[bytes, bytes]]


class CachedEmbedder:
    """Remembers the last `size` vectors of another embedder, which it closes with itself. One event loop."""

    def __init__(self, inner: Embedder, size: int = 4096) -> None:
        self._inner = inner
        self._size = size
        self._vectors: OrderedDict[bytes, bytes] = OrderedDict()
        self._under_way: dict[bytes, Computation] = {}

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order; only texts not seen lately reach the inner embedder."""
        keys = [self._key(text) for text in texts]
        found = {key: self._vectors[key] for key in keys if key in self._vectors}
        for key in found:
            self._vectors.move_to_end(key)
        wanted = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        self._start({key: text for key, text in wanted.items() if key not in self._under_way})
        for computation in {self._under_way[key] for key in wanted}:
            # Shielded: a caller who gives up must not take the vector away from the others.
            found |= await asyncio.shield(computation)
        return [found[key] for key in keys]

    def evict(self, text: str) -> None:
        """Forget the vector of that text."""
        key = self._key(text)
        self._vectors.pop(key, None)
        self._under_way.pop(key, None)

    def clear(self) -> None:
        """Forget every vector."""
        self._vectors.clear()
        self._under_way.clear()

    async def close(self) -> None:
        """Forget everything and close the inner embedder."""
        self.clear()
        await self._inner.close()

    def _start(self, texts: dict[bytes, str]) -> None:
        if not texts:
            return
        computation = asyncio.create_task(self._computed(texts))
        self._under_way.update(dict.fromkeys(texts, computation))
        computation.add_done_callback(lambda done: self._finish(done, texts.keys()))

    async def _computed(self, texts: dict[bytes, str]) -> dict[bytes, bytes]:
        vectors = await self._inner.embed(list(texts.values()))
        return dict(zip(texts, vectors, strict=True))

    def _finish(self, computation: Computation, keys: Iterable[bytes]) -> None:
        failed = computation.cancelled() or computation.exception() is not None
        for key in keys:
            if self._under_way.get(key) is not computation:  # evicted meanwhile
                continue
            del self._under_way[key]
            if not failed:
                self._vectors[key] = computation.result()[key]
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)

    def _key(self, text: str) -> bytes:
        return sha256(f"{self.model}\0{text}".encode("utf-8", "surrogatepass")).digest()
