"""The index of a database's versions: whether it says what it must, and making it do so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from quipu.ledger.postgres import statements
from quipu.ledger.postgres.searching import Searching
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.turn import Turn
from quipu.ledger.search import entries
from quipu.ledger.search.terms import RULES, Tokenizer
from quipu.model.outcomes import Fault
from quipu.model.record import Record
from quipu.ports.ledger import Indexed

T = TypeVar("T")


class Indexing:
    """That part of the port. The ledger that inherits it says how a database is read and written."""

    _searching: Searching

    async def _read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        raise NotImplementedError

    async def _take_turn(self, tenant: str, work: Callable[[Turn], Awaitable[T]]) -> T:
        raise NotImplementedError

    async def index_faults(self, tenant: str, expected: Sequence[Indexed]) -> Sequence[Fault]:
        words = self._searching.tokenizer
        return await self._read(lambda connection: _faults(connection, words, tenant, expected))

    async def has_other_terms(self, tenant: str) -> bool:
        return await self._read(lambda connection: _rules(connection, tenant)) != RULES

    async def renew_terms(self, tenant: str, expected: Sequence[Indexed]) -> int:
        # Words are looked for without the lock: mostly there is nothing to write.
        words = self._searching.tokenizer
        other = await self._read(lambda connection: _other(connection, words, tenant, expected))
        return await self._take_turn(tenant, lambda turn: _renew(turn, other)) if other else 0

    async def settle_terms(self, tenant: str) -> None:
        await self._take_turn(
            tenant,
            lambda turn: statements.run(turn.connection, "settle_terms", tenant=tenant, terms=RULES),
        )


async def _rules(connection: Connection, tenant: str) -> int | None:
    return await statements.scalar(connection, "rules_of_terms", tenant=tenant)


async def _entries(
    connection: Connection, tenant: str, expected: Sequence[Indexed], space: int | None
) -> dict[tuple[str, int], entries.Entry]:
    found = await statements.select(
        connection,
        "index_of",
        tenant=tenant,
        space=space,
        ids=[item.record.id for item in expected],
        versions=[item.record.version for item in expected],
    )
    return {(record_id, version): entries.Entry(terms, width) for record_id, version, terms, width in found}


async def _faults(
    connection: Connection, tokenizer: Tokenizer, tenant: str, expected: Sequence[Indexed]
) -> list[Fault]:
    head = await statements.first(connection, "head", tenant=tenant)
    space, dimensions = (None, None) if head is None else (head[5], head[6])
    due = entries.Due(dimensions, await _rules(connection, tenant))
    there = await _entries(connection, tenant, expected, space)
    faults: list[Fault] = []
    for item in expected:
        found = there.get((item.record.id, item.record.version))
        if found is not None:
            faults.extend(due.faults(tokenizer, item, found))
    return faults


async def _other(
    connection: Connection, tokenizer: Tokenizer, tenant: str, expected: Sequence[Indexed]
) -> list[tuple[Record, bytes | None]]:
    """Versions whose terms are not those of their text, with those that are."""
    there = await _entries(connection, tenant, expected, None)
    other: list[tuple[Record, bytes | None]] = []
    for item in expected:
        found = there.get((item.record.id, item.record.version))
        terms = entries.due_terms(tokenizer, item)
        if found is not None and found.terms != terms:
            other.append((item.record, terms))
    return other


async def _renew(turn: Turn, other: Sequence[tuple[Record, bytes | None]]) -> int:
    connection, tenant = turn.connection, turn.working.tenant
    renewed = await statements.run(
        connection,
        "renew_terms",
        tenant=tenant,
        ids=[record.id for record, _ in other],
        versions=[record.version for record, _ in other],
        terms=[terms for _, terms in other],
    )
    await statements.run(connection, "note_renewal", tenant=tenant)
    return renewed
