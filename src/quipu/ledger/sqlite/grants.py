"""Lending on a SQLite file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import apsw

from quipu.ledger import lending as rows
from quipu.ledger.rows import Row
from quipu.ledger.sqlite import statements
from quipu.ledger.sqlite.answers import answered
from quipu.model.disclosure import (
    CascadeStep,
    ChainEnd,
    Erasure,
    HeldItem,
    KeptReceipt,
    LogKind,
    LogLine,
    Question,
    Standing,
    Writes,
)
from quipu.model.grants import KeptGrant, TaskStep

T = TypeVar("T")


class _Reading(Protocol):
    def __call__(self, work: Callable[[apsw.Connection, Any], T]) -> Awaitable[T]: ...


class _Writing(Protocol):
    def __call__(self, job: Callable[[apsw.Connection], T]) -> Awaitable[T]: ...


class SqliteLending:
    """Reads on the ledger's readers, decides in its one writer."""

    def __init__(self, read: _Reading, write: _Writing, flush: Callable[[], Awaitable[None]]) -> None:
        """`flush` leaves no old page behind: what others want back is gone from the file, too."""
        self._read, self._write, self._flush = read, write, flush
        self._sweeps = rows.Sweeps()

    async def decide(self, tenant: str, question: Question, decide: Callable[[Standing], Writes]) -> Writes:
        def job(connection: apsw.Connection) -> Writes:
            writes = decide(_standing(connection, tenant, question))
            _write(connection, tenant, question, writes, self._sweeps)
            return writes

        return await self._write(job)

    async def grant(self, tenant: str, grant_id: str) -> KeptGrant | None:
        row = await self._read(lambda c, _: statements.first(c, "lent_grant", tenant=tenant, id=grant_id))
        return None if row is None else rows.grant_of(row)

    async def grants(self, tenant: str) -> Sequence[KeptGrant]:
        return [rows.grant_of(row) for row in await self._rows("lent_grants", tenant=tenant)]

    async def lent_to(self, tenant: str, record_ids: Sequence[str]) -> Sequence[tuple[str, str]]:
        def work(connection: apsw.Connection, _: Any) -> list[tuple[str, str]]:
            return [
                (row[0], record_id)
                for record_id in record_ids
                for row in statements.select(connection, "lent_to", tenant=tenant, record_id=record_id)
            ]

        return await self._read(work)

    async def lent_items(self, tenant: str, grant_id: str) -> Sequence[tuple[str, int]]:
        found = await self._rows("lent_items", tenant=tenant, grant_id=grant_id)
        return [(row[0], row[1]) for row in found]

    async def log(self, tenant: str, record_id: str, log: LogKind) -> Sequence[LogLine]:
        found = await self._rows("item_log", tenant=tenant, record_id=record_id, log=log.value)
        return [rows.line_of(row) for row in found]

    async def tails(self, tenant: str, record_ids: Sequence[str]) -> dict[str, LogLine]:
        def work(connection: apsw.Connection, _: Any) -> dict[str, LogLine]:
            standing = Standing(end=ChainEnd())
            _put_lines(connection, tenant, record_ids, standing)
            return {name: line for (name, log), line in standing.tails.items() if log is LogKind.STATE}

        return await self._read(work)

    async def receipts(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[KeptReceipt]:
        found = await self._rows("receipts", tenant=tenant, after=after, limit=limit)
        return [rows.receipt_of(row) for row in found]

    async def receipts_about(
        self, tenant: str, grant_id: str, before: int, limit: int
    ) -> Sequence[KeptReceipt]:
        found = await self._rows(
            "receipts_about", tenant=tenant, grant_id=grant_id, before=before, limit=limit
        )
        return [rows.receipt_of(row) for row in found]

    async def receipts_to(self, tenant: str, agent: str, after: str, limit: int) -> Sequence[KeptReceipt]:
        found = await self._rows("receipts_to", tenant=tenant, agent=agent, after=after, limit=limit)
        return [rows.receipt_of(row) for row in found]

    async def erasures(self, tenant: str) -> Sequence[Erasure]:
        return [rows.erasure_of(row) for row in await self._rows("erasures", tenant=tenant)]

    async def cascade(self, tenant: str) -> Sequence[CascadeStep]:
        return [rows.step_of(row) for row in await self._rows("cascade_steps", tenant=tenant)]

    async def move_step(self, tenant: str, step: CascadeStep) -> None:
        values = rows.step_values(step)
        await self._write(lambda c: statements.run(c, "keep_cascade_step", tenant=tenant, **values))

    async def hold(self, held: Sequence[HeldItem]) -> None:
        def job(connection: apsw.Connection) -> None:
            for one in held:
                statements.run(connection, "hold_item", **rows.held_values(one))

        await self._write(job)

    async def held(self, tenant: str) -> Sequence[HeldItem]:
        return [rows.held_of(row) for row in await self._rows("held_items", tenant=tenant)]

    async def drop_held(self, tenant: str, source: str, grant_id: str, item_ids: Sequence[str]) -> int:
        def job(connection: apsw.Connection) -> int:
            dropped = 0
            for item_id in item_ids:
                statements.run(
                    connection,
                    "drop_held_item",
                    tenant=tenant,
                    source=source,
                    grant_id=grant_id,
                    item_id=item_id,
                )
                dropped += connection.changes()
            return dropped

        dropped = await self._write(job)
        if dropped:
            await self._flush()
        return dropped

    async def drop_expired(self, tenant: str, now: int) -> None:
        def job(connection: apsw.Connection) -> int:
            statements.run(connection, "drop_expired_items", tenant=tenant, now=now)
            return connection.changes()

        if await self._write(job):
            await self._flush()

    async def drop_requests(self, tenant: str, before: int) -> int:
        return await self._dropped("drop_requests", tenant=tenant, before=before)

    async def task_steps(self, tenant: str, task_id: str) -> Sequence[TaskStep]:
        found = await self._rows("task_steps", tenant=tenant, task_id=task_id)
        return [rows.task_step_of(row) for row in found]

    async def add_task_step(self, step: TaskStep) -> bool:
        def job(connection: apsw.Connection) -> bool:
            statements.run(connection, "add_task_step", **rows.task_step_values(step))
            return connection.changes() > 0

        return await self._write(job)

    async def drop_tasks(self, tenant: str, before: int) -> int:
        return await self._dropped("drop_tasks", tenant=tenant, before=before)

    async def _dropped(self, statement: str, **values: Any) -> int:
        def job(connection: apsw.Connection) -> int:
            statements.run(connection, statement, **values)
            return connection.changes()

        dropped = await self._write(job)
        if dropped:
            await self._flush()
        return dropped

    async def _rows(self, statement: str, **values: Any) -> list[Any]:
        return await self._read(lambda c, _: statements.select(c, statement, **values))


def _put_lines(
    connection: apsw.Connection, tenant: str, record_ids: Sequence[str], standing: Standing
) -> None:
    wanted = json.dumps(record_ids)
    rows.put_lines(standing, statements.select(connection, "log_ends", tenant=tenant, records=wanted))


def _standing(connection: apsw.Connection, tenant: str, question: Question) -> Standing:
    end = statements.first(connection, "receipt_end", tenant=tenant)
    head = statements.first(connection, "lending_head", tenant=tenant)
    grant, disclosed = None, list[Row]()
    if question.grant_id is not None:
        grant = statements.first(connection, "lent_grant", tenant=tenant, id=question.grant_id)
        if question.record_ids:
            wanted = json.dumps(question.record_ids)
            disclosed = statements.select(
                connection, "lent_among", tenant=tenant, grant_id=question.grant_id, records=wanted
            )
    known = None if question.key is None else answered(connection, tenant, question.key, question.now)
    erasure = None
    if question.erasure_id is not None:
        erasure = statements.first(connection, "erasure", tenant=tenant, id=question.erasure_id)
    standing = Standing(
        **rows.standing_values(end, head),
        answered=None if known is None else known.replayed,
        erasure=None if erasure is None else rows.erasure_of(erasure),
        grant=None if grant is None else rows.grant_of(grant),
        disclosed=frozenset(row[0] for row in disclosed),
        replayed=frozenset(
            name
            for name in question.once
            if statements.first(connection, "used_proof", tenant=tenant, id=name, now=question.now)
        ),
    )
    if question.record_ids:
        _put_lines(connection, tenant, question.record_ids, standing)
    return standing


def _write(
    connection: apsw.Connection, tenant: str, question: Question, writes: Writes, sweeps: rows.Sweeps
) -> None:
    for grant in writes.grants:
        statements.run(connection, "move_grant", tenant=tenant, id=grant.id, **rows.grant_moves(grant))
        if not connection.changes():
            statements.run(connection, "keep_grant", tenant=tenant, **rows.grant_values(grant))
    shown = {"tenant": tenant, "grant_id": question.grant_id, "at": question.now}
    statements.run_many(connection, "add_lent_item", [{**shown, "record_id": name} for name in writes.shown])
    statements.run_many(
        connection, "add_log_line", [{"tenant": tenant, **rows.line_values(line)} for line in writes.lines]
    )
    for receipt in writes.receipts:
        statements.run(connection, "add_receipt", tenant=tenant, **rows.receipt_values(receipt))
    if writes.erasure is not None:
        statements.run(connection, "keep_erasure", tenant=tenant, **rows.erasure_values(writes.erasure))
    for step in writes.steps:
        statements.run(connection, "keep_cascade_step", tenant=tenant, **rows.step_values(step))
    if question.once and writes.once_until is not None:
        if sweeps.is_due(tenant, question.now):
            statements.run(connection, "drop_used_proofs", tenant=tenant, now=question.now)
        for name in question.once:
            # There is one writer: nobody else has used it since `_standing` looked.
            statements.run(connection, "use_proof", tenant=tenant, id=name, until=writes.once_until)
    if writes.kept is not None:
        values = rows.answer_values(writes.kept, writes.kept_at)
        statements.run(connection, "keep_answer", tenant=tenant, **values)
