"""Who carries notices to other machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Courier(Protocol):
    """Sends one notice. Where it may not go, it does not go."""

    async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
        """BackendUnavailableError where nobody takes it, with a reason that tells nothing of the answer."""
        ...

    async def close(self) -> None: ...
