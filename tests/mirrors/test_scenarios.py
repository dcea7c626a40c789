"""Every scenario on a memory with a mirror: a second ledger, or a server. memorywire's sixteen in `make test`, all in `test-slow`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quipu.mirrors.backend import Backend
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.reference import SIXTEEN
from quipu.testing.scenarios.scenario import Scenario
from tests.conformance.conftest import opened
from tests.mirrors.scenarios import played_on, ways
from tests.mirrors.test_memory_store import at

_PLAYED = [
    pytest.param(
        scenario, way, marks=() if scenario in SIXTEEN else pytest.mark.slow, id=f"{scenario.name}-{way}"
    )
    for scenario, way in ways(SCENARIOS)
    if not scenario.needs_meaning
]


@pytest.fixture(params=["ledger", "server"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    if request.param == "ledger":
        yield at(f"sqlite://{tmp_path}/second.db", tmp_path, WordEmbedder())
        return
    async with opened(WordEmbedder(), str(tmp_path / "other.db")) as other:
        yield at(other.remote(), tmp_path)


@pytest.mark.parametrize(("scenario", "way"), _PLAYED)
async def test_a_memory_with_this_mirror_plays(backend: Backend, scenario: Scenario, way: str) -> None:
    result = await played_on(backend, scenario, is_alone=way == "alone", embedder=WordEmbedder())
    assert result.outcome == "pass", result.detail
