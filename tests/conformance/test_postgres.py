"""Every conformance scenario on a memory whose ledger is PostgreSQL, a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import MODEST, SCENARIOS, MemorySubject, Opening, Scenario, played
from quipu.testing.scenarios_subject import AGENT
from tests.conformance.test_scenarios import Lent, real, reply
from tests.postgres import Server, name_of

__all__ = ["real"]  # the embedder is a fixture


class OnServer(MemorySubject):
    """Rewrites the tables before it looks at their files: an ordinary database keeps dead rows until then."""

    store: Any
    #: The full crowd is tests/ledger/test_top_k.py's to stand.
    size = MODEST

    async def file_bytes(self) -> bytes:
        await self.store.vacuum()
        return await super().file_bytes()


def _files(server: Server, url: str) -> list[Path]:
    """The tables' and indexes' files, with everything in memory written to them."""
    name = name_of(url)
    server.execute("CHECKPOINT", name)
    ((number,),) = server.execute("SELECT oid FROM pg_database WHERE datname = current_database()", name)
    return sorted((server.data / "base" / str(number)).iterdir())


@pytest.fixture
def subject(postgres: Server, fresh_url: str, real: Lent) -> MemorySubject:
    def memory(scenario: Scenario, clock: FixedClock) -> Any:
        embedder = real if scenario.embedder == "real" else WordEmbedder()
        return Memory(agent_id=AGENT, stores=fresh_url, embedder=embedder, clock=clock)

    return OnServer(Opening(memory, reply, lambda: _files(postgres, fresh_url)))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_memory_on_postgresql_plays_the_scenario(subject: MemorySubject, scenario: Scenario) -> None:
    result = await played(subject, scenario)
    assert result.passed, result.detail
    assert result.assertions > 0
