"""The mirrors of a server."""

from __future__ import annotations

from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.audit import PLAIN, result_of
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import PREFIX
from quipu.model.mirrors import MirrorReport, MirrorStatus
from quipu.model.principal import Principal


class RemoteMirrorChecks:
    """How they stand; what differs is found and mended there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self, principal: Principal) -> tuple[MirrorStatus, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/mirrors"))
        return part(tuple[MirrorStatus, ...], body, "mirrors")

    async def verify(self, principal: Principal, name: str) -> MirrorReport:
        return await self._worked(name, "verify")

    async def resync(self, principal: Principal, name: str) -> MirrorReport:
        """Asked for twice it finds nothing the second time, so it may be repeated."""
        return await self._worked(name, "resync")

    async def _worked(self, name: str, what: str) -> MirrorReport:
        path = f"{PREFIX}/mirrors/{segment(name)}/{what}"
        call = Call(method="POST", path=path, headers=PLAIN)
        return understood(MirrorReport, await result_of(self._transport, call))
