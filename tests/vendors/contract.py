"""What every vendor must show: the suite of the port, and the scenarios on a Quipu that mirrors to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.ports.backend import Backend
from quipu.testing.backend import BackendContract
from quipu.testing.backend.case import Keeper
from quipu.testing.scenarios import SCENARIOS, SMALL, Scenario, played
from quipu.testing.scenarios_sixteen import SIXTEEN
from tests.vendors.audited import outbound
from tests.vendors.playing import subject
from tests.vendors.sharing import files_with, lent, made, setup
from tests.vendors.starting import Vendors


class Vendor:
    """Which one, and how it is reached."""

    vendor: str
    url: str

    def reached(self, vendors: Vendors, place: Path) -> AbstractAsyncContextManager[Backend]:
        """The running vendor's backend, open; left running."""
        return self._reached(vendors)

    @asynccontextmanager
    async def _reached(self, vendors: Vendors) -> AsyncIterator[Backend]:
        backend = vendors.at(self.url).backend
        await backend.open()
        yield backend


class VendorContract(Vendor, BackendContract):
    """The suite of the port, on a vendor that keeps its things in a folder of ours."""

    running: Vendors
    #: LangGraph compares numbers as texts on PostgreSQL, which orders times of the same length only.
    orders_numbers = True

    @pytest.fixture
    async def backend(self, vendors: Vendors, tmp_path: Path) -> AsyncIterator[Backend]:
        type(self).running = vendors
        vendors.switched.now = vendors.switched.words
        async with self.reached(vendors, tmp_path) as backend:
            yield lent(backend)
        assert outbound() == [], "nothing but this machine was asked for"

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        """An interpreter that does not have the vendor's package."""
        other = "mem0" if self.vendor == "langgraph" else "langgraph"
        return made(setup(self.url, other, tmp_path / "mirror"), self.vendor)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return files_with(type(self).running.at(self.url).place, marker)

    async def test_a_time_that_no_date_can_name(self, keeper: Keeper) -> None:
        """A record may hold any time of 64 bits, such as one that was taken for milliseconds and was not."""
        times = (1_763_000_000_000_000_000, -(1 << 62), -1)
        kept = await keeper.put_all([keeper.copy(f"tea number {at}", created_at=at) for at in times])
        again = await keeper.put_all([replace(copy, native_id=None) for copy in kept])
        assert [copy.native_id for copy in again] == [copy.native_id for copy in kept]
        since = -(1 << 62) if self.orders_numbers else None
        assert sorted(await keeper.found("tea number", created_from=since)) == sorted(
            copy.native_id or "" for copy in kept
        )


class OnPostgres(VendorContract):
    """The same where a vendor keeps its things in PostgreSQL: the files of its database are looked through."""

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        return made(
            setup(f"{self.url}quipu@/none?host={tmp_path}", self.vendor, tmp_path / "mirror"), self.vendor
        )

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        running = type(self).running
        await asyncio.to_thread(running.postgres.execute, "CHECKPOINT")
        return files_with(running.postgres.files_of(running.at(self.url).url), marker)


class Played(Vendor):
    """The scenarios on a Quipu with this vendor as its mirror: none is skipped, nothing is recorded or made up."""

    #: The full crowd is the ledgers' to stand.
    size = SMALL

    @pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
    async def test_in_use(self, scenario: Scenario, vendors: Vendors, tmp_path: Path) -> None:
        await self.play(scenario, vendors, tmp_path, only_mirror=False)

    @pytest.mark.parametrize("scenario", SIXTEEN, ids=lambda scenario: scenario.name)
    async def test_only_the_vendor_finds(self, scenario: Scenario, vendors: Vendors, tmp_path: Path) -> None:
        await self.play(scenario, vendors, tmp_path, only_mirror=True)

    async def play(self, scenario: Scenario, vendors: Vendors, place: Path, *, only_mirror: bool) -> None:
        async with self.reached(vendors, place) as backend:
            file = place / "memory.db"
            at = subject(
                backend, self.vendor, vendors.switched, file, only_mirror=only_mirror, size=self.size
            )
            result = await played(at, scenario)
        assert result.passed, result.detail
        assert result.assertions > 0
