"""Whose imports brought what: a file acts on records only where the same owner's file brought them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from quipu.model.journal import Entry, Op
from quipu.model.record import Record
from quipu.ports.parts import Parts

_PAGE = 1_000


def owner_mark(owner: str) -> str:
    """What the journal keeps of an owner: enough to know them again."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Passage:
    """What an entry of the journal says of all that it did."""

    op: Op
    at: int
    import_id: str | None


class Passages:
    """Looks up entries; one may have made or ended hundreds of records, and is read once for all of them."""

    def __init__(self, parts: Parts, tenant: str) -> None:
        self._parts, self._tenant = parts, tenant
        self._known: dict[int, Passage | None] = {}

    async def at(self, seq: int) -> Passage | None:
        """The entry at a position; None where it is not told any more."""
        if seq not in self._known:
            if len(self._known) >= _PAGE:
                self._known.clear()
            entries = await self._parts.ledger.entries(self._tenant, seq - 1, 1)
            self._known[seq] = _passage(entries[0]) if entries else None
        return self._known[seq]


def _passage(entry: Entry) -> Passage:
    name = entry.detail.get("import_id")
    return Passage(entry.op, entry.at, name if isinstance(name, str) else None)


class Kin:
    """The imports of one proven owner, as the journal's receipts tell them; looked up when first asked for."""

    def __init__(self, parts: Parts, tenant: str, owner: str, import_id: str) -> None:
        self._parts, self._tenant, self._mark = parts, tenant, owner_mark(owner)
        self._own, self._passages = import_id, Passages(parts, tenant)
        self._ids: set[str] | None = None

    async def brought(self, record: Record) -> bool:
        """Whether the record is still as a file of this owner brought it. Any change here makes it ours."""
        name = record.provenance.import_id
        if name is None or name == self._own:
            return name is not None
        return name in await self._known()

    async def took(self, record: Record) -> bool:
        """Whether the record was forgotten because a file of this owner said so."""
        if record.died is None or record.is_emptied:
            return False
        passage = await self._passages.at(record.died)
        name = passage.import_id if passage is not None and passage.op is Op.FORGET else None
        return name is not None and name in await self._known()

    async def _known(self) -> set[str]:
        if self._ids is None:
            self._ids = await self._found()
        return self._ids

    async def _found(self) -> set[str]:
        found: set[str] = set()
        after = 0
        while page := await self._parts.ledger.entries(self._tenant, after, _PAGE):
            for entry in page:
                if entry.op is Op.IMPORT and entry.detail.get("owner") == self._mark:
                    found.add(str(entry.detail.get("import_id")))
            after = page[-1].seq
        return found


class Planted:
    """Tombstones that an import brought of what was never here; one that was undone holds nothing back any more."""

    def __init__(self, parts: Parts, tenant: str) -> None:
        self._parts, self._tenant, self._passages = parts, tenant, Passages(parts, tenant)
        self._undone: dict[str, bool] = {}

    async def is_undone(self, record: Record) -> bool:
        """Whether the record is such a tombstone, and its import was undone."""
        if not is_planted(record):
            return False
        passage = await self._passages.at(record.born)
        name = None if passage is None else passage.import_id
        if name is None:
            return False
        if name not in self._undone:
            self._undone[name] = await self._last_undone(name, record.born)
        return self._undone[name]

    async def _last_undone(self, import_id: str, after: int) -> bool:
        """Whether undoing is the last that happened to an import; the same file may have come again."""
        is_undone = False
        while page := await self._parts.ledger.entries(self._tenant, after, _PAGE):
            for entry in page:
                if entry.detail.get("import_id") == import_id:
                    is_undone = bool(entry.detail.get("rollback"))
            after = page[-1].seq
        return is_undone


def is_planted(record: Record) -> bool:
    """Whether it was born erased."""
    return record.is_emptied and record.born > 0 and record.born == record.died
