"""Whose imports brought what: a file changes memories only where the same owner's file brought them."""

import hashlib
from dataclasses import dataclass, field

from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.model.record import Record
from quipu.transfer.model import IMPORTS

_PAGE = 1_000


def owner_mark(owner: str) -> str:
    """What is kept of an owner: enough to know them again."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True, kw_only=True)
class ImportsOfOwner:
    """The imports of one owner whose signature was good; looked up when first asked for."""

    ledger: Ledger
    tenant: str
    owner: str
    #: The import that asks.
    import_id: str
    _ids: set[str] | None = field(default=None, init=False)

    async def brought(self, record: Record) -> bool:
        """Whether the memory is still as a file of this owner brought it. Any change here makes it ours."""
        name = record.provenance.import_id
        if name is None or name == self.import_id:
            return name is not None
        return name in await self._known()

    async def took(self, record: Record) -> bool:
        """Whether the memory was forgotten because a file of this owner said so."""
        if record.died is None or record.is_emptied:
            return False
        query = JournalQuery(after=record.died - 1, before=record.died + 1, limit=1)
        entries = await self.ledger.entries(self.tenant, query)
        name = entries[0].detail.get("import_id") if entries and entries[0].op == "forget" else None
        return name is not None and (name == self.import_id or name in await self._known())

    async def _known(self) -> set[str]:
        if self._ids is None:
            rows = await self.ledger.page(
                IMPORTS, self.tenant, {"owner": owner_mark(self.owner)}, limit=_PAGE
            )
            self._ids = {row.id for row in rows}
        return self._ids
