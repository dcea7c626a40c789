"""A host on each ledger, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from quipu.model.principal import Principal
from quipu.testing.builders import FixedClock
from tests.openwop.hosts import Host, hosted

Opened = Callable[..., Awaitable[Host]]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture(params=["sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, clock: FixedClock) -> AsyncIterator[Opened]:
    """Makes hosts with settings of `Config`, all over one store; closed afterwards."""
    if request.param == "sqlite":
        url = f"sqlite://{request.getfixturevalue('tmp_path')}/memory.db"
    else:
        url = request.getfixturevalue("postgres_url")
    hosts: list[Host] = []

    async def make(**settings: Any) -> Host:
        hosts.append(await hosted(url, clock, **settings))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


@pytest.fixture
async def host(opened: Opened) -> Host:
    return await opened()


@pytest.fixture
def ana(host: Host) -> Principal:
    return host.principal
