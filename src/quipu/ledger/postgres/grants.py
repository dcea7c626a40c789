"""Lending on a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from quipu.errors import NotFoundError
from quipu.ledger import lending as rows
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.beside import replayed as answered
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import transaction
from quipu.ledger.postgres.working import answers
from quipu.ledger.rows import Row
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


class _Running(Protocol):
    def __call__(self, work: Callable[[Connection], Awaitable[T]]) -> Awaitable[T]: ...


class PostgresLending:
    """Decides under the tenant's lock."""

    def __init__(self, run: _Running, tidy: Callable[[], None]) -> None:
        """`tidy` leaves no old row behind: what others want back is gone from the tables, too."""
        self._run, self._tidy = run, tidy
        self._sweeps = rows.Sweeps()

    async def decide(self, tenant: str, question: Question, decide: Callable[[Standing], Writes]) -> Writes:
        # Decided already, and cut off before anybody heard how the commit ended.
        cut_off: list[Writes] = []

        async def work(connection: Connection) -> Writes:
            async with transaction(connection):
                if await statements.first(connection, "lock_head", tenant=tenant) is None:
                    raise NotFoundError("There is no such tenant.", reason="tenant")
                # The lock says that they have ended.
                for before in cut_off:
                    if await _is_kept(connection, tenant, before):
                        return before
                writes = decide(await _standing(connection, tenant, question))
                await _write(connection, tenant, question, writes, self._sweeps)
                cut_off.append(writes)
            return writes

        return await self._run(work)

    async def grant(self, tenant: str, grant_id: str) -> KeptGrant | None:
        row = await self._run(lambda c: statements.first(c, "lent_grant", tenant=tenant, id=grant_id))
        return None if row is None else rows.grant_of(row)

    async def grants(self, tenant: str) -> Sequence[KeptGrant]:
        return [rows.grant_of(row) for row in await self._rows("lent_grants", tenant=tenant)]

    async def lent_to(self, tenant: str, record_ids: Sequence[str]) -> Sequence[tuple[str, str]]:
        async def work(connection: Connection) -> list[tuple[str, str]]:
            return [
                (row[0], record_id)
                for record_id in record_ids
                for row in await statements.select(connection, "lent_to", tenant=tenant, record_id=record_id)
            ]

        return await self._run(work)

    async def lent_items(self, tenant: str, grant_id: str) -> Sequence[tuple[str, int]]:
        found = await self._rows("lent_items", tenant=tenant, grant_id=grant_id)
        return [(row[0], row[1]) for row in found]

    async def log(self, tenant: str, record_id: str, log: LogKind) -> Sequence[LogLine]:
        found = await self._rows("item_log", tenant=tenant, record_id=record_id, log=log.value)
        return [rows.line_of(row) for row in found]

    async def tails(self, tenant: str, record_ids: Sequence[str]) -> dict[str, LogLine]:
        async def work(connection: Connection) -> dict[str, LogLine]:
            standing = Standing(end=ChainEnd())
            await _put_lines(connection, tenant, record_ids, standing)
            return {name: line for (name, log), line in standing.tails.items() if log is LogKind.STATE}

        return await self._run(work)

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
        await self._run(lambda c: statements.run(c, "keep_cascade_step", tenant=tenant, **values))

    async def hold(self, held: Sequence[HeldItem]) -> None:
        async def work(connection: Connection) -> None:
            async with transaction(connection):
                for one in held:
                    await statements.run(connection, "hold_item", **rows.held_values(one))

        await self._run(work)

    async def held(self, tenant: str) -> Sequence[HeldItem]:
        return [rows.held_of(row) for row in await self._rows("held_items", tenant=tenant)]

    async def drop_held(self, tenant: str, source: str, grant_id: str, item_ids: Sequence[str]) -> int:
        async def work(connection: Connection) -> int:
            values = {"tenant": tenant, "source": source, "grant_id": grant_id}
            async with transaction(connection):
                return sum(
                    [
                        await statements.run(connection, "drop_held_item", **values, item_id=item_id)
                        for item_id in item_ids
                    ]
                )

        dropped = await self._run(work)
        if dropped:
            self._tidy()
        return dropped

    async def drop_expired(self, tenant: str, now: int) -> None:
        if await self._run(lambda c: statements.run(c, "drop_expired_items", tenant=tenant, now=now)):
            self._tidy()

    async def drop_requests(self, tenant: str, before: int) -> int:
        return await self._run(lambda c: statements.run(c, "drop_requests", tenant=tenant, before=before))

    async def task_steps(self, tenant: str, task_id: str) -> Sequence[TaskStep]:
        found = await self._rows("task_steps", tenant=tenant, task_id=task_id)
        return [rows.task_step_of(row) for row in found]

    async def add_task_step(self, step: TaskStep) -> bool:
        values = rows.task_step_values(step)
        return await self._run(lambda c: statements.run(c, "add_task_step", **values)) > 0

    async def drop_tasks(self, tenant: str, before: int) -> int:
        return await self._run(lambda c: statements.run(c, "drop_tasks", tenant=tenant, before=before))

    async def _rows(self, statement: str, **values: Any) -> list[Any]:
        return await self._run(lambda c: statements.select(c, statement, **values))


