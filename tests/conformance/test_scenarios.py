"""Every scenario on Quipu's own memory: in this process, on a server, and over memorywire's own wire."""

import pytest

from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.scenario import Scenario, played
from tests.conformance.conftest import Open

each = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@each
async def test_a_memory_in_this_process_plays_it(at_file: Open, scenario: Scenario) -> None:
    result = await played(at_file.subject(at_file.memory()), scenario)
    assert result.outcome == "pass", result.detail


@each
async def test_a_memory_on_a_server_plays_it(at_file: Open, scenario: Scenario) -> None:
    result = await played(at_file.subject(at_file.remote()), scenario)
    assert result.outcome == "pass", result.detail


@each
async def test_the_wire_of_memorywire_plays_it(at_file: Open, scenario: Scenario) -> None:
    result = await played(at_file.wire_subject(), scenario)
    assert result.outcome in ("pass", "not promised"), result.detail
