"""The index of a file's versions: whether it says what it must, and making it do so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import apsw

from quipu.ledger.search import entries
from quipu.ledger.search.terms import RULES, Tokenizer
from quipu.ledger.sqlite import statements
from quipu.model.outcomes import Fault
from quipu.model.record import Record
from quipu.ports.ledger import Indexed

T = TypeVar("T")


class Indexing:
    """That part of the port. The ledger that inherits it says how a file is read and written."""

    async def _read(self, work: Callable[[apsw.Connection, Tokenizer], T]) -> T:
        raise NotImplementedError

    async def _write(self, job: Callable[[apsw.Connection], T], *, alone: bool = False) -> T:
        raise NotImplementedError

    async def index_faults(self, tenant: str, expected: Sequence[Indexed]) -> Sequence[Fault]:
        return await self._read(lambda connection, words: _faults(connection, words, tenant, expected))

    async def has_other_terms(self, tenant: str) -> bool:
        return await self._read(lambda connection, _: _rules(connection, tenant) != RULES)

    async def renew_terms(self, tenant: str, expected: Sequence[Indexed]) -> int:
        # Words are looked for without the lock: mostly there is nothing to write.
        other = await self._read(lambda connection, words: _other(connection, words, tenant, expected))
        return await self._write(lambda connection: _renew(connection, tenant, other)) if other else 0

    async def settle_terms(self, tenant: str) -> None:
        await self._write(
            lambda connection: statements.run(connection, "settle_terms", tenant=tenant, terms=RULES)
        )


def _rules(connection: apsw.Connection, tenant: str) -> int | None:
    row = statements.first(connection, "rules_of_terms", tenant=tenant)
    return None if row is None else row[0]


def _entry(
    connection: apsw.Connection, tenant: str, record: Record, space: int | None
) -> entries.Entry | None:
    row = statements.first(
        connection,
        "index_of",
        tenant=tenant,
        id=record.id,
        version=record.version,
        parity=(space or 0) % 2,
        space=space or 0,
    )
    if row is None:
        return None
    _row, terms, length = row
    # Bytes that are no whole number of floats are of no space.
    return entries.Entry(terms, None if length is None else -1 if length % 4 else length // 4)


def _faults(
    connection: apsw.Connection, tokenizer: Tokenizer, tenant: str, expected: Sequence[Indexed]
) -> list[Fault]:
    head = statements.first(connection, "head", tenant=tenant)
    space, dimensions = (None, None) if head is None else (head[5], head[6])
    due = entries.Due(dimensions, _rules(connection, tenant))
    faults: list[Fault] = []
    for item in expected:
        found = _entry(connection, tenant, item.record, space)
        if found is not None:
            faults.extend(due.faults(tokenizer, item, found))
    return faults


def _other(
    connection: apsw.Connection, tokenizer: Tokenizer, tenant: str, expected: Sequence[Indexed]
) -> list[tuple[Record, bytes | None]]:
    """Versions whose terms are not those of their text, with those that are."""
    other: list[tuple[Record, bytes | None]] = []
    for item in expected:
        found = _entry(connection, tenant, item.record, None)
        terms = entries.due_terms(tokenizer, item)
        if found is not None and found.terms != terms:
            other.append((item.record, terms))
    return other


def _renew(connection: apsw.Connection, tenant: str, other: Sequence[tuple[Record, bytes | None]]) -> int:
    renewed = 0
    for record, terms in other:
        statements.run(
            connection, "renew_terms", tenant=tenant, id=record.id, version=record.version, terms=terms
        )
        renewed += connection.changes()
    statements.run(connection, "note_renewal", tenant=tenant)
    return renewed
