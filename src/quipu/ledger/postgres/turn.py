"""A tenant's turn: its head locked in an open transaction, and what is written while it lasts.

1. Whoever holds the lock writes the next positions; it ends with the transaction.
2. Callers that share a turn are decided one by one; one that fails leaves no trace, and the others stand.
3. New rows go in first, many of them by COPY; changes of rows follow in the order they were decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quipu.errors import NotFoundError, QuipuError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.beside import Terms, Writes
from quipu.ledger.postgres.planning import Plan
from quipu.ledger.postgres.statements import SQL, Connection
from quipu.ledger.postgres.working import Head, Wanted, Working, read_into
from quipu.model.change import Commit, Committed
from quipu.ports.surroundings import Canonical

#: From so many rows on, COPY is faster than one statement each.
_MANY = 8
#: From so many changes on, deciding takes longer than a thread takes to start.
_LONG = 200
VECTOR_TYPES = ("text", "int8", "int4", "vector")


@dataclass(slots=True)
class Job:
    """What one caller hands in: all of it or nothing."""

    commits: Sequence[Commit]
    guard: int | None = None
    #: Made before the turn is taken, so that nobody waits for it.
    terms: Terms = field(default_factory=dict[str, bytes])
    done: list[Committed] = field(default_factory=list[Committed])
    failure: Exception | None = None


@dataclass(slots=True)
class Turn:
    """The tenant's lock is held."""

    connection: Connection
    working: Working
    canonical: Canonical

    @classmethod
    async def take(cls, connection: Connection, tenant: str, canonical: Canonical) -> Turn:
        """Wait for the tenant's turn, in the transaction that is open."""
        row = await statements.first(connection, "lock_head", tenant=tenant)
        if row is None:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        return cls(connection, Working(tenant, Head(*row)), canonical)

    async def apply(self, *jobs: Job) -> None:
        """Decide and write; each job says how it went."""
        tenant = self.working.tenant
        wanted = Wanted.by(commit for job in jobs for commit in job.commits if commit.tenant == tenant)
        await read_into(self.connection, self.working, wanted)
        changes = sum(len(commit.changes) for job in jobs for commit in job.commits)
        if changes < _LONG:
            writes = self._decided(jobs)
        else:  # others are not kept waiting for so much deciding
            writes = await asyncio.to_thread(self._decided, jobs)
        await self._write(writes)

    def _decided(self, jobs: Sequence[Job]) -> Writes:
        writes = Writes()
        for job in jobs:
            branch = self.working.branch()
            plan = Plan(branch, self.canonical, job.terms)
            try:
                job.done = [plan.apply(commit, job.guard) for commit in job.commits]
            except QuipuError as error:
                job.failure = error
            else:
                self.working.adopt(branch)
                writes.extend(plan.writes)
        return writes

    async def _write(self, writes: Writes) -> None:
        connection = self.connection
        await _insert(connection, "add_version", "copy_versions", writes.versions)
        await _insert(connection, "add_vector", "copy_many_vectors", writes.vectors, VECTOR_TYPES)
        await _insert(connection, "add_entry", "copy_entries", writes.entries)
        for statement, values in writes.others:
            await statements.execute(connection, statement, values)
        if writes.intended:
            intended = {"tenant": self.working.tenant, "seqs": writes.intended}
            await statements.execute(connection, "intend", intended)
        if writes.entries:
            head = self.working.head
            moved: Mapping[str, Any] = {
                "tenant": self.working.tenant,
                "seq": head.seq,
                "hash": head.hash,
                "at": head.at,
                "changed": head.changed,
                "last_row": head.last_row,
            }
            await statements.execute(connection, "move_head", moved)


async def _insert(
    connection: Connection,
    one: str,
    many: str,
    rows: Sequence[tuple[Any, ...]],
    types: Sequence[str] = (),
) -> None:
    if len(rows) < _MANY:
        for row in rows:
            await statements.execute(connection, one, row)
        return
    async with connection.cursor().copy(SQL[many]) as copy:
        if types:
            copy.set_types(types)
        for row in rows:
            await copy.write_row(row)
