"""What every vendor must show, on its real package: the contract of backends, every scenario, and that nothing goes out.

A module is one vendor, and its loop runs as long as the vendor does:
`pytestmark = [pytest.mark.vendor(name=...), pytest.mark.asyncio(loop_scope="module")]`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest_asyncio

from quipu.embed.port import Embedder
from quipu.mirrors.backend import Backend
from quipu.testing import BackendContract
from quipu.testing.backend.case import Keeper, files_with
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.scenario import Scenario
from tests.fixtures.postgres import Server, name_of
from tests.mirrors.scenarios import meaning, played_on
from tests.vendors.audited import outbound
from tests.vendors.environments import python_of
from tests.vendors.shared import SharedBackend, vendor_at


class Vendor:
    """A vendor that keeps its things in a folder of ours."""

    url: str
    needs_postgres = False
    #: What it and the ledger embed with.
    embedder: Embedder = WordEmbedder(384)

    @classmethod
    def made(cls, folder: Path) -> Backend:
        """The vendor's backend, not opened."""
        return vendor_at(cls.url, folder, embedder=cls.embedder)


class VendorOfPostgres(Vendor):
    """One that keeps its things in PostgreSQL."""

    needs_postgres = True
    server: Server
    address: str

    @classmethod
    def made(cls, folder: Path) -> Backend:
        return vendor_at(cls.url + cls.address, folder, embedder=cls.embedder)


class VendorContract(Vendor, BackendContract):
    """The contract."""

    #: LangGraph compares numbers as texts on PostgreSQL, which orders times of the same length only.
    orders_numbers = True

    @pytest_asyncio.fixture(loop_scope="module")
    async def backend(self, running: Backend) -> AsyncIterator[SharedBackend]:
        outbound()
        yield SharedBackend(running)
        assert outbound() == [], "nothing but this machine was asked for"

    @pytest_asyncio.fixture(loop_scope="module")
    async def unreachable(self, tmp_path: Path) -> Backend:
        """An interpreter that does not have the vendor's package."""
        other = "graphiti" if "mem0" in self.url else "mem0"
        return vendor_at(self.url, tmp_path / "mirror", python=python_of(other))

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


class VendorOnPostgres(VendorOfPostgres, VendorContract):
    """The same on PostgreSQL: the files of its database are looked through."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def unreachable(self, tmp_path: Path) -> Backend:
        return vendor_at(f"{self.url}postgresql://quipu@/none?host={tmp_path}", tmp_path / "mirror")

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        def found() -> list[str]:
            self.server.execute("CHECKPOINT")
            number = self.server.execute(
                f"SELECT oid FROM pg_database WHERE datname = '{name_of(self.address)}'"  # noqa: S608  its own
            )[0][0]
            return files_with(self.server.folder / "data" / "base" / str(number), marker)

        return await asyncio.to_thread(found)


class VendorScenarios(Vendor):
    """All of them, twice."""

    embedder = meaning()
    #: What is played; where a write takes seconds, less than all.
    scenarios: Sequence[Scenario] = SCENARIOS

    async def test_a_memory_with_this_mirror_plays(
        self, running: Backend, scenario: Scenario, way: str
    ) -> None:
        result = await played_on(
            SharedBackend(running), scenario, is_alone=way == "alone", embedder=self.embedder
        )
        assert result.outcome == "pass", result.detail
