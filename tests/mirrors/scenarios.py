"""Scenarios on a memory with a mirror: beside the ledger's search, and alone.

Alone, the ledger does not rank and every recall waits until the mirror has what it is owed; so each hit is one that the
mirror found, and where the mirror is not there nothing passes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from quipu.api import Memory
from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.embed.cache import CachedEmbedder
from quipu.embed.local import LocalEmbedder
from quipu.embed.port import Embedder
from quipu.mirrors.backend import Backend
from quipu.mirrors.guard import Patience
from quipu.model.principal import local
from quipu.opening import EmbeddedConnection
from quipu.operation import AnyOperation, Response
from quipu.testing.scenarios.scenario import Result, Scenario, played
from quipu.testing.scenarios.subject import SMALL, MovedClock, OwnSubject
from tests.conformance.conftest import START, Lent
from tests.mirrors.rig import mirror

#: The suite of backends looks into a mirror's files itself, and the past is the ledger's alone.
_ELSEWHERE = {"beside": ("erasure",), "alone": ("erasure", "as_of")}
#: A vendor takes the time that it takes.
_PATIENT = Settings(recall_deadline_ms=60_000, mirror_write_deadline_ms=60_000)
_PATIENCE = Patience(open_s=120, search_s=60, effect_s=120, health_s=10)


@cache
def meaning() -> Embedder:
    """The one real embedder of this process."""
    return Lent(CachedEmbedder(LocalEmbedder()))


class _Caught(EmbeddedConnection):
    """A recall waits until the mirror has caught up."""

    def __init__(self, container: Container) -> None:
        super().__init__(container, local())
        self._mirrors = container.mirrors

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name == "recall":
            assert await self._mirrors.drained("default"), "the mirror has caught up"
        return await super().call(operation, given)


async def played_on(
    backend: Backend, scenario: Scenario, *, is_alone: bool, embedder: Embedder | None = None
) -> Result:
    """The scenario on a memory of its own with this mirror."""
    clock = MovedClock(START)
    container = await open_container(
        _PATIENT,
        stores=[":memory:"],
        embedder=embedder or meaning(),
        clock=clock,
        mirrors=[mirror("mirror", backend, patience=_PATIENCE)],
        ledger_ranks=not is_alone,
    )

    async def opened() -> EmbeddedConnection:
        return _Caught(container) if is_alone else EmbeddedConnection(container, local())

    try:
        if is_alone:
            await container.mirrors.stop()
        subject = OwnSubject(
            Memory.over(opened),
            clock=clock,
            ledger=container.ledger,
            read_log=container.memory.read_log,
            size=SMALL,
        )
        return await played(subject, scenario)
    finally:
        await container.close()


def ways(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, str]]:
    """Each of them, beside the ledger's search and alone."""
    for scenario in scenarios:
        yield from ((scenario, way) for way, names in _ELSEWHERE.items() if scenario.name not in names)
