"""A server in this process, without a socket."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from quipu.errors import UnauthenticatedError
from quipu.http.app import app
from quipu.http.authentication import Authentication
from quipu.http.health import OPERATIONS as HEALTH
from quipu.http.health import HealthService
from quipu.http.settings import HttpSettings
from quipu.memory.operations import OPERATIONS as MEMORY
from quipu.model.principal import Principal
from quipu.operation import Services
from quipu.secrets.operations import OPERATIONS as SECRETS
from tests.fixtures.memories import TestMemory, Unlimited, Untraced, ids_from, open_memory

OPERATIONS = (*MEMORY, *SECRETS, *HEALTH)


@dataclass
class Server:
    """What a test asks."""

    http: httpx.AsyncClient
    memory: TestMemory
    tokens: dict[str, Principal]

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    memory = open_memory()
    health = HealthService(
        ledger=memory.ledger,
        embedder="words",
        operations=lambda: tuple(operation.name for operation in OPERATIONS),
        content_bytes=1 << 20,
    )
    bindings = (*memory.services.bindings.values(), *health.bindings)
    memory.services = Services.of(tuple(bindings), Unlimited(), Untraced())
    tokens = {"good": memory.principal}

    class Tokens:
        async def principal(self, text: str) -> Principal:
            if text not in tokens:
                raise UnauthenticatedError
            return tokens[text]

    made = app(
        OPERATIONS,
        Authentication(Tokens(), lambda principal: memory.context(principal)),
        memory.ledger.health,
        ids_from(),
        HttpSettings(),
    )
    transport = httpx.ASGITransport(made, raise_app_exceptions=False)
    headers = {"Authorization": "Bearer good"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
        yield Server(http, memory, tokens)
    await memory.close()
