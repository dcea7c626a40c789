"""Whether anything was erased while a file was made or sent: what was erased leaves in no file that is not out yet."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.errors import ConflictError
from quipu.model.journal import Head, Op
from quipu.model.record import Record
from quipu.ports.parts import Parts

_ERASING = frozenset({Op.ERASE, Op.DELETE_STORE})
_PAGE = 1_000


class Watch:
    """Follows an owner's journal, whichever process writes it."""

    def __init__(self, parts: Parts, tenant: str, head: Head, ops: frozenset[Op] = _ERASING) -> None:
        self._parts, self._tenant, self._ops = parts, tenant, ops
        #: Where the journal ended when this began.
        self.head, self._seq = head, head.seq
        self._has_erased = False

    @classmethod
    async def begun(cls, parts: Parts, tenant: str, *, is_of_history: bool = False) -> Watch:
        """From now on. Who tells former versions too must know when those are emptied."""
        ops = _ERASING | {Op.PRUNE} if is_of_history else _ERASING
        return cls(parts, tenant, await parts.ledger.head(tenant), ops)

    async def erased(self) -> bool:
        """Whether anything was, since this began."""
        end = (await self._parts.ledger.head(self._tenant)).seq
        while self._seq < end and not self._has_erased:
            entries = await self._parts.ledger.entries(self._tenant, self._seq, _PAGE)
            if not entries:
                break
            self._has_erased = any(entry.op in self._ops for entry in entries)
            self._seq = entries[-1].seq
        return self._has_erased

    async def still(self) -> None:
        """Raises ConflictError once something was."""
        if await self.erased():
            raise ConflictError(
                "Something was erased while the file was made or sent.",
                reason="erased_meanwhile",
                hint="Ask for the file again; it comes without what was erased.",
            )


class Fresh:
    """Lets through only what nobody has erased since a walk began: records wait a moment before they are handed on."""

    def __init__(self, parts: Parts, watch: Watch, tenant: str) -> None:
        self._parts, self._watch, self._tenant = parts, watch, tenant

    @classmethod
    async def begun(cls, parts: Parts, tenant: str) -> Fresh:
        """From now on."""
        return cls(parts, await Watch.begun(parts, tenant), tenant)

    async def of(self, records: Sequence[Record]) -> list[Record]:
        """Those that are still there."""
        if not records or not await self._watch.erased():
            return list(records)
        there = await self._parts.ledger.read(self._tenant, [record.id for record in records])
        return [record for record in records if record.id in there and not there[record.id].is_emptied]
