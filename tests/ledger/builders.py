"""Records and commits, short to write."""

from typing import Any

from quipu.ledger.commit import Change, Commit, Put
from quipu.ledger.digests import entry_hash, record_digest, row_digest
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.table import Table
from quipu.model.journal import GENESIS, Draft
from quipu.model.record import Provenance, Record

T = "acme"


def record(record_id: str = "mem_1", content: str = "Ana lives in Lisbon", **fields: Any) -> Record:
    given: dict[str, Any] = {
        "version": 1,
        "store_id": "ms_1",
        "agent_id": "agent",
        "type": "semantic",
        "provenance": Provenance(written_by="tester"),
        "created_at": 1000,
        "updated_at": 1000,
    }
    return Record(id=record_id, content=content, **{**given, **fields})


def put(
    record_id: str = "mem_1", content: str = "Ana lives in Lisbon", expects: int = 0, **fields: Any
) -> Put:
    options = {
        name: fields.pop(name)
        for name in ("must_stand", "vector", "model", "terms", "keeps_index")
        if name in fields
    }
    return Put(record=record(record_id, content, **fields), expects=expects, **options)


def commit(*changes: Change, op: str = "remember", at: int = 1000, tenant: str = T, **fields: Any) -> Commit:
    detail = fields.pop("detail", {})
    draft = Draft(op=op, actor="tester", at=at, store="ms_1", agent="agent", detail=detail)
    return Commit(tenant=tenant, draft=draft, changes=changes, **fields)


async def faults(ledger: Ledger, tenant: str = T) -> list[str]:
    """What is not as it was written: a small verifier of its own, so that the ledger is not its own judge."""
    found: list[str] = []
    prev, seq, at = GENESIS, 0, 0
    versions: dict[tuple[str, int], str] = {}
    side: dict[tuple[str, tuple[Any, ...]], tuple[str | None, int]] = {}
    while entries := await ledger.entries(tenant, JournalQuery(after=seq)):
        for entry in entries:
            if (
                entry.seq != seq + 1
                or entry.at < at
                or entry.prev != prev
                or entry_hash(tenant, entry) != entry.hash
            ):
                found.append(f"entry {entry.seq}")
            prev, seq, at = entry.hash, entry.seq, entry.at
            versions.update({(one.id, one.version): one.digest for one in entry.records})
            for table, key, digest in entry.detail.get("side", ()):
                side[table, tuple(key)] = (digest, entry.seq)
    head = await ledger.head(tenant)
    if (head.seq, head.hash) != (seq, prev):
        found.append("head")
    async for version in ledger.every_version(tenant):
        key = (version.id, version.version)
        if versions.get(key) != version.digest:
            found.append(f"{key} is not mentioned")
        elif not version.is_emptied and record_digest(version, version.salt).hex() != version.digest:
            found.append(f"{key} is altered")
    for table in ledger.tables:
        found += await _side_faults(ledger, tenant, table, side)
    return found


async def _side_faults(ledger: Ledger, tenant: str, table: Table[Any], side: dict[Any, Any]) -> list[str]:
    found: list[str] = []
    missing = {key for (name, key), (digest, _) in side.items() if name == table.name and digest is not None}
    if not table.is_journaled:
        return []
    async for value, salt, digest, seq in ledger.side_rows(tenant, table):
        key = table.key_of(value)
        missing.discard(key)
        is_whole = salt is None or row_digest(table.row(value), salt) == digest
        if side.get((table.name, key)) != (digest.hex(), seq) or not is_whole:
            found.append(f"{table.name} {key}")
    return found + [f"{table.name} {key} is missing" for key in sorted(missing)]
