"""mem0, for real: on a Qdrant folder and on PostgreSQL."""

from pathlib import Path

import pytest

from quipu.mirrors.backend import Container, Place
from quipu.testing.backend.case import Keeper
from tests.fixtures.postgres import Server, name_of
from tests.vendors.contract import VendorContract, VendorOfPostgres, VendorOnPostgres, VendorScenarios
from tests.vendors.shared import vendor_at

pytestmark = [pytest.mark.vendor(name="mem0"), pytest.mark.asyncio(loop_scope="module")]


class TestOnQdrant(VendorContract):
    url = "mem0://default"


class TestOnPostgres(VendorOnPostgres):
    url = "mem0+"


class TestScenariosOnQdrant(VendorScenarios):
    url = "mem0://default"


class TestScenariosOnPostgres(VendorOfPostgres, VendorScenarios):
    url = "mem0+"


async def test_many_tenants_share_few_connections(postgres: Server, tmp_path: Path) -> None:
    """Each tenant's mem0 has connections of its own; those that were asked long ago give theirs back."""
    address = postgres.new_database()
    backend = vendor_at(f"mem0+{address}", tmp_path)
    keeper = Keeper(backend)
    await backend.open()
    homes = [Container(tenant=f"t{number}", store_id="ms_1", agent_id="ana") for number in range(24)]
    kept = [await keeper.put("Mara drinks tea", home) for home in homes]
    of_it = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name_of(address)}'"  # noqa: S608  its own
    assert postgres.execute(of_it)[0][0] <= 16
    first = kept[0]
    assert first.native_id is not None
    (read,) = await backend.get([Place(homes[0], first.record_id, first.native_id)])
    assert read.mark == first.mark
    await backend.close()
