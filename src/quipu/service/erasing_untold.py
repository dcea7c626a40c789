"""What was lent and erased without a word to whoever saw it: a person said yes to it, or whoever did it was stopped.

The journal tells of every erasure, so it is followed; where nobody has followed it yet, everything that was ever lent is
looked at once.
"""

from __future__ import annotations

from quipu.model.journal import Op
from quipu.model.record import State
from quipu.ports.parts import Parts

_PAGE = 500
_ERASING = frozenset({Op.ERASE, Op.DELETE_STORE})
#: Whoever erases says so at once; only what is older than this was left.
_GRACE_MS = 60_000


class Untold:
    """Finds it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: Up to where in an owner's journal this is known.
        self._looked: dict[str, int] = {}

    async def found(self, tenant: str) -> list[str]:
        """Records that are erased, were lent, and whose logs do not end with that."""
        ledger, after = self._parts.ledger, self._looked.get(tenant)
        if after is None:
            end = (await ledger.head(tenant)).seq
            names = await self._lent(tenant)
        else:
            end, names = await self._erased(tenant, after)
        untold: list[str] = []
        for start in range(0, len(names), _PAGE):
            untold += await self._left(tenant, names[start : start + _PAGE])
        self._looked[tenant] = end
        return untold

    async def _lent(self, tenant: str) -> list[str]:
        lending = self._parts.ledger.lending
        shown = [await lending.lent_items(tenant, grant.id) for grant in await lending.grants(tenant)]
        return list(dict.fromkeys(record_id for items in shown for record_id, _ in items))

    async def _erased(self, tenant: str, after: int) -> tuple[int, list[str]]:
        """What entries behind a position have erased, and the last of them that is old enough."""
        named: dict[str, None] = {}
        latest = self._parts.clock() - _GRACE_MS
        while page := await self._parts.ledger.entries(tenant, after, _PAGE):
            for entry in page:
                if entry.at > latest:
                    return after, list(named)
                if entry.op in _ERASING:
                    named |= dict.fromkeys(mention.id for mention in entry.records)
                after = entry.seq
        return after, list(named)

    async def _left(self, tenant: str, names: list[str]) -> list[str]:
        ledger = self._parts.ledger
        records = await ledger.read(tenant, names)
        gone = [name for name in names if name in records and records[name].state is State.ERASED]
        if not gone:
            return []
        tails = await ledger.lending.tails(tenant, gone)
        silent = [name for name in gone if name not in tails or tails[name].entry["op"] != "deleted"]
        lent = {record_id for _, record_id in await ledger.lending.lent_to(tenant, silent)}
        return [name for name in silent if name in lent]
