"""The suite every ledger passes, on a SQLite file and on one that is gone when it is closed."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.ports.ledger import Ledger
from quipu.testing import LedgerContract
from quipu.testing.builders import CountedIds, FixedClock, canonical


class SqliteContract(LedgerContract):
    async def raw(self, ledger: Ledger, statement: str, **values: Any) -> Sequence[Sequence[Any]]:
        assert isinstance(ledger, SqliteLedger)
        connection = apsw.Connection(str(ledger.path))
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()


class TestSqliteFile(SqliteContract):
    @pytest.fixture
    async def ledger(self, clock: FixedClock, tmp_path: Path) -> AsyncIterator[SqliteLedger]:
        ledger = SqliteLedger(tmp_path / "memory.db", clock=clock, mint_id=CountedIds(), canonical=canonical)
        yield ledger
        await ledger.close()


class TestSqliteInMemory(SqliteContract):
    @pytest.fixture
    async def ledger(self, clock: FixedClock) -> AsyncIterator[SqliteLedger]:
        ledger = SqliteLedger(None, clock=clock, mint_id=CountedIds(), canonical=canonical)
        yield ledger
        await ledger.close()
        assert not ledger.path.parent.exists()
