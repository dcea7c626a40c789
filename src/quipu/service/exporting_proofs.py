"""What an owner takes along beside the items: receipts of all that was done, and the logs of each item (10.1, F4)."""

from __future__ import annotations

from typing import Any

from quipu.formats import bundle
from quipu.formats.spool import Spool
from quipu.model.disclosure import LogKind
from quipu.model.moving import FileExport
from quipu.ports.parts import Parts

_PAGE = 1_000


class Proofs:
    """Spools them while items are walked through."""

    def __init__(self, parts: Parts, tenant: str, request: FileExport) -> None:
        self._parts, self._tenant = parts, tenant
        self._logs = Spool() if request.logs else None
        self._receipts = Spool(is_rising=True) if request.receipts else None
        self.end: str | None = None

    async def item(self, record_id: str) -> None:
        """Both logs of one more item. Items come with falling ids, and so do their entries."""
        if self._logs is None:
            return
        for kind in (LogKind.STATE, LogKind.DISCLOSED):
            lines = await self._parts.ledger.lending.log(self._tenant, record_id, kind)
            for line in reversed(lines):
                self._logs.add(self._parts.canonical({"log": kind.value, **line.entry}))

    async def chain(self) -> None:
        """Every receipt, in its order."""
        after = 0
        while self._receipts is not None:
            page = await self._parts.ledger.lending.receipts(self._tenant, after, _PAGE)
            for receipt in page:
                self._receipts.add(self._parts.canonical(receipt.body))
                after, self.end = receipt.seq, receipt.hash
            if len(page) < _PAGE:
                return

    def files(self) -> dict[str, Spool]:
        """What there is of them, by the file that it goes into."""
        named = {bundle.LOGS: self._logs, bundle.RECEIPTS: self._receipts}
        return {name: spool for name, spool in named.items() if spool is not None}

    def told(self) -> dict[str, Any]:
        """What the manifest says of them."""
        return {} if self.end is None else {"receipts_head": self.end}

    def close(self) -> None:
        """Let go of what was spooled."""
        for spool in self.files().values():
            spool.close()
