"""Several servers over one database, requests at the same time, and a clock that was wrong for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.errors import QuotaExceededError
from quipu.model.access import Role
from quipu.model.operations import ListRequest, RecallRequest, RememberRequest
from quipu.model.principal import DEFAULT_TENANT, Permission, Principal, local
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

OWNER = local()
DAY_MS = 24 * 3600 * 1000
ASK = RecallRequest(agent_id="ana", query="tea number", min_relevance=0.0)
Opened = Callable[[], Awaitable[Running]]


@pytest.fixture(params=["sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, clock: FixedClock, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens services on one database; each is like a server of its own."""
    url = f"sqlite://{tmp_path}/m.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    async with AsyncExitStack() as stack:

        async def make() -> Running:
            running = await start(Config(store_url=url), embedder=WordEmbedder(), clock=clock)
            stack.push_async_callback(running.close)
            return running

        yield make


async def asked(service: MemoryService, who: Principal) -> int:
    """How many memories a recall gave; none where it was refused."""
    try:
        return len((await service.recall(who, ASK)).results)
    except QuotaExceededError:
        return 0


async def bot(service: MemoryService, budget: int) -> Principal:
    """Three memories about tea, and somebody with a budget to read them."""
    await service.open(DEFAULT_TENANT)
    for number in range(3):
        await service.remember(
            OWNER, RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=f"tea number {number}")
        )
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], recall_budget=budget)
    return await service.credentials.principal(issued.text)


async def test_of_servers_that_start_at_once_one_makes_the_first_token(opened: Opened) -> None:
    servers = [(await opened()).service for _ in range(4)]

    async def began(service: MemoryService) -> str | None:
        await service.open(DEFAULT_TENANT)
        made = await service.tokens.first(OWNER)
        return None if made is None else made.text

    shown = [text for text in await asyncio.gather(*map(began, servers)) if text is not None]
    assert len(shown) == 1
    (token,) = await servers[0].tokens.list(OWNER)
    assert token.name == "admin"
    for service in servers:
        who = await service.credentials.principal(shown[0])
        assert who.may(Permission.ADMIN)
        assert who.may(Permission.OPERATE)
    assert await (await opened()).service.tokens.first(OWNER) is None


async def test_who_asks_many_times_at_once_gets_no_more_than_one_after_the_other(opened: Opened) -> None:
    service = (await opened()).service
    who = await bot(service, budget=4)
    given = await asyncio.gather(*(asked(service, who) for _ in range(20)))
    # The answer that crosses the line is given whole, as it is to who asks one after the other.
    assert sum(given) == 6
    assert await asked(service, who) == 0


async def test_pages_that_are_listed_at_once_are_paid_for_alike(opened: Opened) -> None:
    service = (await opened()).service
    who = await bot(service, budget=4)

    async def listed() -> int:
        try:
            return len((await service.reading.list(who, ListRequest(agent_id="ana"))).records)
        except QuotaExceededError:
            return 0

    assert sum(await asyncio.gather(*(listed() for _ in range(20)))) == 6


async def test_a_budget_that_was_spent_under_a_wrong_clock_is_not_waited_for(
    opened: Opened, clock: FixedClock
) -> None:
    service = (await opened()).service
    who = await bot(service, budget=3)
    clock.move(DAY_MS)
    assert await asked(service, who) == 3
    assert await asked(service, who) == 0
    clock.move(-DAY_MS)
    assert await asked(service, who) == 3
    assert await asked(service, who) == 0
    clock.move(3_600_000)
    assert await asked(service, who) == 3
