"""What lending is made of, opened when somebody first lends, borrows, or erases what was lent."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from quipu.config import Config

if TYPE_CHECKING:
    from pathlib import Path

    from quipu.crypto.dids_peers import Inject
    from quipu.ports.keys import LendingParts
    from quipu.ports.surroundings import Clock


class Lender:
    """Most processes never lend: they need not load what signs, proves and fetches."""

    def __init__(self, folder: Path | None, config: Config, clock: Clock, inject: Inject) -> None:
        self._folder, self._config, self._clock, self._inject = folder, config, clock, inject
        self._parts: LendingParts | None = None
        if any(_is_set(config)):  # a setting that makes no sense stops the start
            self()

    def __call__(self) -> LendingParts:
        if self._parts is None:
            from quipu.bootstrap.lending import open_lending

            self._parts = open_lending(self._folder, self._config, self._clock, self._inject)
        return self._parts

    async def close(self) -> None:
        if self._parts is not None:
            await self._parts.documents.close()


def _is_set(config: Config) -> list[bool]:
    """For each setting of lending, whether it is another than it is by itself."""
    ours = (field for field in fields(Config) if field.name.startswith("oap_"))
    return [getattr(config, field.name) != field.default for field in ours]
