"""What a SQLite ledger knows of its mirrors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import apsw

from quipu.ledger import mirrored as rows
from quipu.ledger.rows import Row
from quipu.ledger.sqlite import statements
from quipu.model.search import Scope
from quipu.ports.backend import Container
from quipu.ports.outbox import Intent, Mirrored, Settlement, Standing

T = TypeVar("T")


class _Reading(Protocol):
    def __call__(self, work: Callable[[apsw.Connection, Any], T]) -> Awaitable[T]: ...


class _Writing(Protocol):
    def __call__(self, job: Callable[[apsw.Connection], T]) -> Awaitable[T]: ...


class SqliteOutbox:
    """Reads on the ledger's readers, writes through its writer."""

    def __init__(self, read: _Reading, write: _Writing) -> None:
        self._read, self._write = read, write

    async def register(self, tenant: str, mirror: str, *, is_written: bool) -> None:
        values = {"tenant": tenant, "name": mirror, "writes": int(is_written)}
        await self._write(lambda c: statements.run(c, "register_mirror", **values))

    async def drop(self, tenant: str, mirror: str) -> None:
        def job(connection: apsw.Connection) -> None:
            statements.run(connection, "drop_mirror", tenant=tenant, name=mirror)
            statements.run(connection, "drop_intents", tenant=tenant, name=mirror)
            statements.run(connection, "drop_mirrored", tenant=tenant, name=mirror)

        await self._write(job)

    async def claim(self, tenant: str, mirror: str, holder: str, now: int, until: int) -> bool:
        found = await self._write(
            lambda c: statements.first(
                c, "claim_mirror", tenant=tenant, name=mirror, holder=holder, now=now, until=until
            )
        )
        return found is not None

    async def intents(self, tenant: str, mirror: str, now: int, limit: int) -> Sequence[Intent]:
        found = await self._read(
            lambda c, _: statements.select(c, "intents", tenant=tenant, name=mirror, now=now, limit=limit)
        )
        return [rows.intent_of(row) for row in found]

    async def revive(self, tenant: str, mirror: str) -> None:
        await self._write(lambda c: statements.run(c, "revive_intents", tenant=tenant, name=mirror))

    async def sending(self, tenant: str, mirror: str, copies: Sequence[Mirrored]) -> None:
        def job(connection: apsw.Connection) -> None:
            for copy in copies:
                statements.run(connection, "keep_mirrored", **rows.mirrored_values(tenant, mirror, copy))

        await self._write(job)

    async def settle(self, tenant: str, mirror: str, settlement: Settlement) -> None:
        def job(connection: apsw.Connection) -> None:
            for copy in settlement.kept:
                statements.run(connection, "keep_mirrored", **rows.mirrored_values(tenant, mirror, copy))
            for record_id in settlement.gone:
                statements.run(connection, "end_mirrored", tenant=tenant, name=mirror, record_id=record_id)
            for seq in settlement.done:
                statements.run(connection, "end_intent", tenant=tenant, name=mirror, seq=seq)
            for retry in settlement.retries:
                statements.run(connection, "retry_intent", **rows.retry_values(tenant, mirror, retry))
            statements.run(
                connection,
                "note_mirror",
                tenant=tenant,
                name=mirror,
                succeeded_at=settlement.succeeded_at,
                error=settlement.error,
            )

        await self._write(job)

    async def mirrored(self, tenant: str, mirror: str, record_ids: Sequence[str]) -> Mapping[str, Mirrored]:
        found = await self._each("mirrored", tenant, mirror, record_ids)
        return {row[0]: rows.mirrored_of(tenant, row) for row in found}

    async def mirrored_as(
        self, tenant: str, mirror: str, native_ids: Sequence[str]
    ) -> Mapping[str, Mirrored]:
        found = await self._each("mirrored_as", tenant, mirror, native_ids)
        return {row[1]: rows.mirrored_of(tenant, row) for row in found}

    async def elsewhere(self, tenant: str, mirror: str, native_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(row[0] for row in await self._each("mirrored_elsewhere", tenant, mirror, native_ids))

    async def _each(self, statement: str, tenant: str, mirror: str, ids: Sequence[str]) -> list[Row]:
        def work(connection: apsw.Connection, _: Any) -> list[Row]:
            found: list[Row] = []
            for name in dict.fromkeys(ids):
                found += statements.select(connection, statement, tenant=tenant, name=mirror, id=name)
            return found

        return await self._read(work)

    async def page(self, tenant: str, mirror: str, after: str, limit: int) -> Sequence[Mirrored]:
        found = await self._read(
            lambda c, _: statements.select(
                c, "mirrored_page", tenant=tenant, name=mirror, after=after, limit=limit
            )
        )
        return [rows.mirrored_of(tenant, row) for row in found]

    async def containers(self, scope: Scope, mirror: str, limit: int) -> Sequence[Container]:
        found = await self._read(
            lambda c, _: statements.select(
                c,
                "mirror_containers",
                tenant=scope.tenant,
                name=mirror,
                agent_id=scope.agent_id,
                store_id=scope.store_id,
                user_id=scope.user_id,
                limit=limit,
            )
        )
        return [rows.container_of(scope.tenant, row) for row in found]

    async def standings(self, tenant: str) -> Sequence[Standing]:
        found = await self._read(lambda c, _: statements.select(c, "mirror_standings", tenant=tenant))
        return [rows.standing_of(row) for row in found]

    async def note_drift(self, tenant: str, mirror: str, count: int) -> None:
        values = {"tenant": tenant, "name": mirror, "count": count}
        await self._write(lambda c: statements.run(c, "note_drift", **values))

    async def note_fill(self, tenant: str, mirror: str, below: str | None, *, is_filled: bool) -> None:
        await self._write(
            lambda c: statements.run(
                c, "fill_mirror", tenant=tenant, name=mirror, below=below, filled=int(is_filled)
            )
        )
