"""What the rows of one write cost by themselves: the same rows, put into a copy of the file, one transaction each.

A bare transaction keeps one row. A memory that can be found, read as of any moment and proven is kept in seven places
of the file. What lies between a bare transaction and this one, no program in front of the same tables can save; what
lies between this one and `remember` is Quipu's own work.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from quipu.ledger.sqlite import file

_TABLES = ("record", "vector", "journal")
_MOVE = "UPDATE tenant SET seq = ?, hash = ?, at = ?, changed = ? WHERE tenant = ?"


class Replayed:
    """A copy of a ledger's file, which is given what is written to the other after it was made."""

    def __init__(self, ledger: Path, copy: Path) -> None:
        self._ledger = ledger
        with (
            closing(file.connect(ledger, is_reader=True)) as source,
            closing(apsw.Connection(str(copy))) as made,
        ):
            with made.backup("main", source, "main") as backup:
                backup.step()
            made.pragma("journal_mode", "wal")
        self._copy = file.connect(copy)
        self._last: int = self._copy.execute("SELECT max(row) FROM record").get
        self._statements = [*(self._insert(table) for table in _TABLES), _MOVE]

    def _insert(self, table: str) -> str:
        columns = self._copy.execute(f"PRAGMA table_info({table})").fetchall()
        return f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"  # noqa: S608  our own names

    def caught_up(self) -> list[float]:
        """Milliseconds of each record that was written since the last time."""
        with closing(file.connect(self._ledger, is_reader=True)) as source:
            found = source.execute("SELECT row, born FROM record WHERE row > ? ORDER BY row", (self._last,))
            written = [self._rows(source, *one) for one in found.fetchall()]
        self._last += len(written)
        return [self._write(rows) for rows in written]

    def _rows(self, source: apsw.Connection, row: Any, born: Any) -> list[tuple[Any, ...]]:
        asked = (
            ("SELECT * FROM record WHERE row = ?", row),
            ("SELECT * FROM vector WHERE slot BETWEEN 2 * ?1 AND 2 * ?1 + 1", row),
            ("SELECT * FROM journal WHERE seq = ?", born),
            ("SELECT seq, hash, at, seq, tenant FROM journal WHERE seq = ?", born),
        )
        return [next(source.execute(statement, (value,))) for statement, value in asked]

    def _write(self, rows: list[tuple[Any, ...]]) -> float:
        started = time.perf_counter()
        self._copy.execute("BEGIN IMMEDIATE")
        for statement, values in zip(self._statements, rows, strict=True):
            self._copy.execute(statement, values)
        self._copy.execute("COMMIT")
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """Give the file back."""
        self._copy.close()
