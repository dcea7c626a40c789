"""A server in this process, without a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from quipu.config import Settings
from quipu.errors import UnauthenticatedError
from quipu.http.app import App, app
from quipu.http.authentication import Authentication, Backoff
from quipu.http.health import OPERATIONS as HEALTH
from quipu.http.health import HealthService
from quipu.http.jobs import JobLog
from quipu.ledger.ledger import Health
from quipu.memory.operations import OPERATIONS as MEMORY
from quipu.model.principal import Principal
from quipu.operation import Response, Services
from quipu.secrets.operations import OPERATIONS as SECRETS
from tests.fixtures.memories import TestMemory, Unlimited, Untraced, ids_from, open_memory
from tests.http.rig import Call, Rig

OPERATIONS = (*MEMORY, *SECRETS, *HEALTH)


class Deciders:
    """Stand for the people who decide: what they answer, and how long they were waited for."""

    def __init__(self) -> None:
        self.answer: Response | None = None
        self.waited: list[float] = []

    async def decided(self, ctx: Any, held: Response, seconds: float) -> Response:
        self.waited.append(seconds)
        return self.answer or held


@dataclass
class Server:
    """What a test asks, and what it holds in its hands."""

    http: httpx.AsyncClient
    app: App
    memory: TestMemory
    tokens: dict[str, Principal]
    rig: Rig
    deciders: Deciders
    #: What stands for the ledger's answer about itself.
    health: list[Callable[[], Any]] = field(default_factory=list)

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any) -> Call:
        """A request whose pieces are sent one by one."""
        return Call(self.app, method, path, headers, **options)


class Servers:
    """Makes servers and closes them."""

    def __init__(self) -> None:
        self._opened: list[Server] = []

    async def __call__(
        self, *, is_open: bool = False, backoff: Backoff | None = None, **settings: Any
    ) -> Server:
        memory, rig, deciders = open_memory(), Rig(), Deciders()
        tokens = {"good": memory.principal, "other": memory.named(name="other")}
        health_service = HealthService(
            ledger=memory.ledger,
            embedder="words",
            operations=lambda: tuple(operation.name for operation in OPERATIONS),
            content_bytes=1 << 20,
            jobs=JobLog(memory.clock),
        )
        bindings = (*memory.services.bindings.values(), *health_service.bindings, *rig.bindings)
        memory.services = Services.of(tuple(bindings), Unlimited(), Untraced())
        stand_ins: list[Callable[[], Any]] = []

        class Tokens:
            async def principal(self, text: str) -> Principal:
                await asyncio.sleep(0)  # as a ledger lets others have their turn
                if text not in tokens:
                    raise UnauthenticatedError(reason="bad_token")
                return tokens[text]

        async def health() -> Health:
            return await (stand_ins[-1]() if stand_ins else memory.ledger.health())

        async def gauges() -> dict[str, float]:
            return {"live_records": 3.0}

        made = app(
            (*OPERATIONS, *rig.operations),
            Authentication(
                Tokens(),
                lambda principal: memory.context(principal),
                memory.principal if is_open else None,
                backoff or Backoff(),
            ),
            health,
            ids_from(),
            Settings().model_copy(update=settings),
            waiting=deciders,
            gauges=gauges,
        )
        transport = httpx.ASGITransport(made)
        headers = {} if is_open else {"Authorization": "Bearer good"}
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        server = Server(client, made, memory, tokens, rig, deciders, stand_ins)
        self._opened.append(server)
        return server

    async def close(self) -> None:
        for server in self._opened:
            await server.http.aclose()
            await server.memory.close()


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


@pytest.fixture
async def server(servers: Servers) -> Server:
    return await servers()
