"""The scenarios where it takes longer: at their full size, on PostgreSQL, and on a server behind a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn

from quipu.api import connect
from quipu.bootstrap import http_app
from quipu.config import Settings
from quipu.model import ids
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.reference import SIXTEEN
from quipu.testing.scenarios.scenario import Scenario, played
from quipu.testing.scenarios.subject import FULL, MODEST, SMALL, Subject
from tests.conformance.conftest import Lent, Open, opened
from tests.fixtures.postgres import empty

pytestmark = pytest.mark.slow
each = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
large = pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if one.is_large], ids=lambda scenario: scenario.name
)


@large
async def test_a_memory_in_this_process_plays_it_at_full_size(at_file: Open, scenario: Scenario) -> None:
    result = await played(at_file.subject(at_file.memory(), FULL), scenario)
    assert result.outcome == "pass", result.detail


@each
async def test_a_memory_on_postgresql_plays_it(real: Lent, database: str, scenario: Scenario) -> None:
    async with opened(real, database) as at:
        empty(database)
        result = await played(at.subject(at.memory(), MODEST), scenario)
    if scenario.name == "erasure":  # the ledger's own suite looks into the files of a server
        assert result.detail == "it keeps no files that could be looked at"
    else:
        assert result.outcome == "pass", result.detail


@pytest.fixture
async def address(at_file: Open) -> AsyncIterator[str]:
    """A server behind a socket, for whom time goes on by itself."""
    at_file.clock.__class__ = type("Running", (), {"__call__": lambda self: ids.now()})
    app = http_app(at_file.container, is_open=True)
    served = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(served.serve([listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        served.should_exit = True
        await task


async def test_a_memory_in_use_behind_a_socket_plays_all_that_does_not_disturb_it_and_keeps_nothing(
    address: str, at_file: Open
) -> None:
    async with connect(address, config=Settings()) as memory:
        for turn, scenarios in (("one", SCENARIOS), ("two", SIXTEEN)):  # it can be asked again
            subject = Subject(memory, label=turn, clock=ids.now, size=SMALL)
            results = [await played(subject, scenario) for scenario in scenarios]
            assert {one.name: one.detail for one in results if one.outcome == "fail"} == {}
            told = {one.name for one in results if one.outcome == "not promised"}
            disturbing = {
                *("expire_by_age", "fresher_than_days_filter", "no_recall_in_days", "reads_are_noted"),
                *("erasure", "journal"),
            }
            assert told == disturbing & {scenario.name for scenario in scenarios}
            assert subject.left_behind == []
        everything = await memory.list(all_agents=True, states=["live", "archived", "forgotten"])
        assert everything.records == ()
        assert [store.name for store in (await memory.list_stores()).stores] == ["main"]
