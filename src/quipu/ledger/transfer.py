"""Moving a whole ledger into another one, row for row: history, chain, checkpoints, vectors, credentials and all.

1. Rows are read at one moment and written in one transaction: the target has everything or nothing.
2. A target that holds a tenant already is refused.
3. Before the target is committed it is read back: every chain is walked, every digest computed, every row counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, Protocol

from quipu.errors import ConflictError, TamperedError
from quipu.ledger import rows
from quipu.ledger.rows import Row
from quipu.ports.surroundings import Canonical
from quipu.rules import chain


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it travels: its columns, and the order in which its rows do."""

    columns: tuple[LiteralString, ...]
    order: tuple[LiteralString, ...]


_KEY: tuple[LiteralString, ...] = ("principal", "operation", "key")

#: In an order in which each needs only those before it. `vector` travels as tenant, row, space, bytes.
TABLES: Mapping[LiteralString, Table] = {
    "tenant": Table(
        (
            "tenant", "created_at", "seq", "hash", "at", "changed", "horizon", "space", "refilled", "suspended_at",
            "guarded", "rules", "ahead", "terms",
        ),
        ("tenant",),
    ),
    "space": Table(("tenant", "number", "model", "dimensions"), ("number",)),
    "store": Table(
        ("tenant", "id", "name", "scope", "tier", "namespace", "description", "created_at"), ("id",)
    ),
    "record": Table(rows.COLUMNS, ("row",)),
    "vector": Table(("tenant", "row", "space", "data"), ("row",)),
    "link": Table(
        ("tenant", "from_id", "to_id", "rel", "born", "died"), ("from_id", "to_id", "rel", "born")
    ),
    "mark": Table(("tenant", "id", "last_recalled_at", "recall_count", "demoted", "changed"), ("id",)),
    "journal": Table(
        (
            "tenant", "seq", "at", "actor", "op", "store", "agent", "run", "node", "records", "detail", "prev", "hash",
        ),
        ("seq",),
    ),
    "reason": Table(("tenant", "record_id", "seq", "text"), ("record_id", "seq")),
    "checkpoint": Table(("tenant", "seq", "hash", "at", "key_id", "signature"), ("seq",)),
    "answer": Table(("tenant", *_KEY, "fingerprint", "answer", "at", "seq"), _KEY),
    "answer_record": Table(("tenant", "record_id", *_KEY), ("record_id", *_KEY)),
    "proposal": Table(
        (
            "tenant", "id", "operation", "agent_id", "record_id", "request", "writer", "held_by", "status",
            "created_at", "lapses_at", "reviewer", "reviewed_at", "reason", "approvals", "given", "because", "salt",
            "traits",
        ),
        ("id",),
    ),
    "outbox": Table(
        ("tenant", "mirror", "seq", "status", "attempts", "next_at", "error"), ("mirror", "seq")
    ),
    "mirror": Table(
        (
            "tenant", "name", "writes", "filled", "fill_below", "holder", "held_until", "succeeded_at", "error", "drift",
        ),
        ("name",),
    ),
    "mirrored": Table(
        (
            "tenant", "mirror", "record_id", "native_id", "version", "store_id", "agent_id", "user_id", "state",
        ),
        ("mirror", "record_id"),
    ),
    "token": Table(
        (
            "tenant", "id", "digest", "name", "prefix", "permissions", "agents", "user_id", "created_at",
            "created_by", "expires_at", "revoked_at", "rate", "recall_budget", "review_stores", "review_operations",
        ),
        ("id",),
    ),
    "secret": Table(("tenant", "id", "label", "run_id", "created_at", "created_by", "sealed"), ("id",)),
    "lent_grant": Table(
        (
            "tenant", "id", "hash", "body", "grantee", "status", "registered_at", "expires_at", "revoked_at", "uses",
            "disclosed",
        ),
        ("id",),
    ),
    "lent_item": Table(("tenant", "grant_id", "record_id", "at"), ("grant_id", "record_id")),
    "item_log": Table(
        ("tenant", "record_id", "log", "seq", "version", "entry", "hash"), ("record_id", "log", "seq")
    ),
    "receipt": Table(
        ("tenant", "seq", "id", "type", "agent", "grant_id", "at", "body", "hash"), ("seq",)
    ),
    "erasure": Table(
        ("tenant", "id", "step", "requested_at", "completed_at", "request", "receipt"), ("id",)
    ),
    "cascade_step": Table(
        (
            "tenant", "erasure_id", "grantee", "grant_id", "item_ids", "status", "attempts", "next_at", "receipt",
        ),
        ("erasure_id", "grantee", "grant_id"),
    ),
    "held_item": Table(
        ("tenant", "source", "grant_id", "item_id", "item", "receipt_id", "received_at", "expires_at"),
        ("source", "grant_id", "item_id"),
    ),
    "used_proof": Table(("tenant", "id", "until"), ("id",)),
    "task_step": Table(
        ("tenant", "task_id", "number", "state", "at", "detail"), ("task_id", "number")
    ),
    "run": Table(
        (
            "tenant", "id", "workflow_id", "status", "driver", "position", "taken_at", "authority", "inputs",
            "configurable", "metadata", "tags", "agent", "secrets", "worker", "lease_until", "last", "source_run_id",
            "from_seq", "mode", "created_at", "ended_at", "error", "expired",
        ),
        ("id",),
    ),
    "run_event": Table(
        ("tenant", "run_id", "sequence", "type", "node_id", "payload", "at", "causation_id", "position"),
        ("run_id", "sequence"),
    ),
    "run_variable": Table(
        ("tenant", "run_id", "name", "sequence", "value"), ("run_id", "name", "sequence")
    ),
    "run_variable_record": Table(
        ("tenant", "record_id", "run_id", "name", "sequence"), ("record_id", "run_id", "name", "sequence")
    ),
    "run_note": Table(("tenant", "run_id", "backend", "position", "text"), ("run_id", "backend", "position")),
    "memory_ref": Table(("tenant", "ref", "agent_id", "store_id", "created_at"), ("ref",)),
    "webhook": Table(
        (
            "tenant", "id", "url", "events", "agents", "with_content", "created_at", "created_by", "sealed", "position",
            "attempts", "next_at", "error", "dropped",
        ),
        ("id",),
    ),
    "dismissal": Table(("tenant", "id", "at", "reviewer"), ("id",)),
}  # fmt: skip


