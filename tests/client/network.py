"""A network that fails on purpose, and a memory on a server behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from quipu.api import Memory
from quipu.bootstrap import OPERATIONS
from quipu.client import RemoteConnection, Transport
from quipu.client.transport import Patience
from quipu.operation import AnyOperation, Response, dispatch, dispatch_stream
from tests.fixtures.memories import TestMemory, open_memory
from tests.rendering.server import Server


@dataclass(frozen=True)
class Fate:
    """What becomes of one request."""

    #: It does not reach the server, which fails with this.
    unsent: type[httpx.HTTPError] | None = None
    #: The server does it, and only so many bytes of its answer arrive; None: all.
    arrives: int | None = None
    #: Something answers instead of the server.
    answer: httpx.Response | None = None
    #: Nothing ever comes back.
    hangs: bool = False


PASS = Fate()
UNREACHABLE = Fate(unsent=httpx.ConnectError)
#: The server does it, and its answer is lost.
LOST = Fate(arrives=0)


def busy(status: int, code: str, *, retry_after: int | None = None, retryable: bool = True) -> Fate:
    """A refusal as our server sends it."""
    body = {"code": code, "detail": "Not now.", "retryable": retryable}
    headers = {"content-type": "application/problem+json"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    return Fate(answer=httpx.Response(status, json=body, headers=headers))


def plain(status: int, text: str = "<h1>Bad gateway</h1>", media_type: str = "text/html") -> Fate:
    """An answer of something that stands between."""
    return Fate(answer=httpx.Response(status, text=text, headers={"content-type": media_type}))


class _Cut(httpx.AsyncByteStream):
    """An answer whose connection breaks in the middle."""

    def __init__(self, whole: bytes, arrives: int) -> None:
        self._whole, self._arrives = whole, arrives

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._arrives:
            yield self._whole[: self._arrives]
        raise httpx.ReadError("broken")


@dataclass
class Network(httpx.AsyncBaseTransport):
    """Stands between a client and a server. Fates are used up one by one; afterwards everything passes."""

    app: Any
    fates: list[Fate] = field(default_factory=list)
    choose: Callable[[httpx.Request], Fate | None] = lambda _: None
    asked: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        fate = self.choose(request) or (self.fates.pop(0) if self.fates else PASS)
        if fate.hangs:
            await asyncio.Event().wait()
        if fate.unsent is not None:
            raise fate.unsent("not sent")
        if fate.answer is not None:
            return fate.answer
        response = await httpx.ASGITransport(self.app).handle_async_request(request)
        if fate.arrives is None:
            return response
        whole = await response.aread()
        return httpx.Response(
            response.status_code, headers=response.headers, stream=_Cut(whole, fate.arrives)
        )

    def will(self, *fates: Fate) -> None:
        self.fates += fates

    def count(self, path: str) -> int:
        """How many requests for a path came."""
        return sum(request.url.path == path for request in self.asked)


@dataclass
class Served:
    """A memory, a server in front of it, a bad network, and a client. No pause is really waited for."""

    memory: TestMemory = field(default_factory=lambda: open_memory(agent_id=None))
    pauses: list[float] = field(default_factory=list)
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        self.network = Network(Server(OPERATIONS, self._answer, self._stream))
        self.transport = self.client_transport()

    def client_transport(self, patience: Patience | None = None) -> Transport:
        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        return Transport(
            "http://localhost",
            token="qp_secret",
            patience=patience or self.patience,
            network=self.network,
            jitter=lambda: 0.5,
            sleep=pause,
        )

    def connect(self, agent_id: str = "ana", patience: Patience | None = None) -> Memory:
        connection = RemoteConnection(self.client_transport(patience))

        async def opened() -> RemoteConnection:
            return connection

        return Memory.over(opened, agent_id=agent_id)

    async def _answer(self, operation: AnyOperation, given: dict[str, Any]) -> Response:
        return await dispatch(self.memory.context(), operation, given)

    async def _stream(self, operation: AnyOperation, given: dict[str, Any]) -> AsyncIterator[Response]:
        """The changes that are there; a test server does not wait for more."""
        head = (await self.memory.ledger.head("default")).seq
        if given.get("since", 0) >= head:
            return
        async for item in dispatch_stream(self.memory.context(), operation, given):
            yield item
            if item.to_dict()["seq"] >= head:
                return

    async def close(self) -> None:
        await self.memory.close()
