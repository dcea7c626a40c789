"""What a PostgreSQL ledger knows of its mirrors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from quipu.ledger import mirrored as rows
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import transaction
from quipu.ledger.rows import Row
from quipu.model.search import Scope
from quipu.ports.backend import Container
from quipu.ports.outbox import Intent, Mirrored, Settlement, Standing

T = TypeVar("T")


class _Running(Protocol):
    def __call__(self, work: Callable[[Connection], Awaitable[T]]) -> Awaitable[T]: ...


class PostgresOutbox:
    """On connections of the ledger's pool."""

    def __init__(self, run: _Running) -> None:
        self._run = run

    async def _select(self, statement: str, /, **values: Any) -> list[Row]:
        return await self._run(lambda connection: statements.select(connection, statement, **values))

    async def _do(self, *steps: tuple[str, Mapping[str, Any]]) -> None:
        """All of them, in one transaction."""

        async def work(connection: Connection) -> None:
            async with transaction(connection):
                for statement, values in steps:
                    await statements.execute(connection, statement, values)

        await self._run(work)

    async def register(self, tenant: str, mirror: str, *, is_written: bool) -> None:
        # In the tenant's turn: a commit that has seen no mirror has ended before the mirror is filled from what is there.
        await self._do(
            ("lock_head", {"tenant": tenant}),
            ("register_mirror", {"tenant": tenant, "name": mirror, "writes": int(is_written)}),
        )

    async def drop(self, tenant: str, mirror: str) -> None:
        named = {"tenant": tenant, "name": mirror}
        await self._do(("drop_mirror", named), ("drop_intents", named), ("drop_mirrored", named))

    async def claim(self, tenant: str, mirror: str, holder: str, now: int, until: int) -> bool:
        found = await self._select(
            "claim_mirror", tenant=tenant, name=mirror, holder=holder, now=now, until=until
        )
        return bool(found)

    async def intents(self, tenant: str, mirror: str, now: int, limit: int) -> Sequence[Intent]:
        found = await self._select("intents", tenant=tenant, name=mirror, now=now, limit=limit)
        return [rows.intent_of(row) for row in found]

    async def revive(self, tenant: str, mirror: str) -> None:
        await self._do(("revive_intents", {"tenant": tenant, "name": mirror}))

    async def sending(self, tenant: str, mirror: str, copies: Sequence[Mirrored]) -> None:
        await self._do(*(("keep_mirrored", rows.mirrored_values(tenant, mirror, copy)) for copy in copies))

    async def settle(self, tenant: str, mirror: str, settlement: Settlement) -> None:
        named = {"tenant": tenant, "name": mirror}
        noted = {"succeeded_at": settlement.succeeded_at, "error": settlement.error}
        await self._do(
            *(("keep_mirrored", rows.mirrored_values(tenant, mirror, copy)) for copy in settlement.kept),
            *(("end_mirrored", {**named, "record_id": name}) for name in settlement.gone),
            *(("end_intent", {**named, "seq": seq}) for seq in settlement.done),
            *(("retry_intent", rows.retry_values(tenant, mirror, retry)) for retry in settlement.retries),
            ("note_mirror", {**named, **noted}),
        )

    async def mirrored(self, tenant: str, mirror: str, record_ids: Sequence[str]) -> Mapping[str, Mirrored]:
        found = await self._select("mirrored", tenant=tenant, name=mirror, ids=list(record_ids))
        return {row[0]: rows.mirrored_of(tenant, row) for row in found}

    async def mirrored_as(
        self, tenant: str, mirror: str, native_ids: Sequence[str]
    ) -> Mapping[str, Mirrored]:
        found = await self._select("mirrored_as", tenant=tenant, name=mirror, ids=list(native_ids))
        return {row[1]: rows.mirrored_of(tenant, row) for row in found}

    async def elsewhere(self, tenant: str, mirror: str, native_ids: Sequence[str]) -> frozenset[str]:
        found = await self._select("mirrored_elsewhere", tenant=tenant, name=mirror, ids=list(native_ids))
        return frozenset(row[0] for row in found)

    async def page(self, tenant: str, mirror: str, after: str, limit: int) -> Sequence[Mirrored]:
        found = await self._select("mirrored_page", tenant=tenant, name=mirror, after=after, limit=limit)
        return [rows.mirrored_of(tenant, row) for row in found]

    async def containers(self, scope: Scope, mirror: str, limit: int) -> Sequence[Container]:
        found = await self._select(
            "mirror_containers",
            tenant=scope.tenant,
            name=mirror,
            agent_id=scope.agent_id,
            store_id=scope.store_id,
            user_id=scope.user_id,
            limit=limit,
        )
        return [rows.container_of(scope.tenant, row) for row in found]

    async def standings(self, tenant: str) -> Sequence[Standing]:
        return [rows.standing_of(row) for row in await self._select("mirror_standings", tenant=tenant)]

    async def note_drift(self, tenant: str, mirror: str, count: int) -> None:
        await self._do(("note_drift", {"tenant": tenant, "name": mirror, "count": count}))

    async def note_fill(self, tenant: str, mirror: str, below: str | None, *, is_filled: bool) -> None:
        values = {"tenant": tenant, "name": mirror, "below": below, "filled": int(is_filled)}
        await self._do(("fill_mirror", values))
