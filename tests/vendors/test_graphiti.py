"""Graphiti, for real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from quipu.ports.backend import Container, Copy, Erasing
from quipu.testing.backend.case import HOME, Keeper, place
from quipu.testing.scenarios import LEAST
from tests.vendors.contract import Played, VendorContract

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.timeout(900)]


async def nothing(container: Container) -> AsyncIterator[Copy]:
    """A container of which nothing should stay."""
    for copy in ():
        yield copy


class TestGraphiti(VendorContract):
    vendor, url = "graphiti", "graphiti://quipu"

    async def test_erasing_leaves_a_neighbour_whose_name_begins_the_same(self, keeper: Keeper) -> None:
        home, neighbour = replace(HOME, user_id="u1"), replace(HOME, user_id="u10")
        gone, stays = await keeper.put("tea at noon", home), await keeper.put("tea at four", neighbour)
        assert isinstance(keeper.backend, Erasing)
        await keeper.backend.erase([place(gone)], nothing)
        assert [kept.record_id for kept in await keeper.held(home)] == []
        assert [kept.record_id for kept in await keeper.held(neighbour)] == [stays.record_id]
        assert await keeper.found("tea", container=neighbour) == [stays.native_id]


class TestQuipuOverGraphiti(Played):
    vendor, url = "graphiti", "graphiti://quipu"
    size = LEAST
