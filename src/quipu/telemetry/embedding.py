"""Calls of an embedding model that is served elsewhere, as spans beneath the operation that needed them."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.ports.embedder import Embedder
from quipu.telemetry import names
from quipu.telemetry.tracing import Tracing


class ShownEmbedder:
    """An embedder whose work is seen. Its texts are not."""

    def __init__(self, inner: Embedder, tracing: Tracing) -> None:
        self._inner, self._tracing = inner, tracing

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if not self._tracing.is_watching:
            return await self._inner.embed(texts)
        attributes = {
            names.OPERATION_NAME: names.EMBEDDINGS,
            names.REQUEST_MODEL: self._inner.model,
        }
        name = f"{names.EMBEDDINGS} {self._inner.model}"
        with self._tracing.block(name, kind="CLIENT", attributes=attributes):
            return await self._inner.embed(texts)

    async def close(self) -> None:
        await self._inner.close()