class Tables(Protocol):
    """A ledger as tables, within one transaction."""

    async def tenants(self) -> Sequence[str]: ...

    async def count(self, table: LiteralString, tenant: str) -> int: ...

    def dump(self, table: LiteralString, tenant: str) -> AsyncIterator[Sequence[Row]]:
        """The tenant's rows, some at a time, in the table's order."""
        ...

    async def restore(self, table: LiteralString, tenant: str, page: Sequence[Row]) -> None:
        """Add rows as they were dumped."""
        ...

    async def finish(self, tenant: str) -> None:
        """All of the tenant's rows have been restored."""
        ...


@dataclass(frozen=True, slots=True)
class Copied:
    """What was moved."""

    tenants: int
    rows: int
    records: int
    entries: int


async def copy(
    source: Tables,
    target: Tables,
    canonical: Canonical,
    progress: Callable[[int, int], None] | None = None,
) -> Copied:
    """Everything from one to the other. The caller commits the target when this returns."""
    if await target.tenants():
        raise ConflictError(
            "The target holds memories already.",
            reason="not_empty",
            hint="Choose an empty database or a file that does not exist yet.",
        )
    tenants = await source.tenants()
    counts = {(tenant, table): await source.count(table, tenant) for tenant in tenants for table in TABLES}
    total, done = sum(counts.values()), 0
    for tenant in tenants:
        for table in TABLES:
            async for page in source.dump(table, tenant):
                await target.restore(table, tenant, page)
                done += len(page)
                if progress is not None:
                    progress(done, max(total, done))
        await target.finish(tenant)
    for tenant in tenants:
        for table in TABLES:
            if await target.count(table, tenant) != counts[tenant, table]:
                raise _differs(f"table {table} has another number of rows")
        await _verify(source, target, tenant, canonical)
    if progress is not None:
        progress(total, total)
    return Copied(
        tenants=len(tenants),
        rows=total,
        records=sum(count for (_, table), count in counts.items() if table == "record"),
        entries=sum(count for (_, table), count in counts.items() if table == "journal"),
    )


async def _verify(source: Tables, target: Tables, tenant: str, canonical: Canonical) -> None:
    """Walk the copy's chain, and hold it and every version against what the original said its head was."""
    walk = chain.Walk(canonical)
    async for page in target.dump("journal", tenant):
        walk.follow(rows.entry_or_fault(row) for row in page)
    faults = list(walk.faults)
    async for page in target.dump("record", tenant):
        for row in page:
            faults.extend(chain.version_faults(chain.version_body(rows.record_of(row)), walk))
    faults.extend(chain.missing_faults(walk))
    if faults:
        raise _differs(f"{faults[0].kind} at position {faults[0].seq}")
    for tables in (source, target):
        head = await _head(tables, tenant)
        if head != (walk.seq, bytes.fromhex(walk.hash)):
            raise _differs("the chain does not end where its head says")


async def _head(tables: Tables, tenant: str) -> tuple[Any, Any]:
    columns = TABLES["tenant"].columns
    async for page in tables.dump("tenant", tenant):
        for row in page:
            return row[columns.index("seq")], row[columns.index("hash")]
    return None, None


def _differs(detail: str) -> TamperedError:
    return TamperedError(
        f"The copy does not verify: {detail}. Nothing was kept of it.",
        reason="copy_differs",
        hint="Run `quipu verify` on the original.",
    )
