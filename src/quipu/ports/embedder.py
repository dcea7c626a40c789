"""Text in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Turns text into unit vectors. A vector is `dimensions` little-endian float32 numbers, as bytes."""

    @property
    def model(self) -> str:
        """The model's name, exact enough that two equal names give equal vectors."""
        ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order. Raises BackendUnavailableError when the model cannot answer."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Remembering(Protocol):
    """An embedder that keeps vectors of texts it has seen."""

    def clear(self) -> None:
        """Forget them: an erasure reaches caches too."""
        ...
