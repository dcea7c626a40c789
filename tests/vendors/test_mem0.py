"""mem0, for real: on a Qdrant folder and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from quipu.model.record import MemoryType
from quipu.ports.backend import Container, Copy, Place
from tests.postgres import Server, name_of
from tests.vendors.contract import OnPostgres, Played, VendorContract
from tests.vendors.sharing import made, setup

pytestmark = pytest.mark.vendor


class TestOnQdrant(VendorContract):
    vendor, url = "mem0", "mem0://default"


class TestOnPostgres(OnPostgres):
    vendor, url = "mem0", "mem0+postgresql://"


async def test_many_tenants_share_few_connections(postgres: Server, tmp_path: Path) -> None:
    """Each tenant's mem0 has connections of its own; those that were asked long ago give theirs back."""
    database = postgres.database(is_empty=True)
    backend = made(setup(f"mem0+{database}", "mem0", tmp_path), "mem0")
    await backend.open()
    try:
        homes = [Container(tenant=f"t{number}", store_id="ms_1", agent_id="ana") for number in range(24)]
        kept = [(await backend.put([_copy(home, f"mem_{number}")]))[0] for number, home in enumerate(homes)]
        used = postgres.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %(name)s", name=name_of(database)
        )
        assert used[0][0] <= 16
        first = Place(homes[0], "mem_0", kept[0])
        assert [found.record_id for found in await backend.get([first])] == ["mem_0"]
    finally:
        await backend.close()
        postgres.drop(database)


def _copy(home: Container, name: str) -> Copy:
    return Copy(
        record_id=name,
        version=1,
        container=home,
        content="Mara drinks tea",
        type=MemoryType.SEMANTIC,
        created_at=1,
        updated_at=1,
    )


class TestQuipuOverQdrant(Played):
    vendor, url = "mem0", "mem0://default"


class TestQuipuOverPostgres(Played):
    vendor, url = "mem0", "mem0+postgresql://"
