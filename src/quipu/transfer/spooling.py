"""What goes into a file, spooled while memories are walked through: items, and what their owner takes along with them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from quipu.ledger.index import VersionKey
from quipu.ledger.ledger import Ledger
from quipu.model.record import Record
from quipu.model.store import MAIN, Store
from quipu.sharing.grants.filters import admits
from quipu.sharing.grants.item_log import entries_of
from quipu.sharing.items import item_id, item_of, owners_item
from quipu.sharing.model import RECEIPTS, ItemLogEntry
from quipu.sharing.times import rfc3339
from quipu.transfer.formats import bundle
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import Spool, WrittenVectors, line
from quipu.transfer.model import ExportFileRequest

_PAGE = 1_000


@dataclass(slots=True)
class ContentsSpool:
    """Records come with falling ids, and spools are read from their end."""

    ledger: Ledger
    tenant: str
    owner: str
    request: ExportFileRequest
    loss: Loss
    stores: Mapping[str, Store]
    _opened: ExitStack = field(default_factory=ExitStack)
    items: Spool = field(init=False)
    relations: Spool = field(init=False)
    tombstones: Spool = field(init=False)
    logs: Spool | None = None
    receipts: Spool | None = None
    grants: Spool | None = None
    vectors: WrittenVectors | None = None
    withheld: int = 0
    receipts_head: str | None = None
    _used: set[str] = field(default_factory=set[str])
    _scopes: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.items, self.relations, self.tombstones = (self._spool() for _ in range(3))
        if "logs" in self.request.include:
            self.logs = self._spool()
        if "receipts" in self.request.include:
            self.receipts = self._spool(is_rising=True)
        if "grants" in self.request.include:
            self.grants = self._spool(is_rising=True)

    def _spool(self, *, is_rising: bool = False) -> Spool:
        return self._opened.enter_context(Spool(is_rising=is_rising))

    def close(self) -> None:
        if self.vectors is not None:
            self.vectors.close()
        self._opened.close()

    # -- memories -----------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Before the first record: which vectors there are."""
        space = await self.ledger.space(self.tenant) if "embeddings" in self.request.include else None
        if space is not None:
            self.vectors = WrittenVectors(space.model, space.dimensions)

    async def add(self, records: Sequence[Record]) -> None:
        """Some more, with what belongs to them."""
        kept = [record for record in records if self._is_wanted(record) and self._may_go(record)]
        keys = [(record.id, record.version) for record in kept]
        ids = [record.id for record in kept]
        vectors: Mapping[VersionKey, bytes] = {}
        logs: Mapping[str, Sequence[ItemLogEntry]] = {}
        if self.vectors is not None:
            vectors = await self.ledger.vectors(self.tenant, keys)
        if self.logs is not None:
            logs = await self.ledger.read(self.tenant, lambda reader: entries_of(reader, ids))
        for record in kept:
            self._add(record, vectors.get((record.id, record.version)), logs.get(record.id, ()))

    def _is_wanted(self, record: Record) -> bool:
        wanted = self.request.item_filter
        return wanted is None or admits(wanted, item_of(record, self.owner))

    def _may_go(self, record: Record) -> bool:
        """What is marked as not exportable goes along only where its owner says so, and into a bundle only."""
        if record.metadata.get("exportable") is not False or "non_exportable" in self.request.include:
            return True
        self.withheld += 1
        return False

    def _add(self, record: Record, vector: bytes | None, log: Sequence[ItemLogEntry]) -> None:
        store = self.stores.get(record.store_id)
        item = owners_item(record, self.owner, MAIN if store is None else store.name)
        if store is not None and store.name != MAIN:
            self._used.add(store.name)
        self._scopes.add(item["scope_id"])
        self.items.add(line(item, self.loss))
        if self.vectors is not None and vector is not None:
            self.vectors.add(item["item_id"], vector)
        if self.logs is not None:
            for entry in reversed(log):
                self.logs.add(line(entry.entry, self.loss))
        for link in reversed(record.links):
            self.relations.add(line({"from": record.id, "to": link.to, "rel": link.rel}, self.loss))

    def add_tombstone(self, record: Record, at: int) -> None:
        """One that is gone, and when it went; without a word of what it said."""
        body = {"item_id": item_id(record), "hash": record.digest, "deleted_at": rfc3339(at, fraction=True)}
        if body["item_id"] != record.id:
            body["id"] = record.id
        self.tombstones.add(line(body, self.loss))

    # -- proofs ---------------------------------------------------------------------------------------------------------

    async def finish(self, grants: Sequence[Mapping[str, Any]]) -> None:
        """After the last record: what is not of any one of them."""
        if self.grants is not None:
            for grant in grants:
                self.grants.add(line(grant, self.loss))
        after: tuple[int] | None = None
        while self.receipts is not None:
            page = await self.ledger.page(RECEIPTS, self.tenant, after=after, limit=_PAGE)
            for receipt in page:
                self.receipts.add(line(receipt.body, self.loss))
                self.receipts_head = receipt.hash
            if len(page) < _PAGE:
                return
            after = (page[-1].number,)

    def files(self) -> dict[str, Spool]:
        """What a bundle holds beside the items, by the name of its file."""
        named = {
            bundle.RELATIONS: self.relations,
            bundle.TOMBSTONES: self.tombstones,
            bundle.LOGS: self.logs,
            bundle.RECEIPTS: self.receipts,
            bundle.GRANTS: self.grants,
        }
        return {name: spool for name, spool in named.items() if spool is not None}

    def told(self) -> dict[str, Any]:
        """What the manifest says of it all."""
        used = (self.stores[name] for name in sorted(self._used))
        told: dict[str, Any] = {"scopes": sorted(self._scopes), "stores": [_store(store) for store in used]}
        if self.receipts_head is not None:
            told["receipts_head"] = self.receipts_head
        if self.vectors is not None:
            model, dimensions = self.vectors.model, self.vectors.dimensions
            told["embedding"] = {"model": model, "dimensions": dimensions, "dtype": "f32le"}
        return told


def _store(store: Store) -> dict[str, str]:
    told = {
        "name": store.name,
        "scope": store.scope,
        "tier": store.tier,
        "namespace": store.namespace,
        "description": store.description,
    }
    return {name: value for name, value in told.items() if value is not None}
