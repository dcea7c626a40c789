"""LangGraph's store, for real: in memory, on SQLite, on PostgreSQL."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Backend
from quipu.testing.backend.case import HOME, Keeper
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.postgres import Server
from tests.vendors.contract import VendorContract, VendorOfPostgres, VendorOnPostgres, VendorScenarios
from tests.vendors.shared import vendor_at

pytestmark = [pytest.mark.vendor(name="langgraph"), pytest.mark.asyncio(loop_scope="module")]
#: One more than a page of the adapter's.
_PAGE = 501


class TestInMemory(VendorContract):
    url = "langgraph://memory"
    page = _PAGE

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        """There are no files: what the store itself tells."""
        return [kept.native_id async for kept in backend.scan(HOME) if marker in str(kept)]


class TestOnSqlite(VendorContract):
    url = "langgraph+sqlite://"
    page = _PAGE


class TestOnPostgres(VendorOnPostgres):
    url = "langgraph+"
    page = _PAGE
    orders_numbers = False


class TestScenariosInMemory(VendorScenarios):
    url = "langgraph://memory"


class TestScenariosOnSqlite(VendorScenarios):
    url = "langgraph+sqlite://"


class TestScenariosOnPostgres(VendorOfPostgres, VendorScenarios):
    url = "langgraph+"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_store_of_another_model_is_not_written_into(
    kind: str, tmp_path: Path, postgres: Server
) -> None:
    """On SQLite such a put is taken, and then every search fails."""
    url = f"langgraph+{postgres.new_database()}" if kind == "postgresql" else "langgraph+sqlite://"
    first = vendor_at(url, tmp_path, embedder=WordEmbedder(64))
    await first.open()
    kept = await Keeper(first).put("tea at noon")
    await first.close()
    other = vendor_at(url, tmp_path, embedder=WordEmbedder(384))
    with pytest.raises(BackendUnavailableError) as refused:
        await other.open()
    assert refused.value.reason == "embedding_mismatch"
    await other.close()
    again = vendor_at(url, tmp_path, embedder=WordEmbedder(64))
    await again.open()
    assert await Keeper(again).found("tea") == [kept.native_id]
    await again.close()
