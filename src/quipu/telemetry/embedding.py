"""Calls of an embedding model, as spans beneath the operation that needed them. The texts are not in them.

A model that is served elsewhere is called through a client, and every call is a span. A model of our own runs in this very
process: its work is part of a phase, and shown where phases are.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from quipu.ports.embedder import Embedder
from quipu.telemetry import names
from quipu.telemetry.tracing import Tracing


class ShownEmbedder:
    """An embedder whose work is seen."""

    def __init__(self, inner: Embedder, tracing: Tracing, model: str) -> None:
        """`model` is what is asked for; the embedder's own name for it may say more."""
        self._inner, self._tracing = inner, tracing
        self._name = f"{names.EMBEDDINGS} {model}"
        self._attributes = MappingProxyType(
            {names.OPERATION_NAME: names.EMBEDDINGS, names.REQUEST_MODEL: model}
        )

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if not self._tracing.is_watching:
            return await self._inner.embed(texts)
        with self._tracing.block(self._name, kind="CLIENT", attributes=self._attributes):
            return await self._inner.embed(texts)

    async def close(self) -> None:
        await self._inner.close()
