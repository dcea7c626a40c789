"""Graphiti, for real."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Container, Copy, Erasing
from quipu.testing.backend.case import HOME, Keeper, place
from quipu.testing.scenarios.reference import SIXTEEN
from tests.vendors.contract import VendorContract, VendorScenarios
from tests.vendors.shared import vendor_at

pytestmark = [
    pytest.mark.vendor(name="graphiti"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]


async def nothing(container: Container) -> AsyncIterator[Copy]:
    """A container of which nothing should stay."""
    copies: tuple[Copy, ...] = ()
    for copy in copies:
        yield copy


class TestGraphiti(VendorContract):
    url = "graphiti://quipu"

    async def test_erasing_leaves_a_neighbour_whose_name_begins_the_same(self, keeper: Keeper) -> None:
        home, neighbour = replace(HOME, user_id="u1"), replace(HOME, user_id="u10")
        gone, stays = await keeper.put("tea at noon", home), await keeper.put("tea at four", neighbour)
        assert isinstance(keeper.backend, Erasing)
        await keeper.backend.erase([place(gone)], nothing)
        assert await keeper.held(home) == []
        assert [kept.mark for kept in await keeper.held(neighbour)] == [stays.mark]
        assert await keeper.found("tea", container=neighbour) == [stays.native_id]


class TestScenarios(VendorScenarios):
    url = "graphiti://quipu"
    scenarios = SIXTEEN


async def test_a_folder_that_was_taken_away_is_a_failure_and_not_an_empty_store(tmp_path: Path) -> None:
    backend = vendor_at("graphiti://quipu", tmp_path)
    await backend.open()
    keeper = Keeper(backend)
    await keeper.put("tea at noon")
    shutil.rmtree(tmp_path / "graphs")
    elsewhere = replace(HOME, user_id="bob")
    assert not (await backend.health()).is_up
    with pytest.raises(BackendUnavailableError):
        await keeper.asked("tea", container=elsewhere)
    with pytest.raises(BackendUnavailableError):
        await keeper.held(elsewhere)
    await backend.close()
