"""Every conformance scenario through the client, HTTP and the real server: async and blocking."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory, sync
from quipu.config import Config
from quipu.memory.remote import connection
from quipu.model.access import Role
from quipu.model.principal import local
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import MODEST, SCENARIOS, Awaited, MemorySubject, Opening, Scenario, played
from quipu.testing.scenarios_subject import AGENT
from tests.conformance.test_scenarios import Lent, real, reply
from tests.faces.serving import served

__all__ = ["real"]  # a fixture


def _connected(
    stack: ExitStack, file: Path, real: Lent, scenario: Scenario, clock: FixedClock
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A server for one scenario, and how to reach it: as whoever writes, and as whoever decides on held writes."""
    embedder: Any = real if scenario.embedder == "real" else WordEmbedder()
    server = stack.enter_context(
        served(file, embedder=embedder, clock=clock, rate_per_minute=0, recall_budget=0)
    )
    reviewer = server.do(server.service.tokens.issue(local(), name="reviewer", roles=[Role.ADMIN]))
    configs = [
        Config(server_url=server.url, server_token=text) for text in (server.admin_token, reviewer.text)
    ]
    writing, deciding = (
        {"agent_id": AGENT, "config": config, "connection": connection(config)} for config in configs
    )
    return writing, deciding


class Remote(Memory):
    """A memory whose server ends with it. Somebody else decides."""

    def __init__(self, stack: ExitStack, writing: dict[str, Any], deciding: dict[str, Any]) -> None:
        super().__init__(**writing)
        self._stack, self._other = stack, Memory(**deciding)

    async def decide(self, proposal_id: str, /, *, approved: bool, reason: str | None = None) -> Any:
        return await self._other.decide(proposal_id, approved=approved, reason=reason)

    async def close(self) -> None:
        await self._other.close()
        await super().close()
        self._stack.close()


class Blocking(sync.Memory):
    """The same, blocking."""

    def __init__(self, stack: ExitStack, writing: dict[str, Any], deciding: dict[str, Any]) -> None:
        super().__init__(**writing)
        self._stack, self._other = stack, sync.Memory(**deciding)

    def decide(self, proposal_id: str, /, *, approved: bool, reason: str | None = None) -> Any:
        return self._other.decide(proposal_id, approved=approved, reason=reason)

    def close(self) -> None:
        self._other.close()
        super().close()
        self._stack.close()


@pytest.fixture(params=["async", "sync"])
def subject(request: pytest.FixtureRequest, real: Lent, tmp_path: Path) -> MemorySubject:
    file = tmp_path / "memory.db"

    def memory(scenario: Scenario, clock: FixedClock) -> Any:
        stack = ExitStack()
        ways = _connected(stack, file, real, scenario, clock)
        return Remote(stack, *ways) if request.param == "async" else Awaited(Blocking(stack, *ways))

    def files() -> list[Path]:
        return sorted(file.parent.glob(f"{file.name}*"))

    subject = MemorySubject(Opening(memory, reply, files))
    subject.size = MODEST
    return subject


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_memory_on_a_server_plays_the_scenario(subject: MemorySubject, scenario: Scenario) -> None:
    result = await played(subject, scenario)
    assert result.passed, result.detail
    assert result.assertions > 0
