"""Rows of capabilities against the journal: the digest of a row is the last one that an entry names for its key.

Null means that the row is gone; a key that no entry names is a fault. A row that lost what an erased memory said keeps its
digest, which nobody can compute any more; it must name such a memory.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quipu.audit.model import AuditFault
from quipu.ledger.digests import row_digest
from quipu.ledger.reader import StoredRow
from quipu.ledger.table import Key, Table
from quipu.model.journal import Entry


@dataclass(slots=True)
class Side:
    """What the entries say of rows: table and key → digest, and the position that says it."""

    rows: dict[tuple[str, Key], tuple[str | None, int]] = field(
        default_factory=dict[tuple[str, Key], tuple[str | None, int]]
    )
    #: Table → the last position at which one of its rows changed.
    changed: dict[str, int] = field(default_factory=dict[str, int])

    def follow(self, entry: Entry) -> None:
        named: Any = entry.detail.get("side", ())
        for table, key, digest in named:
            self.rows[table, tuple(key)] = (digest, entry.seq)
            self.changed[table] = entry.seq

    def guarded(self, tables: Iterable[Table[Any]]) -> int:
        """The last position at which a row changed that writes are checked against."""
        return max((self.changed.get(table.name, 0) for table in tables if table.guards), default=0)

    def standing(self, table: str) -> Iterator[Key]:
        """Keys of the rows that should be there."""
        return (key for (name, key), (digest, _) in self.rows.items() if name == table and digest is not None)

    def fault(
        self, table: Table[Any], key: Key, row: StoredRow | None, erased: Collection[str]
    ) -> AuditFault | None:
        """What is wrong with a row, if anything is."""
        digest, seq = self.rows.get((table.name, key), (None, None))
        name = "/".join(map(str, key))
        if row is None:
            if digest is None:
                return None
            return AuditFault(
                kind="missing_row", seq=seq, id=name, detail=f"a row of {table.name} is missing"
            )
        if digest is None:
            said = "that no entry names" if seq is None else "that was taken away"
            return AuditFault(
                kind="unjournaled_row", seq=seq or row.seq, id=name, detail=f"{table.name} has a row {said}"
            )
        if row.digest.hex() == digest and row.seq == seq and _is_as_written(table, row, erased):
            return None
        return AuditFault(
            kind="altered_row", seq=seq, id=name, detail=f"a row of {table.name} is not what was written"
        )


def _is_as_written(table: Table[Any], row: StoredRow, erased: Collection[str]) -> bool:
    if row.salt is None:
        is_empty = all(row.columns[name] is None for name in table.erasable)
        return is_empty and bool(table.erasable) and _names_any(row.columns, table.names, erased)
    try:
        return row_digest(row.columns, row.salt) == row.digest
    except (ValueError, TypeError):  # nobody could have written such a thing
        return False


def _names_any(columns: Mapping[str, Any], names: Sequence[str], erased: Collection[str]) -> bool:
    return any(columns[name] in erased for name in names)
