"""A language model that is asked what facts a text holds. Optional; what it says is only ever proposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Extractor(Protocol):
    """Text in, facts out."""

    @property
    def model(self) -> str:
        """The model's name, kept with what it proposes."""
        ...

    async def facts(self, text: str) -> Sequence[str]:
        """The facts that a text holds, each a sentence that stands by itself. Raises BackendUnavailableError."""
        ...

    async def close(self) -> None: ...
