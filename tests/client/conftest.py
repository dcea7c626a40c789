"""A real server, a memory on it, and a network between them that can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from quipu import Memory, bootstrap
from quipu.client.host import RemoteHost
from quipu.client.patience import Patience
from quipu.client.transport import Transport
from tests.client.proxy import Proxy
from tests.faces.serving import Served, served


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
async def proxy(server: Served) -> AsyncIterator[Proxy]:
    async with Proxy(server.port) as running:
        yield running


@dataclass
class Watched:
    """A connection that writes its pauses down instead of waiting."""

    transport: Transport
    pauses: list[float] = field(default_factory=list[float])

    async def open(self) -> RemoteHost:
        return RemoteHost(self.transport, bootstrap.mint_id)

    async def close(self) -> None:
        await self.transport.close()


def watched(url: str, token: str, **patience: Any) -> Watched:
    """A connection to an address; its jitter is always a half."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    transport = Transport(url, token=token, patience=Patience(**patience), jitter=lambda: 0.5, sleep=sleep)
    return Watched(transport, pauses)


Reaching = Callable[..., Memory]


@pytest.fixture
async def reaching(server: Served) -> AsyncIterator[Reaching]:
    """Makes memories on the server, by an address of one's choice. All are closed afterwards."""
    made: list[Memory] = []

    def reach(connection: Any = None, *, agent_id: str = "ana") -> Memory:
        given = connection or watched(server.url, server.admin_token)
        made.append(Memory(agent_id, connection=given))
        return made[-1]

    yield reach
    for memory in made:
        await memory.close()
