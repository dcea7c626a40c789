"""Memories that scenarios are played on: in this process, and on a server that is asked without a socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from quipu.api import Memory
from quipu.bootstrap import Container, http_app, open_container
from quipu.client import RemoteConnection, Transport
from quipu.client.transport import Patience
from quipu.config import Settings
from quipu.embed.cache import CachedEmbedder
from quipu.embed.local import LocalEmbedder
from quipu.embed.port import Embedder
from quipu.memory.memory_store import CAPABILITIES
from quipu.model.principal import local
from quipu.opening import Connection, EmbeddedConnection
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.others import WireSubject
from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import SMALL, MovedClock, OwnSubject, Size, Subject

START = 1_750_000_000_000


class Lent:
    """The one real embedder of this process, lent to memories that must not close it."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.model, self.dimensions, self.calibration = inner.model, inner.dimensions, inner.calibration
        self.embed, self.clear = inner.embed, inner.clear

    async def close(self) -> None:
        """It goes on."""


@pytest.fixture(scope="session")
def real() -> Lent:
    return Lent(CachedEmbedder(LocalEmbedder()))


@dataclass
class Open:
    """A container with a clock that can be moved."""

    container: Container
    clock: MovedClock
    files: Callable[[], list[Path]] | None

    def memory(self, wrap: Callable[[Connection], Connection] = lambda one: one) -> Memory:
        """In this process."""
        connection = wrap(EmbeddedConnection(self.container, local()))
        return Memory.over(lambda: _value(connection))

    def remote(self) -> Memory:
        connection = RemoteConnection(self.transport())
        return Memory.over(lambda: _value(connection))

    def transport(self) -> Transport:
        app = http_app(self.container, is_open=True)
        network = httpx.ASGITransport(app, raise_app_exceptions=False)
        return Transport("http://127.0.0.1", patience=Patience(retries=0), network=network)

    def subject(self, memory: Memory, size: Size = SMALL) -> Subject:
        return OwnSubject(
            memory,
            clock=self.clock,
            ledger=self.container.ledger,
            read_log=self.container.memory.read_log,
            files=self.files,
            size=size,
        )

    def wire_subject(self, size: Size = SMALL) -> Subject:

        promises = set(CAPABILITIES)
        transport = self.transport()
        return WireSubject(transport, promises, label="wire", clock=self.clock, size=size, has_floor=True)


async def _value(connection: Connection) -> Connection:
    return connection


@asynccontextmanager
async def opened(
    embedder: Embedder, store: str, files: Callable[[], list[Path]] | None = None
) -> AsyncIterator[Open]:
    clock = MovedClock(START)
    container = await open_container(Settings(), stores=[store], embedder=embedder, clock=clock)
    try:
        yield Open(container, clock, files)
    finally:
        await container.close()


@pytest.fixture
async def at_file(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """A memory in a file; its embedder knows what words mean where the test's scenario needs that."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    scenario = given.get("scenario") or next(
        (one for one in SCENARIOS if one.name == given.get("name")), None
    )
    needs_meaning = scenario is None or scenario.needs_meaning
    embedder = request.getfixturevalue("real") if needs_meaning else WordEmbedder()
    path = tmp_path / "memory.db"
    async with opened(embedder, str(path), lambda: sorted(tmp_path.glob("memory.db*"))) as found:
        yield found


def named(scenarios: tuple[Scenario, ...], name: str) -> Scenario:
    return next(scenario for scenario in scenarios if scenario.name == name)
