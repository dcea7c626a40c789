"""People who sign in elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.model.principal import Principal


class Identities(Protocol):
    """An identity provider whose signed statements are believed."""

    async def principal(self, statement: str) -> Principal:
        """Whom a statement speaks of. Raises UnauthenticatedError for one that is not good."""
        ...

    async def close(self) -> None: ...
