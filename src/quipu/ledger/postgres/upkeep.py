"""What an operator does to the database as a whole, and the vector spaces it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quipu.errors import ConflictError, InvalidError
from quipu.ledger import rows
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.tables import TABLES
from quipu.ledger.postgres.turn import Job, Turn
from quipu.ledger.postgres.types import Vector
from quipu.model.change import Commit
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.ports.ledger import Space


async def space(connection: Connection, tenant: str) -> Space | None:
    """The space recall searches in."""
    head = await statements.first(connection, "head", tenant=tenant)
    return None if head is None or head[8] is None else Space(model=head[8], dimensions=head[6])


async def settle_space(turn: Turn, wanted: Space) -> Space:
    """Search in this space unless another is in use already; returns the one in use."""
    if (settled := await space(turn.connection, turn.working.tenant)) is not None:
        return settled
    await adopt_space(turn, wanted)
    return wanted


async def adopt_space(turn: Turn, wanted: Space) -> None:
    """Search in this space from now on; vectors of the former one go."""
    former, tenant = turn.working.head.space, turn.working.tenant
    number = await _number(turn, wanted)
    await statements.run(turn.connection, "choose_space", tenant=tenant, space=number)
    if former is not None and former != number:
        await _drop_space(turn, former)


async def _number(turn: Turn, wanted: Space) -> int:
    """The number of a space; a new one gets a place that does not clash with the one in use."""
    connection, tenant, active = turn.connection, turn.working.tenant, turn.working.head.space
    known = await statements.select(connection, "spaces", tenant=tenant)
    for number, model, dimensions in known:
        if (model, dimensions) == (wanted.model, wanted.dimensions):
            return number
    # Only two spaces exist at a time: an abandoned half-built one makes room.
    for number, _model, _dimensions in known:
        if number != active:
            await _drop_space(turn, number)
    number = 1 if active is None else active + 1
    await statements.run(
        connection,
        "add_space",
        tenant=tenant,
        number=number,
        model=wanted.model,
        dimensions=wanted.dimensions,
    )
    return number


async def _drop_space(turn: Turn, number: int) -> None:
    tenant = turn.working.tenant
    await statements.run(turn.connection, "drop_space_vectors", tenant=tenant, space=number)
    await statements.run(turn.connection, "drop_space", tenant=tenant, number=number)


async def without_vector(turn: Turn, wanted: Space, limit: int) -> list[Record]:
    """Versions that have no vector in the space yet."""
    number = await _number(turn, wanted)
    missing = await statements.select(
        turn.connection,
        "without_vector",
        tenant=turn.working.tenant,
        space=number,
        dimensions=wanted.dimensions,
        limit=limit,
    )
    return [rows.record_of(row) for row in missing]


async def add_vectors(turn: Turn, wanted: Space, vectors: Sequence[tuple[Record, bytes]]) -> int:
    """Vectors for versions that still are what they were."""
    connection, tenant = turn.connection, turn.working.tenant
    if any(len(data) != 4 * wanted.dimensions for _, data in vectors):
        raise InvalidError.at("/embedding", "embedding_mismatch", "A vector has the wrong dimensions.")
    number = await _number(turn, wanted)
    found = await statements.select(
        connection,
        "row_of",
        tenant=tenant,
        ids=[record.id for record, _ in vectors],
        versions=[record.version for record, _ in vectors],
    )
    row_of: dict[tuple[str, int], int] = {(record_id, version): row for record_id, version, row in found}
    added = 0
    for record, data in vectors:
        row = row_of.get((record.id, record.version))
        if row is not None:
            await statements.execute(connection, "add_vector", (tenant, row, number, Vector(data)))
            added += 1
    await statements.run(connection, "note_refill", tenant=tenant, space=number)
    return added


async def vectors(connection: Connection, tenant: str, records: Sequence[Record]) -> dict[str, bytes]:
    """The vectors of versions in the space in use."""
    head = await statements.first(connection, "head", tenant=tenant)
    found = await statements.select(
        connection,
        "version_vectors",
        tenant=tenant,
        space=None if head is None else head[5],
        ids=[record.id for record in records],
        versions=[record.version for record in records],
    )
    return {row[0]: row[1] for row in found}


async def statistics(connection: Connection, tenant: str) -> Mapping[str, int]:
    """Counts of the tenant's, and the size of all tables."""
    counts: dict[str, int] = {"live": 0, "archived": 0}
    counts.update(
        (state, count) for state, count in await statements.select(connection, "count_records", tenant=tenant)
    )
    head = await statements.first(connection, "head", tenant=tenant)
    counts["versions"] = await statements.scalar(connection, "count_versions", tenant=tenant)
    counts["vectors"] = await statements.scalar(
        connection, "count_vectors", tenant=tenant, space=None if head is None else head[5]
    )
    counts["bytes"] = await statements.scalar(connection, "size", tables=list(TABLES))
    return counts


async def prune(turn: Turn, draft: Draft, horizon: int) -> tuple[int, int]:
    """Empty versions that died at or before the horizon; returns how many, and the position at which."""
    connection, tenant = turn.connection, turn.working.tenant
    if horizon > turn.working.head.seq:
        raise ConflictError("The horizon lies beyond the end of the journal.", reason="horizon")
    await turn.apply(Job([Commit(tenant=tenant, draft=draft)]))
    seq = turn.working.head.seq
    pruned = await statements.run(connection, "prune", tenant=tenant, horizon=horizon, seq=seq)
    await statements.run(connection, "drop_pruned_vectors", tenant=tenant)
    await statements.run(connection, "raise_horizon", tenant=tenant, horizon=horizon, seq=seq)
    return pruned, seq
