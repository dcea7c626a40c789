"""A service over each ledger, with a short-term store, a clock that stands still, and people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.model.operations import CreateStoreRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType, Tier
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.cli.conftest import cli, home, model_cache

__all__ = ["cli", "home", "model_cache"]

OWNER = local()
#: As the server's own worker is called.
SYSTEM = replace(OWNER, name="system")
Push = Callable[..., Awaitable[str]]
Started = Callable[..., Awaitable[Running]]
WINDOW = CreateStoreRequest(name="window", tier=Tier.SHORT_TERM)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def started(clock: FixedClock, ledger_url: str) -> AsyncIterator[Started]:
    """Starts services over one store on each ledger, with settings of `Config`; closed afterwards."""
    made: list[Running] = []

    async def start_one(**settings: Any) -> Running:
        config = Config(store_url=ledger_url, **settings)
        made.append(await start(config, embedder=WordEmbedder(), clock=clock))
        await made[-1].parts.ledger.open(OWNER.tenant)
        return made[-1]

    yield start_one
    for running in made:
        await running.close()


@pytest.fixture
async def running(started: Started) -> Running:
    running = await started()
    await running.service.stores.create(OWNER, WINDOW)
    return running


@pytest.fixture
def service(running: Running) -> MemoryService:
    return running.service


@pytest.fixture
def push(service: MemoryService) -> Push:
    """Put something into the window."""

    async def pushed(content: Any, **given: Any) -> str:
        known: dict[str, Any] = {"agent_id": "ana", "type": MemoryType.SEMANTIC, "store": "window"}
        return (await service.remember(OWNER, RememberRequest(content=content, **{**known, **given}))).id

    return pushed
