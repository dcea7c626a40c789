"""The way to a server."""

from __future__ import annotations

from quipu.client.host import RemoteHost
from quipu.client.lending import RemoteSharing
from quipu.client.observed import Observed, ObservedHost
from quipu.client.patience import Jitter, Patience
from quipu.client.runs import RemoteRuns
from quipu.client.transport import Transport
from quipu.ports.surroundings import Clock, MintId


class RemoteConnection:
    """One server, one token. Nothing is sent before the first call."""

    def __init__(
        self,
        server: str,
        *,
        token: str,
        patience: Patience,
        mint_id: MintId,
        jitter: Jitter,
        insecure: bool = False,
        observed: Observed | None = None,
    ) -> None:
        self._observed = observed or Observed()
        self._transport = Transport(
            server,
            token=token,
            patience=patience,
            jitter=jitter,
            insecure=insecure,
            inject=self._observed.inject,
        )
        self._mint_id = mint_id

    @property
    def server(self) -> str:
        """Its address."""
        return self._transport.base

    def __repr__(self) -> str:
        return f"RemoteConnection({self.server!r})"

    async def open(self) -> RemoteHost:
        return ObservedHost(self._transport, self._mint_id, self._observed)

    def runs(self) -> RemoteRuns:
        """Runs on the server."""
        return RemoteRuns(self._transport)

    def lending(self, clock: Clock) -> RemoteSharing:
        """What the server lends."""
        return RemoteSharing(self._transport, clock)

    async def close(self) -> None:
        await self._transport.close()
