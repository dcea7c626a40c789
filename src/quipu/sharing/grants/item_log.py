"""The log of an item that is shared: which entries it lacks when it is shown, and the signed block that it carries.

A log begins when the item is first shown. It holds what the item was by then, version by version, as salted hashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.jose import Signatory
from quipu.ledger.commit import Keep
from quipu.ledger.index import Space
from quipu.ledger.reader import Reader
from quipu.model.record import Record
from quipu.sharing import receipts
from quipu.sharing.grants.view import CoveredItem
from quipu.sharing.items import item_of, salt_of, source_receipt
from quipu.sharing.model import ITEM_LOG, ItemLogEntry, LogOp


@dataclass(frozen=True, slots=True)
class ItemLog:
    """An item's log up to the version that is shown, and those of its entries that are not kept yet."""

    first: ItemLogEntry
    last: ItemLogEntry
    state: str
    added: tuple[ItemLogEntry, ...] = ()

    @property
    def changes(self) -> list[Keep]:
        """What appends the new entries: nobody else's may stand there."""
        return [Keep(ITEM_LOG, entry, 0) for entry in self.added]

    def block(self, shared: CoveredItem, by: Signatory, *, has_salt: bool = True) -> dict[str, Any]:
        """The integrity block of the item as it is shown."""
        shown = shared.shown
        return receipts.integrity(
            item_id=shared.id,
            capture_hash=str(self.first.entry["state"]),
            state=self.state,
            salt=salt_of(shared.record) if has_salt and not shown.is_altered else None,
            log_length=self.last.number,
            log_head=self.last.hash,
            redacted=shown.redacted,
            is_altered=shown.is_altered,
            by=by,
        )


def entries_of(reader: Reader, record_ids: Sequence[str]) -> Mapping[str, list[ItemLogEntry]]:
    """The logs of some records, each in order; those that have none are not there."""
    found: dict[str, list[ItemLogEntry]] = {}
    for row in reader.matching(ITEM_LOG, "record_id", record_ids):
        found.setdefault(row.value.record_id, []).append(row.value)
    for entries in found.values():
        entries.sort(key=lambda entry: entry.number)
    return found


def is_deleted(entries: Sequence[ItemLogEntry]) -> bool:
    """Whether the item was erased: it is not shown any more, not even by an answer that is under way."""
    return bool(entries) and entries[-1].entry["op"] == "deleted"


def brought_up(
    reader: Reader, shared: CoveredItem, entries: Sequence[ItemLogEntry], *, actor: str, space: Space | None
) -> ItemLog:
    """The log as it must be when the item is shown. Versions that came and went unseen have their entries too."""
    record = shared.record
    state = receipts.state_hash(shared.item, salt_of(record))
    last = entries[-1] if entries else None
    if last is not None and last.version == record.version and last.entry["state"] == state:
        return ItemLog(entries[0], last, state)
    since = 0 if last is None else last.version
    before = reader.versions(record.id) if record.version > since + 1 else ()
    owner = str(shared.item["owner_did"])
    added: list[ItemLogEntry] = []
    for version in (*(one for one in before if since < one.version < record.version), record):
        last = receipts.log_entry(
            last,
            record_id=record.id,
            item_id=shared.id,
            version=version.version,
            op=_op(version, is_first=last is None),
            at=version.created_at if version.version == 1 else version.updated_at,
            actor=actor,
            state=state if version is record else _state(version, owner, space),
            receipt_id=source_receipt(version) if version.version == 1 and not version.is_emptied else None,
        )
        added.append(last)
    assert last is not None
    return ItemLog(entries[0] if entries else added[0], last, state, tuple(added))


def deleted(entries: Sequence[ItemLogEntry], *, at: int, actor: str) -> ItemLogEntry:
    """The entry that ends a log, which outlives what it speaks of."""
    last = entries[-1]
    return receipts.log_entry(
        last,
        record_id=last.record_id,
        item_id=str(last.entry["item_id"]),
        version=last.version,
        op="deleted",
        at=at,
        actor=actor,
        state=None,
    )


def _op(version: Record, *, is_first: bool) -> LogOp:
    if not is_first or version.version > 1:
        return "updated"
    return "captured" if version.provenance.import_id is None else "imported"


def _state(version: Record, owner: str, space: Space | None) -> str:
    """Of a version that lost what it said, the digest that the journal names."""
    if version.is_emptied:
        return f"sha256:{version.digest}"
    return receipts.state_hash(item_of(version, owner, space), salt_of(version))
