"""The export under a grant: everything that the grant shows, as a file, projected, counted and on receipt.

It has neither logs nor receipts nor salts in it. Items go through the same gate as those of a query, two hundred in a
transaction; what was erased while the others were shown is left out, and the file breaks off where the grant ends.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from quipu._version import __version__
from quipu.errors import Fault, ForbiddenError
from quipu.ledger.ledger import Ledger
from quipu.operation import AnyBinding, Binding, Context, FilePart, invalid
from quipu.sharing.grants.query import GrantQueries, Page, applied
from quipu.sharing.grants.terms import EXPORT, MOST_ITEMS
from quipu.sharing.grants.tokens import GrantUse, use_of
from quipu.sharing.host import Host
from quipu.sharing.times import rfc3339
from quipu.transfer import age
from quipu.transfer import operations as ops
from quipu.transfer.exports import ErasureWatch, ExportedFile, written
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import Contents, Spool, line
from quipu.transfer.model import ExportGrantRequest, ExportReport, OapExport

#: Items that are shown in one transaction, and how often their answer is made anew.
_STRETCH, _TURNS = 200, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantExports:
    """Writes what grants show."""

    host: Host
    queries: GrantQueries

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (Binding(ops.EXPORT_GRANT, self.file),)

    @property
    def ledger(self) -> Ledger:
        return self.host.ledger

    async def file(self, ctx: Context, request: ExportGrantRequest) -> AsyncIterator[FilePart]:
        use, asked = use_of(ctx), OapExport.parse(request.body)
        self.queries.check(use, EXPORT)
        _check(asked)
        file = await self._made(use, asked, request.body)

        async def still_good() -> None:
            """A grant that ends ends what is being sent, too."""
            await self.ledger.read(
                use.tenant, lambda reader: self.queries.still_good(reader, use, self.host.clock())
            )

        async for part in file.parts(still_good):
            yield part

    async def _made(self, use: GrantUse, asked: OapExport, body: Mapping[str, Any]) -> ExportedFile:
        watch = await ErasureWatch.begun(self.ledger, use.tenant)
        items, receipt_ids, removed = await self._disclosed(use, asked, body)
        if await watch.has_erased():
            watch = await ErasureWatch.begun(self.ledger, use.tenant)
            covered = await self.queries.views.covered(use.tenant, use.grant)
            left = {shared.id for shared in covered.items.values()}
            items = [item for item in items if item["item_id"] in left]
        grant, loss = use.grant, Loss()
        head: dict[str, Any] = {
            "export_id": self.host.new_id("exp"),
            "exported_at": rfc3339(self.host.clock(), fraction=True),
            "exporter": f"quipu/{__version__}",
            "owner": grant.owner,
            "scopes": [grant.scope_id],
            "stores": [],
            "export_type": "full",
            "grant": {
                "grant_id": grant.id,
                "grant_hash": grant.hash,
                "receipts": receipt_ids,
                "projection_applied": applied(grant, removed),
            },
        }
        by = self.host.keyring.signatory(use.tenant)
        report = ExportReport(
            export_id=head["export_id"],
            format="bundle",
            items=len(items),
            withheld=0,
            tombstones=0,
            position=0,
            signed_by=by.kid,
        )
        with Spool(is_rising=True) as spool:
            for item in sorted(items, key=lambda item: str(item["item_id"])):
                spool.add(line(item, loss))
            contents, at = Contents(items=spool, head=head, by=by), self.host.clock()
            return await asyncio.to_thread(written, contents, loss, report, watch, at, asked.encrypt_to)

    async def _disclosed(
        self, use: GrantUse, asked: OapExport, body: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], list[str], int]:
        """Every item as it is shown, the receipts, and how many values are not shown."""
        items: list[dict[str, Any]] = []
        receipt_ids: list[str] = []
        shown: set[str] = set()
        removed, turns = 0, 0
        while True:
            page, is_end = await self._page(use, asked, body, shown, is_last_turn=turns == _TURNS - 1)
            if receipt_ids and not page.found:
                return items, receipt_ids, removed
            answer = await self.queries.disclosed(page)
            turns += 1
            if answer is None:
                continue
            # The proof of the key is used up, and what was asked for is on its way.
            use, turns = replace(use, proofs=()), 0
            items += answer.output["items"]
            receipt_ids.append(str(answer.receipt["receipt_id"]))
            removed += int(answer.output["projection_applied"]["redacted_field_count"])
            shown |= {one.shared.record.id for one in page.found}
            if is_end:
                return items, receipt_ids, removed

    async def _page(
        self,
        use: GrantUse,
        asked: OapExport,
        body: Mapping[str, Any],
        shown: set[str],
        *,
        is_last_turn: bool,
    ) -> tuple[Page, bool]:
        coverage = await self.queries.views.covered(use.tenant, use.grant)
        room = await self.queries.room(use, MOST_ITEMS)
        wanted = [] if asked.filter is None else [asked.filter]
        found = room.within(coverage.ranked("", wanted, self.host.clock()))
        listed = list(islice((one for one in found if one.shared.record.id not in shown), _STRETCH + 1))
        page = Page(
            use=use,
            coverage=coverage,
            room=room,
            found=listed[:_STRETCH],
            body=body,
            action="memory_export",
            is_last_turn=is_last_turn,
            needs_room=not shown,
            has_salts=False,
        )
        return page, len(listed) <= _STRETCH


def _check(asked: OapExport) -> None:
    """What a grant's export cannot be."""
    if asked.format != "quipu-bundle-v1":
        raise invalid([Fault("/format", "unknown_format", "quipu-bundle-v1: what is lent keeps its proofs")])
    if asked.include.names:
        raise ForbiddenError("What may not leave is in no grant.", reason="scope_missing")
    if asked.since is not None:
        raise invalid([Fault("/since", "bad_value", "nothing: what is lent goes out as it is today")])
    age.check_recipients(asked.encrypt_to)
