"""A real Letta server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.ports.backend import Backend
from quipu.testing.backend.case import Keeper
from quipu.testing.scenarios import LEAST
from tests.vendors.contract import Played, Vendor, VendorContract
from tests.vendors.sharing import made, setup
from tests.vendors.starting import Vendors
from tests.vendors.test_native import has_finds_and_loses

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.timeout(900)]


class OnServer(Vendor):
    """The server is shared; each case has a client of its own."""

    vendor = "letta"

    def reached(self, vendors: Vendors, place: Path) -> AbstractAsyncContextManager[Backend]:
        @asynccontextmanager
        async def open_client() -> AsyncIterator[Backend]:
            backend = made(setup(vendors.letta.url, "letta", place), "letta")
            await backend.open()
            yield backend
            await backend.close()

        return open_client()


class TestLetta(OnServer, VendorContract):
    #: One more than it ever answers.
    page = 101

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        return made(setup("letta://127.0.0.1:9", "letta", tmp_path), "letta")

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        """Every row of every table; the pages of deleted rows are the database's to reuse."""
        dump = await asyncio.to_thread(type(self).running.letta.dump)
        return [line for line in dump.splitlines() if marker in line]

    async def test_an_older_version_whose_answer_was_lost_does_not_stand_for_the_new(
        self, keeper: Keeper
    ) -> None:
        first = await keeper.put("green elephants swim")
        lost = replace(first, version=2, content="violins are made of maple", native_id=None)
        (second,) = await keeper.put_all([lost])
        assert [(kept.text, kept.version) for kept in await keeper.held()] == [(lost.content, 2)]
        assert await keeper.found("violins maple") == [second.native_id]


class TestQuipuOverLetta(OnServer, Played):
    """Letta embeds with what this process lends its server. That its pages are turned is shown above."""

    size = LEAST


async def test_the_vendor_has_it_finds_it_and_loses_it(vendors: Vendors, tmp_path: Path) -> None:
    await has_finds_and_loses("letta", vendors.letta.url, vendors, tmp_path, server=vendors.letta.address)
