"""LangGraph's store, for real: in memory, on SQLite, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quipu.ports.backend import Backend
from quipu.testing.backend.case import HOME
from tests.vendors.contract import OnPostgres, Played, VendorContract

pytestmark = pytest.mark.vendor
#: One more than a page of the adapter's.
_PAGE = 501


class TestInMemory(VendorContract):
    vendor, url = "langgraph", "langgraph://memory"
    page = _PAGE

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        """There are no files: what the store itself tells."""
        return [kept.native_id async for kept in backend.scan(HOME) if marker in str(kept)]


class TestOnSqlite(VendorContract):
    vendor, url = "langgraph", "langgraph+sqlite://"
    page = _PAGE


class TestOnPostgres(OnPostgres):
    vendor, url = "langgraph", "langgraph+postgresql://"
    page = _PAGE
    orders_numbers = False


class TestQuipuOverMemory(Played):
    vendor, url = "langgraph", "langgraph://memory"


class TestQuipuOverSqlite(Played):
    vendor, url = "langgraph", "langgraph+sqlite://"


class TestQuipuOverPostgres(Played):
    vendor, url = "langgraph", "langgraph+postgresql://"
