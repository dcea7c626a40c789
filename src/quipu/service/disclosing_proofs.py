"""What proves an item: its log, brought up to date when it is first shown, and the signed block that it carries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from quipu.errors import InternalError
from quipu.model.disclosure import LogKind, LogLine
from quipu.model.record import Record
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants_items, receipts
from quipu.rules.receipts import Hand
from quipu.service.disclosing_coverage import Seen
from quipu.service.lending import lending_parts

_KEPT = 20_000
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Line:
    """A line that an item's state log still lacks."""

    version: int
    op: str
    at: int
    state: str
    receipt_id: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """The signed block that an item carries, and the canonical bytes of that member."""

    told: dict[str, Any]
    spelt: bytes


class Proofs:
    """Logs and integrity blocks of one ledger's items."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._blocks: OrderedDict[tuple[Any, ...], Block] = OrderedDict()
        #: The line that says what an item shows now; hashing it is the dearest part of showing it.
        self._lines: OrderedDict[tuple[Any, ...], Line] = OrderedDict()
        #: Up to which version an item's log is known to reach.
        self._reached: OrderedDict[tuple[str, str], int] = OrderedDict()

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    def forget(self) -> None:
        """After an erasure no proof of anything stays in memory."""
        self._blocks.clear()
        self._lines.clear()
        self._reached.clear()

    def reached(self, shown: Iterable[Seen]) -> None:
        """These have been shown, and so their logs are up to date."""
        for seen in shown:
            _keep(self._reached, (seen.record.tenant, seen.record.id), seen.record.version)

    def brought_up(
        self, seen: Seen, tail: LogLine | None, first: LogLine | None, lines: Sequence[Line]
    ) -> tuple[LogLine, LogLine, list[LogLine]]:
        """The last and the first line of an item's state log, and those that had to be added for that."""
        added: list[LogLine] = []
        for line in lines:
            if tail is not None and (line.version < tail.version or line.state == tail.entry["state"]):
                continue
            named = line if tail is None else replace(line, op="updated")
            tail = self.added(tail, seen.item_id, seen.record.id, named)
            first = first or tail
            added.append(tail)
        if tail is None or first is None:
            raise InternalError("An item without a log was to be shown.", reason="ledger")
        return tail, first, added

    def block(self, seen: Seen, tail: LogLine, first: LogLine, hand: Hand, *, includes_proof: bool) -> Block:
        """The block of an item as it is shown: kept under all that it follows from, the key that signs it included."""
        own, left = self._own, seen.projected
        key = (seen.record.tenant, seen.record.id, seen.record.version, tail.hash, hand.kid, left.redacted)
        key = (*key, left.removed, includes_proof)
        known = self._blocks.get(key)
        if known is None:
            salt = grants_items.salt_of(seen.record)
            proof = None
            if includes_proof:
                at = seen.record.updated_at // 1000
                proof = own.prove(seen.item, left.item, seen.record.salt, hand, at)
            told = receipts.integrity(
                item_id=seen.item_id,
                capture_hash=str(first.entry["state"]),
                state=self._line(seen).state,
                salt=None if left.is_altered else salt,
                log_length=tail.seq,
                log_head=tail.hash,
                redacted=left.redacted,
                is_altered=left.is_altered,
                hand=hand,
                canonical=self._parts.canonical,
                sd_jwt=proof,
            )
            known = Block(told, receipts.spelt_member("integrity", self._parts.canonical(told)))
            _keep(self._blocks, key, known)
        return known

    def added(self, tail: LogLine | None, item_id: str, record_id: str, line: Line) -> LogLine:
        return receipts.log_line(
            tail,
            record_id=record_id,
            item_id=item_id,
            log=LogKind.STATE,
            version=line.version,
            op=line.op,
            at=line.at,
            actor=self._own.keyring.did(None),
            state=line.state,
            receipt_id=line.receipt_id,
            canonical=self._parts.canonical,
        )

    async def missing(self, tenant: str, shown: Sequence[Seen]) -> dict[str, Sequence[Line]]:
        """What each item's state log may lack up to the version that is shown. Whether it does is decided later."""
        missing: dict[str, Sequence[Line]] = {}
        behind: list[Seen] = []
        for seen in shown:
            record = seen.record
            missing[record.id] = [self._line(seen)]
            if record.version > max(1, self._reached.get((tenant, record.id), 0)):
                behind.append(seen)
        tails = (
            await self._parts.ledger.lending.tails(tenant, [one.record.id for one in behind])
            if behind
            else {}
        )
        for seen in behind:
            record, tail = seen.record, tails.get(seen.record.id)
            if tail is None or tail.version < record.version:
                before = await self._parts.ledger.versions(tenant, record.id)
                missing[record.id] = [
                    *(
                        self._line_of(one, self._item_of(one, seen))
                        for one in before
                        if one.version < record.version and (tail is None or one.version >= tail.version)
                    ),
                    self._line(seen),
                ]
        return missing

    def _line(self, seen: Seen) -> Line:
        record = seen.record
        key = (record.tenant, record.id, record.version, str(seen.item.get("embedding")))
        known = self._lines.get(key)
        if known is None:
            known = self._line_of(record, seen.item)
            _keep(self._lines, key, known)
        return known

    @staticmethod
    def _item_of(version: Record, seen: Seen) -> dict[str, Any]:
        """An earlier version of an item."""
        told = seen.item.get("embedding")
        space = None if told is None else grants_items.Space(told["model"], told["dimensions"])
        return {} if version.is_emptied else grants_items.item_of(version, seen.item["owner_did"], space)

    def _line_of(self, version: Record, item: dict[str, Any]) -> Line:
        if version.is_emptied:
            state = f"sha256:{version.digest}"
        else:
            state = receipts.state_hash(item, grants_items.salt_of(version), self._parts.canonical)
        first = "captured" if version.provenance.import_id is None else "imported"
        receipt = None if version.is_emptied else grants_items.source_receipt(version)
        op, at = (first, version.created_at) if version.version == 1 else ("updated", version.updated_at)
        return Line(version.version, op, at, state, receipt if version.version == 1 else None)


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
