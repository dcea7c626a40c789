"""Memories and servers whose spans and metrics are caught."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from quipu import Memory, Telemetry
from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN
from quipu.bootstrap import Container, http_app, open_container
from quipu.client import RemoteConnection
from quipu.client.transport import Transport
from quipu.config import Settings
from quipu.model.principal import local
from quipu.operation import dispatch
from quipu.telemetry.settings import Showing
from quipu.telemetry.spans import Spans
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.spans import Shown

Opened = Callable[..., Awaitable[Memory]]


@pytest.fixture
async def opened(shown: Shown) -> AsyncIterator[Opened]:
    """Memories in this process; settings are given as `telemetry_…`, parts of `Telemetry` as a dictionary."""
    memories: list[Memory] = []

    async def open_memory(given: dict[str, Any] | None = None, **settings: Any) -> Memory:
        providers = {"tracer_provider": shown.tracers, "meter_provider": shown.meters, **(given or {})}
        memory = Memory(
            "ana",
            ":memory:",
            embedder=WordEmbedder(),
            config=Settings(**settings),
            telemetry=Telemetry(**providers),
        )
        memories.append(memory)
        await memory.open()
        await memory.list_stores()  # so that `main` is there
        shown.taken()
        return memory

    yield open_memory
    for memory in memories:
        await memory.close()


class Apart(httpx.ASGITransport):
    """A server in this process which, like a real one, has no part in the context of its callers."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        work = super().handle_async_request(request)
        return await asyncio.create_task(work, context=contextvars.Context())


@dataclass
class Served:
    """A server, and clients of it. Both sides report to the same providers, the server's spans apart."""

    container: Container
    network: httpx.AsyncBaseTransport
    shown: Shown

    async def token(self, tenant: str = "default", **limits: Any) -> str:
        boss = self.container.context(local(tenant))
        if tenant != "default":
            await dispatch(self.container.context(local()), CREATE_TENANT, {"tenant": tenant})
        made = await dispatch(
            boss, CREATE_TOKEN, {"name": "client", "permissions": ["memory:admin"], **limits}
        )
        return made.text

    async def client(self, token: str, agent: str | None = "ana", **settings: Any) -> Memory:
        transport = Transport("http://127.0.0.1:8321", token=token, network=self.network)
        spans = Spans(
            Showing.of(Settings(**settings), server=("127.0.0.1", 8321)),
            Telemetry(tracer_provider=self.shown.tracers, meter_provider=self.shown.meters),
        )
        transport._inject = spans.inject
        connection = RemoteConnection(transport, spans=spans)

        async def opening() -> RemoteConnection:
            return connection

        memory = Memory.over(opening, agent_id=agent)
        await memory.open()
        self.shown.taken()
        return memory


@pytest.fixture
async def served(shown: Shown) -> AsyncIterator[Served]:
    container = await open_container(
        Settings(allowed_hosts=("127.0.0.1",)),
        stores=[":memory:"],
        embedder=WordEmbedder(),
        telemetry=Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters),
    )
    network = Apart(http_app(container))
    yield Served(container, network, shown)
    await container.close()
