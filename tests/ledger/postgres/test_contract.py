"""The suite every ledger passes, on a real PostgreSQL; and its part about search, with vectors left in the database."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest

from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ports.ledger import Ledger
from quipu.testing import LedgerContract
from quipu.testing.builders import FixedClock
from quipu.testing.ledger.finding import FindingContract
from quipu.testing.ledger.wording import WordingContract
from tests.ledger.postgres.opening import opened


class PostgresCase:
    async def raw(self, ledger: Ledger, statement: str, **values: Any) -> Sequence[Sequence[Any]]:
        assert isinstance(ledger, PostgresLedger)
        named = re.sub(r":(\w+)", r"%(\1)s", statement)
        async with await psycopg.AsyncConnection.connect(
            ledger.place.conninfo, autocommit=True
        ) as connection:
            done = await connection.execute(named.encode(), values or None)
            return await done.fetchall() if done.description else []


class TestPostgres(PostgresCase, LedgerContract):
    @pytest.fixture
    async def ledger(self, clock: FixedClock, postgres_url: str) -> AsyncIterator[PostgresLedger]:
        ledger = opened(postgres_url, clock)
        yield ledger
        await ledger.close()


@pytest.fixture
def compares_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a handful of vectors is asked of pgvector."""
    monkeypatch.setattr("quipu.ledger.postgres.nearness._FETCHED", 0)


@pytest.mark.usefixtures("compares_in_the_database")
class TestPostgresScans(PostgresCase, FindingContract, WordingContract):
    """No partition may hold vectors."""

    @pytest.fixture
    async def ledger(self, clock: FixedClock, postgres_url: str) -> AsyncIterator[PostgresLedger]:
        ledger = opened(postgres_url, clock, held_bytes=0)
        yield ledger
        await ledger.close()
