"""A router whose map of ids may be kept in a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.errors import BackendUnavailableError
from quipu.model.principal import local
from quipu.service import routing
from quipu.service.peer_ids import LedgerIds

if TYPE_CHECKING:
    from quipu.ports.memory_store import MemoryStore


class _Kept:
    """The map in a ledger that is opened when it is first asked for, and never again once it is closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: Running | None = None
        self._ids: LedgerIds | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def _map(self) -> LedgerIds:
        async with self._opening:
            if self._is_closed:
                raise BackendUnavailableError("This router is closed.", reason="closed")
            if self._ids is None:
                tenant = local().tenant
                running = await start(Config(store_url=self._url, embedder="none"))
                try:
                    await running.service.open(tenant)
                except BaseException:
                    await running.close()
                    raise
                self._running, self._ids = running, LedgerIds(running.parts.ledger.outbox, tenant)
            return self._ids

    async def note(self, ours: str, theirs: Mapping[str, str], agent_id: str) -> None:
        await (await self._map()).note(ours, theirs, agent_id)

    async def of(self, peer: str, ours: Sequence[str]) -> Mapping[str, str]:
        return await (await self._map()).of(peer, ours)

    async def ours(self, peer: str, theirs: Sequence[str]) -> Mapping[str, str]:
        return await (await self._map()).ours(peer, theirs)

    async def close(self) -> None:
        async with self._opening:
            self._is_closed = True
            running, self._running, self._ids = self._running, None, None
            if running is not None:
                await running.close()


class Router(routing.Router):
    """Peers that answer as one."""

    def __init__(
        self,
        peers: Mapping[str, MemoryStore] | Sequence[MemoryStore],
        *,
        ids: str | None = None,
        write_policy: str = "all",
        weights: Mapping[str, float] | None = None,
        trim_votes: bool = True,
        own_contents: Collection[str] = (),
        deadline_s: float = routing.DEADLINE_S,
        write_deadline_s: float = routing.WRITE_DEADLINE_S,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`peers` by name, or in a list, where they are called `peer-1`, `peer-2` and so on.

        `ids` is the URL of a ledger that keeps what each peer calls a record, so that one id leads to every copy also
        after a restart and from other processes; without it the map lives as long as the router. It may be a peer's own
        ledger. Peers are known by their names, so give them names that stay.

        Three peers or more are taken for copies of one another: under `rrf` what only a minority shows is left out, and
        counted in `extensions["unvouched"]`. Name in `own_contents` those that hold memories which the others were not
        given: what one of them alone shows comes last and is marked `foreign`. With `primary_only` all of them do.
        """
        self._kept = None if ids is None else _Kept(ids)
        super().__init__(
            peers,
            write_policy=write_policy,
            weights=weights,
            trim_votes=trim_votes,
            own_contents=own_contents,
            deadline_s=deadline_s,
            write_deadline_s=write_deadline_s,
            clock=clock,
            ids=self._kept,
        )

    async def close(self) -> None:
        """Answer nobody any more, and let go of the map's ledger. The peers are whoever's they are, and stay open."""
        await super().close()
        if self._kept is not None:
            await self._kept.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
