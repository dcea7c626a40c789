"""Opening and closing: settings in, a running service out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from quipu import config as settings
from quipu.bootstrap import BuildProgress, Running, start
from quipu.config import Config
from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from quipu.memory import arguments
from quipu.model.operations import Fusion
from quipu.model.principal import Principal, local
from quipu.ports.embedder import Embedder
from quipu.service.memory import MemoryService

_log = logging.getLogger("quipu.memory")


class Session:
    """One agent's way to one ledger."""

    def __init__(
        self,
        agent_id: str | None = None,
        stores: Sequence[str] | str | None = None,
        *,
        fusion: Fusion | str = Fusion.RRF,
        governance: object | None = None,
        write_policy: str = "all",
        embedder: Embedder | str | None = None,
        config: Config | None = None,
        principal: Principal | None = None,
        clock: Callable[[], int] | None = None,
        progress: BuildProgress | None = None,
    ) -> None:
        """Nothing is opened before the first call. Without `stores` memory lives in the user's data directory."""
        if agent_id == "":
            raise InvalidError.at("/agent_id", "bad_value", "agent_id is empty.")
        given = config or settings.load()
        urls = [stores] if isinstance(stores, str) else list(stores or [])
        if len(urls) > 1:
            raise InvalidError.at(
                "/stores", "bad_value", "Only one ledger can be opened.", accepted=["one store URL"]
            )
        if write_policy not in ("all", "fan_out", "primary_only"):
            raise InvalidError.at(
                "/write_policy",
                "bad_value",
                "There is no such write policy.",
                accepted=["all", "primary_only"],
            )
        self.agent_id = agent_id or given.agent
        self._config = given.with_values(
            store_url=urls[0] if urls else None, embedder=embedder if isinstance(embedder, str) else None
        )
        self._embedder = embedder if embedder is not None and not isinstance(embedder, str) else None
        self._fusion = arguments.member(Fusion, fusion, "/fusion")
        self.governance = governance
        self._principal = principal or local()
        self._clock = clock
        self._progress = progress
        self._running: Running | None = None
        self._opening: asyncio.Lock | None = None
        self._is_closed = False
        self._signing: asyncio.Task[None] | None = None
        self._seq_at_open = 0

    async def open(self) -> Self:
        """Open the ledger now instead of at the first call."""
        await self._service()
        return self

    async def _service(self) -> MemoryService:
        return (await self._opened()).service

    async def _opened(self) -> Running:
        if self._is_closed:
            raise BackendUnavailableError("This memory is closed.", reason="closed")
        if self._running is not None:
            return self._running
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._running is None:
                extra: dict[str, Any] = {} if self._clock is None else {"clock": self._clock}
                running = await start(self._config, embedder=self._embedder, progress=self._progress, **extra)
                try:
                    await running.parts.ledger.open(self._principal.tenant)
                    self._seq_at_open = (await running.parts.ledger.head(self._principal.tenant)).seq
                except BaseException:
                    await running.close()
                    raise
                self._signing = asyncio.create_task(self._sign_now_and_then(running))
                self._running = running
            return self._running

    async def _sign_now_and_then(self, running: Running) -> None:
        """As long as the memory is open, sign where the journal stands whenever that is due."""
        while True:
            await asyncio.sleep(self._config.checkpoint_every_s)
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

    async def close(self) -> None:
        """Write what waits, sign the journal if that is due, and let go of the file. Closing twice does no harm."""
        self._is_closed = True
        running, self._running = self._running, None
        if running is not None:
            if self._signing is not None:
                self._signing.cancel()
                await asyncio.gather(self._signing, return_exceptions=True)
            try:
                await running.service.flush()
                await self._sign_if_due(running)
            finally:
                await running.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
