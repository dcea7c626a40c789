"""Calls of models that are served elsewhere, as spans beneath the operation that needed them. The texts are not in them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from quipu.telemetry import conventions as c
from quipu.telemetry.spans import Spans

FactT = TypeVar("FactT", covariant=True)


_Role: TypeAlias = Literal["query", "document"]


class _Embedder(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def calibration(self) -> Mapping[str, float] | None: ...
    @property
    def embed(self) -> Callable[[Sequence[str], _Role], Awaitable[Sequence[bytes]]]: ...
    @property
    def clear(self) -> Callable[[], None]: ...
    async def close(self) -> None: ...


class _Extractor(Protocol[FactT]):
    @property
    def model(self) -> str: ...
    async def facts(self, texts: Sequence[str]) -> Sequence[FactT]: ...
    async def close(self) -> None: ...


class ShownEmbedder:
    """An embedder whose calls are seen."""

    def __init__(self, inner: _Embedder, spans: Spans, model: str) -> None:
        """`model` is what is asked for; the embedder's own name for it says more."""
        self._inner, self._spans, self._model = inner, spans, model
        self.clear = inner.clear

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    @property
    def calibration(self) -> Mapping[str, float] | None:
        return self._inner.calibration

    async def embed(self, texts: Sequence[str], role: _Role = "document") -> Sequence[bytes]:
        with self._spans.model_call(c.EMBEDDINGS, self._model):
            return await self._inner.embed(texts, role)

    async def close(self) -> None:
        await self._inner.close()


class ShownExtractor(Generic[FactT]):
    """A language model whose calls are seen."""

    def __init__(self, inner: _Extractor[FactT], spans: Spans, model: str) -> None:
        self._inner, self._spans, self._model = inner, spans, model

    @property
    def model(self) -> str:
        return self._inner.model

    async def facts(self, texts: Sequence[str]) -> Sequence[FactT]:
        with self._spans.model_call(c.CHAT, self._model):
            return await self._inner.facts(texts)

    async def close(self) -> None:
        await self._inner.close()
