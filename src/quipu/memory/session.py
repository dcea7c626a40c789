"""Opening and closing: settings in, a host that answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quipu import config as settings
from quipu.bootstrap.stores import ledger_and_mirrors
from quipu.bootstrap.telemetry import Telemetry
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.memory import arguments, remote
from quipu.memory.embedded import EmbeddedConnection
from quipu.model.operations import Fusion
from quipu.model.principal import Principal, local
from quipu.service.memory import CAPABILITIES

if TYPE_CHECKING:
    from quipu.bootstrap import BuildProgress
    from quipu.config import Config
    from quipu.ports.embedder import Embedder
    from quipu.ports.host import Connection, Host


def _urls(stores: Sequence[str] | str | Path | None) -> list[str]:
    if isinstance(stores, Path):
        return [str(stores)]
    if isinstance(stores, str):
        return [stores]
    return [
        arguments.text(url, f"/stores/{place}")
        for place, url in enumerate(arguments.several(stores or (), "/stores", "list of store URLs"))
    ]


class Session:
    """One agent's way to one memory: a ledger in this process, or a server."""

    def __init__(
        self,
        agent_id: str | None = None,
        stores: Sequence[str] | str | Path | None = None,
        *,
        fusion: Fusion | str = Fusion.RRF,
        governance: object | None = None,
        write_policy: str = "all",
        embedder: Embedder | str | None = None,
        config: Config | None = None,
        principal: Principal | None = None,
        clock: Callable[[], int] | None = None,
        progress: BuildProgress | None = None,
        connection: Connection | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Nothing is opened before the first call. Without `stores` memory lives in the user's data directory.

        `stores` is a file or a store URL, such as `memory.db` or `sqlite:///data/memory.db`, or the address of a
        server, `quipu+https://host`; `quipu.connect` says more about one. In a list the first ledger is the ledger,
        and all others are mirrors of it, written to unless `write_policy` is `primary_only`.
        `connection` is a way to a host of your own making, instead of `stores`. `telemetry` names OpenTelemetry
        providers; without it, those of the process are told.
        """
        if arguments.maybe_text(agent_id, "/agent_id") == "":
            raise InvalidError.at("/agent_id", "bad_value", "agent_id is empty.")
        arguments.embedder(embedder)
        arguments.instance(config, settings.Config, "/config")
        arguments.instance(principal, Principal, "/principal")
        arguments.instance(telemetry, Telemetry, "/telemetry")
        arguments.connection(connection)
        arguments.called(clock, "/clock")
        arguments.called(progress, "/progress")
        given = config or settings.load()
        urls = _urls(stores)
        if write_policy not in ("all", "fan_out", "primary_only"):
            raise InvalidError.at(
                "/write_policy",
                "bad_value",
                "There is no such write policy.",
                accepted=["all", "primary_only"],
            )
        self.agent_id: str = agent_id or given.agent
        self._fusion = arguments.member(Fusion, fusion, "/fusion")
        self.governance = governance
        self._principal = principal or local()
        is_alone = len(urls) == 1 and remote.is_server(urls[0])
        ledger, mirrors = (urls[0], []) if is_alone else ledger_and_mirrors(urls)
        chosen = given.with_values(
            store_url=ledger if ledger is not None or not mirrors else "",
            mirrors="\n".join(mirrors) or None,
            mirror_write_policy=None if write_policy == "all" else write_policy,
            embedder=embedder if isinstance(embedder, str) else None,
        )
        self._promised = set(CAPABILITIES)
        self._connection: Connection
        if connection is not None:
            self._connection = connection
        elif remote.is_server(chosen.store_url):
            self._connection = remote.connection(chosen, telemetry=telemetry)
        else:
            self._connection = EmbeddedConnection(
                chosen,
                self._principal,
                embedder=None if isinstance(embedder, str) else embedder,
                clock=None if clock is None else arguments.clock(clock),
                progress=progress,
                telemetry=telemetry,
            )
            if chosen.embedder == "none" and (embedder is None or isinstance(embedder, str)):
                self._promised.remove("vector")  # without an embedder nothing is found by meaning
        self._host: Host | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def open(self) -> Self:
        """Open the ledger, or see that the server lets us in, now instead of at the first call."""
        await (await self._service()).whoami(self._principal)
        return self

    async def _service(self) -> Host:
        self._refuse_closed()
        if self._host is not None:
            return self._host
        async with self._opening:
            self._refuse_closed()
            if self._host is None:
                self._host = await self._connection.open()
            return self._host

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise BackendUnavailableError("This memory is closed.", reason="closed")

    async def close(self) -> None:
        """Write what waits, sign the journal if that is due, and let go of the file. Closing twice does no harm."""
        self._is_closed = True
        async with self._opening:  # what is just being opened is closed too
            host, self._host = self._host, None
        if host is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