async def _is_kept(connection: Connection, tenant: str, writes: Writes) -> bool:
    """Whether a decision stands: its receipts, which are nobody else's, are in the chain."""
    if not writes.receipts:
        return False
    last = writes.receipts[-1]
    found = await statements.select(connection, "receipts", tenant=tenant, after=last.seq - 1, limit=1)
    return [(one.seq, one.hash) for one in map(rows.receipt_of, found)] == [(last.seq, last.hash)]


async def _put_lines(
    connection: Connection, tenant: str, record_ids: Sequence[str], standing: Standing
) -> None:
    found = await statements.select(connection, "log_ends", tenant=tenant, records=list(record_ids))
    rows.put_lines(standing, found)


async def _standing(connection: Connection, tenant: str, question: Question) -> Standing:
    end = await statements.first(connection, "receipt_end", tenant=tenant)
    head = await statements.first(connection, "lending_head", tenant=tenant)
    grant, disclosed = None, list[Row]()
    wanted = list(question.record_ids)
    if question.grant_id is not None:
        grant = await statements.first(connection, "lent_grant", tenant=tenant, id=question.grant_id)
        if wanted:
            disclosed = await statements.select(
                connection, "lent_among", tenant=tenant, grant_id=question.grant_id, records=wanted
            )
    replayed: set[str] = set()
    for name in question.once:
        if await statements.first(connection, "used_proof", tenant=tenant, id=name, now=question.now):
            replayed.add(name)
    known, key = None, question.key
    if key is not None:
        found = await answers(connection, tenant, [(key.principal, key.operation, key.key)])
        known = answered(found, key, question.now)
    erasure = None
    if question.erasure_id is not None:
        erasure = await statements.first(connection, "erasure", tenant=tenant, id=question.erasure_id)
    standing = Standing(
        **rows.standing_values(end, head),
        answered=None if known is None else known.replayed,
        erasure=None if erasure is None else rows.erasure_of(erasure),
        grant=None if grant is None else rows.grant_of(grant),
        disclosed=frozenset(row[0] for row in disclosed),
        replayed=frozenset(replayed),
    )
    if wanted:
        await _put_lines(connection, tenant, wanted, standing)
    return standing


async def _write(
    connection: Connection, tenant: str, question: Question, writes: Writes, sweeps: rows.Sweeps
) -> None:
    for grant in writes.grants:
        moves = rows.grant_moves(grant)
        if not await statements.run(connection, "move_grant", tenant=tenant, id=grant.id, **moves):
            await statements.run(connection, "keep_grant", tenant=tenant, **rows.grant_values(grant))
    for record_id in writes.shown:
        values = {"grant_id": question.grant_id, "record_id": record_id, "at": question.now}
        await statements.run(connection, "add_lent_item", tenant=tenant, **values)
    for line in writes.lines:
        await statements.run(connection, "add_log_line", tenant=tenant, **rows.line_values(line))
    for receipt in writes.receipts:
        await statements.run(connection, "add_receipt", tenant=tenant, **rows.receipt_values(receipt))
    if writes.erasure is not None:
        await statements.run(connection, "keep_erasure", tenant=tenant, **rows.erasure_values(writes.erasure))
    for step in writes.steps:
        await statements.run(connection, "keep_cascade_step", tenant=tenant, **rows.step_values(step))
    if question.once and writes.once_until is not None:
        if sweeps.is_due(tenant, question.now):
            await statements.run(connection, "drop_used_proofs", tenant=tenant, now=question.now)
        for name in question.once:
            # The lock is held: nobody else has used it since `_standing` looked.
            await statements.run(connection, "use_proof", tenant=tenant, id=name, until=writes.once_until)
    if writes.kept is not None:
        values = rows.answer_values(writes.kept, writes.kept_at)
        await statements.run(connection, "keep_answer", tenant=tenant, **values)
