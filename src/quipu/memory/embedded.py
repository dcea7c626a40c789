"""A ledger in this process: opened at the first call, signed now and then, let go at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quipu.bootstrap import BuildProgress, Running, start
from quipu.bootstrap.telemetry import Telemetry, Watched
from quipu.errors import BackendUnavailableError, QuipuError

if TYPE_CHECKING:
    from quipu.config import Config
    from quipu.model.principal import Principal
    from quipu.ports.embedder import Embedder
    from quipu.service.memory import MemoryService

_log = logging.getLogger("quipu.memory")
#: Between two looks whether the journal is to be signed, also where it is to be signed all the time.
_LEAST_S = 1


class EmbeddedConnection:
    """One process's way to one ledger."""

    def __init__(
        self,
        config: Config,
        principal: Principal,
        *,
        embedder: Embedder | None,
        clock: Callable[[], int] | None,
        progress: BuildProgress | None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._config, self._principal = config, principal
        self._embedder, self._clock, self._progress = embedder, clock, progress
        self._watched = Watched(telemetry=telemetry or Telemetry())
        self._running: Running | None = None
        self._signing: asyncio.Task[None] | None = None
        self._seq_at_open = 0

    async def open(self) -> MemoryService:
        extra: dict[str, Any] = {} if self._clock is None else {"clock": self._clock}
        running = await start(
            self._config, embedder=self._embedder, progress=self._progress, watched=self._watched, **extra
        )
        try:
            await running.service.open(self._principal.tenant)
            if running.parts.mirrors:
                await running.service.mirrors.start()
            self._seq_at_open = (await running.parts.ledger.head(self._principal.tenant)).seq
        except BaseException:
            await running.close()
            raise
        self._signing = asyncio.create_task(self._sign_now_and_then(running))
        self._running = running
        return running.service

    async def close(self) -> None:
        """Write what waits, sign the journal if that is due, and let go of the file."""
        running, self._running = self._running, None
        if running is None:
            return
        # It ended with the event loop that it was begun on, where this is another: each `asyncio.run` has its own.
        if self._signing is not None and not self._signing.done():
            self._signing.cancel()
            await asyncio.gather(self._signing, return_exceptions=True)
        try:
            await running.service.flush()
            await self._sign_if_due(running)
        except BackendUnavailableError as error:
            # Every write was answered when it was kept. A note that a read leaves, or a signature, is no reason to
            # tell whoever closes that something of theirs was lost.
            _log.warning("What was due at closing could not be written: %s", error.reason)
        finally:
            await running.close()

    async def _sign_now_and_then(self, running: Running) -> None:
        """As long as the memory is open, sign where the journal stands whenever that is due."""
        while True:
            await asyncio.sleep(max(self._config.checkpoint_every_s, _LEAST_S))
            try:
                await self._sign_if_due(running)
            except QuipuError as error:
                _log.warning("The journal could not be signed: %s", error.code)

    async def _sign_if_due(self, running: Running) -> None:
        """Only what was written here is signed here: looking into somebody's backup must not change it."""
        if (await running.parts.ledger.head(self._principal.tenant)).seq > self._seq_at_open:
            await running.service.audit.checkpoint_if_due(
                self._principal,
                every_ms=self._config.checkpoint_every_s * 1000,
                every_entries=self._config.checkpoint_every_entries,
            )
