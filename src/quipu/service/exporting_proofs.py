"""What an owner takes along beside the items: entities and vectors, and of what was lent grants, receipts and logs (10.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quipu.formats import bundle, values
from quipu.formats.seen import Seen
from quipu.formats.spool import Spool
from quipu.formats.values import Item
from quipu.formats.vectors import Written
from quipu.model.disclosure import LogKind
from quipu.model.moving import FileExport
from quipu.model.moving_formats import Format
from quipu.model.record import Record
from quipu.ports.parts import Parts

_PAGE = 1_000
#: Vectors that are asked for together.
_STRETCH = 200


class Proofs:
    """Spools them while items are walked through."""

    def __init__(self, parts: Parts, tenant: str, request: FileExport) -> None:
        self._parts, self._tenant = parts, tenant
        self._logs = Spool() if request.logs else None
        self._receipts = Spool(is_rising=True) if request.receipts else None
        self._grants = Spool(is_rising=True) if request.grants else None
        self._entities = Spool() if request.format is Format.BUNDLE else None
        self._subjects = Seen()
        self._wants_vectors = request.embeddings
        self._waiting: list[tuple[str, Record]] = []
        self.vectors: Written | None = None
        self.end: str | None = None

    async def begin(self) -> None:
        """Before the first item: which vectors there are."""
        space = await self._parts.ledger.space(self._tenant) if self._wants_vectors else None
        if space is not None:
            self.vectors = Written(space.model, space.dimensions)

    async def item(self, record: Record, item: Item) -> None:
        """What belongs to one more item. Items come with falling ids, and so does all of this."""
        subject = item.get("subject_entity_id")
        if self._entities is not None and subject is not None and self._subjects.add(subject):
            self._entities.add(self._parts.canonical({"entity_id": subject}))
        if self.vectors is not None:
            self._waiting.append((item["item_id"], record))
            if len(self._waiting) == _STRETCH:
                await self._embed(self.vectors)
        if self._logs is None:
            return
        for kind in (LogKind.STATE, LogKind.DISCLOSED):
            lines = await self._parts.ledger.lending.log(self._tenant, record.id, kind)
            for line in reversed(lines):
                self._logs.add(self._parts.canonical({"log": kind.value, **line.entry}))

    async def _embed(self, vectors: Written) -> None:
        """A space that was left meanwhile has no vectors any more: they are made anew where the items come in."""
        waiting, self._waiting = self._waiting, []
        found = await self._parts.ledger.vectors(self._tenant, [record for _, record in waiting])
        for name, record in waiting:
            if record.id in found:
                vectors.add(name, found[record.id])

    async def finish(self) -> None:
        """After the last item: what is not of any one of them."""
        if self.vectors is not None:
            await self._embed(self.vectors)
        if self._grants is not None:
            for line in await self._granted():
                self._grants.add(self._parts.canonical(line))
        after = 0
        while self._receipts is not None:
            page = await self._parts.ledger.lending.receipts(self._tenant, after, _PAGE)
            for receipt in page:
                self._receipts.add(self._parts.canonical(receipt.body))
                after, self.end = receipt.seq, receipt.hash
            if len(page) < _PAGE:
                return

    async def _granted(self) -> Sequence[dict[str, Any]]:
        """Every grant as it was signed, in the order of their ids, and what it is worth now."""
        kept = await self._parts.ledger.lending.grants(self._tenant)
        now = self._parts.clock()
        told: list[dict[str, Any]] = []
        for grant in sorted((one for one in kept if not one.is_request), key=lambda one: one.id):
            line: dict[str, Any] = {
                "grant": grant.body,
                "grant_hash": grant.hash,
                "status": grant.standing(now).value,
                "registered_at": values.moment(grant.registered_at),
                "uses": grant.uses,
                "disclosed": grant.disclosed,
            }
            if grant.revoked_at is not None:
                line["revoked_at"] = values.moment(grant.revoked_at)
            told.append(line)
        return told

    def files(self) -> dict[str, Spool]:
        """What there is of them, by the file that it goes into."""
        named = {
            bundle.ENTITIES: self._entities if self._entities is not None and len(self._entities) else None,
            bundle.LOGS: self._logs,
            bundle.RECEIPTS: self._receipts,
            bundle.GRANTS: self._grants,
        }
        return {name: spool for name, spool in named.items() if spool is not None}

    def told(self) -> dict[str, Any]:
        """What the manifest says of them."""
        told: dict[str, Any] = {} if self.end is None else {"receipts_head": self.end}
        if self.vectors is not None:
            told["embedding"] = {
                "model": self.vectors.model,
                "dimensions": self.vectors.dimensions,
                "dtype": "f32le",
            }
        return told

    def close(self) -> None:
        """Let go of what was spooled."""
        for spool in (self._entities, self._logs, self._receipts, self._grants, self.vectors):
            if spool is not None:
                spool.close()
