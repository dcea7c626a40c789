"""What is written down of sharing, and who may read it: who saw a memory, the logs of items, receipts, incidents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu import jose
from quipu.errors import NotFoundError
from quipu.ledger.commit import Commit
from quipu.ledger.reader import JournalQuery, Reader
from quipu.model.journal import Draft
from quipu.operation import Context
from quipu.sharing import dids, receipts
from quipu.sharing.grants import messages as m
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.tokens import use_of
from quipu.sharing.host import Host, kept
from quipu.sharing.model import ITEM_LOG, RECEIPTS, SHARED_ITEMS, ItemLogEntry, Receipt

#: From this level on a log tells where a memory came from.
_WHOLE_LOG = 3
_MOST_ENTRIES, _PAGE = 10_000, 500
#: So many receipts are shown to a grantee at once.
_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """For the owner all of it; for a grantee what names it, and of an item what it was shown."""

    host: Host
    queries: GrantQueries

    async def who_saw(self, ctx: Context, request: m.WhoSawRequest) -> m.WhoSawResponse:
        """Answers that showed a memory, by the journal: it outlives the memory."""
        found: list[m.Disclosure] = []
        before: int | None = None
        while len(found) < request.limit:
            query = JournalQuery(
                op="disclose", record=request.id, newest_first=True, before=before, limit=_PAGE
            )
            entries = await self.host.ledger.entries(ctx.tenant, query)
            found += [
                m.Disclosure(
                    at=entry.at,
                    grantee=entry.actor,
                    grant_id=str(entry.detail["grant_id"]),
                    receipt_id=str(entry.detail["receipt_id"]),
                    version=mention.version,
                )
                for entry in entries
                if request.grant_id in (None, entry.detail["grant_id"])
                for mention in entry.records
                if mention.id == request.id
            ]
            if len(entries) < _PAGE:
                break
            before = entries[-1].seq
        return m.WhoSawResponse(entries=tuple(found[: request.limit]))

    # -- logs ---------------------------------------------------------------------------------------------------------

    async def own_log(self, ctx: Context, request: m.ReadItemLogRequest) -> m.ReadItemLogResponse:
        """For the owner: it outlives the item."""
        entries = await self._entries(ctx.tenant, request.id)
        if not entries:
            shown = await self.host.ledger.page(SHARED_ITEMS, ctx.tenant, {"item_id": request.id}, limit=1)
            for one in shown:
                entries = await self._entries(ctx.tenant, one.record_id)
        if not entries:
            raise NotFoundError("There is no such item.", reason="item")
        return m.ReadItemLogResponse(entries=tuple(dict(one.entry) for one in entries))

    async def log(self, ctx: Context, request: m.ReadSharedLogRequest) -> m.ReadItemLogResponse:
        """For whoever was shown the item."""
        use = use_of(ctx)
        self.queries.check(use)
        shared, _ = await self.queries.shown(use, request.id)
        entries = await self._entries(use.tenant, shared.record.id)
        if use.grant.level >= _WHOLE_LOG:
            return m.ReadItemLogResponse(entries=tuple(dict(one.entry) for one in entries))
        names = ("seq", "op", "at", "state")
        told = ({**{name: one.entry[name] for name in names}, "hash": one.hash} for one in entries)
        return m.ReadItemLogResponse(entries=tuple(told))

    async def _entries(self, tenant: str, record_id: str) -> Sequence[ItemLogEntry]:
        return await self.host.ledger.page(ITEM_LOG, tenant, {"record_id": record_id}, limit=_MOST_ENTRIES)

    # -- receipts -----------------------------------------------------------------------------------------------------

    async def receipts(self, ctx: Context, request: m.ListReceiptsRequest) -> m.ListReceiptsResponse:
        """A stretch of the chain; checked from its beginning where that is asked for."""
        after = None if request.after == 0 else (request.after,)
        rows = await self.host.ledger.page(RECEIPTS, ctx.tenant, after=after, limit=request.limit + 1)
        page = rows[: request.limit]
        return m.ListReceiptsResponse(
            receipts=tuple(_view(row) for row in page),
            next=page[-1].number if len(rows) > len(page) else None,
            faults=await self._faults(ctx.tenant) if request.verify else (),
        )

    async def shared_receipts(
        self, ctx: Context, request: m.ListSharedReceiptsRequest
    ) -> m.ListSharedReceiptsResponse:
        """Receipts of a grantee's own. Where a page ended is one of these: a place in the chain would tell of others."""
        use = use_of(ctx)
        self.queries.check(use)
        ledger, wanted = self.host.ledger, {"agent": use.grant.grantee}
        after: tuple[int] | None = None
        if request.after is not None:
            found = await ledger.page(RECEIPTS, use.tenant, {**wanted, "id": request.after}, limit=1)
            if not found:
                raise NotFoundError("There is no such receipt.", reason="receipt")
            after = (found[0].number,)
        rows = await ledger.page(RECEIPTS, use.tenant, wanted, after=after, limit=_SHOWN + 1)
        page = rows[:_SHOWN]
        return m.ListSharedReceiptsResponse(
            receipts=tuple(dict(row.body) for row in page),
            next=page[-1].id if len(rows) > len(page) else None,
        )

    async def _faults(self, tenant: str) -> tuple[m.ReceiptFault, ...]:
        document, host = self.host.keyring.document(None), self.host.did

        def check(message: bytes, kid: str, value: str) -> bool:
            key = dids.key_of(document, host, kid)
            return key is not None and key.revoked is None and jose.verify(message, value, key.jwk)

        found: list[m.ReceiptFault] = []
        previous, number = receipts.GENESIS, 1
        while rows := await self.host.ledger.page(
            RECEIPTS, tenant, after=None if number == 1 else (number - 1,), limit=_PAGE
        ):
            faults = receipts.receipt_faults([row.body for row in rows], check, previous, number)
            found += [m.ReceiptFault(number=place, kind=kind) for place, kind in faults]
            previous, number = receipts.hashed(rows[-1].body), rows[-1].number + 1
        return tuple(found)

    # -- incidents ----------------------------------------------------------------------------------------------------

    async def report(self, ctx: Context, request: m.ReportIncidentRequest) -> m.ReportIncidentResponse:
        """By the owner."""
        return await self._reported(ctx.tenant, self.host.keyring.did(ctx.tenant), None, request.body)

    async def report_under_grant(
        self, ctx: Context, request: m.ReportGrantIncidentRequest
    ) -> m.ReportIncidentResponse:
        """By whoever was given a grant."""
        use = use_of(ctx)
        self.queries.check(use)
        return await self._reported(use.tenant, use.grant.grantee, use.grant.id, request.body)

    async def _reported(
        self, tenant: str, agent: str, grant_id: str | None, body: Mapping[str, Any]
    ) -> m.ReportIncidentResponse:
        """A receipt with the hash of what is said, and no more of it."""
        now, salt = self.host.clock(), self.host.salt()

        def work(reader: Reader) -> tuple[Receipt, Sequence[Commit]]:
            receipt = self.host.receipt(
                reader,
                "incident",
                at=now,
                agent=agent,
                grant_id=grant_id,
                input_hash=receipts.salted("input", body, salt),
            )
            detail: dict[str, Any] = {"receipt_id": receipt.id}
            if grant_id is not None:
                detail["grant_id"] = grant_id
            draft = Draft(op="incident", actor=agent, at=now, detail=detail)
            return receipt, [Commit(tenant=tenant, draft=draft, changes=(kept(receipt),))]

        receipt = await self.host.ledger.locked(tenant, work)
        return m.ReportIncidentResponse(receipt_id=receipt.id, input_salt=salt)


def _view(row: Receipt) -> m.ReceiptView:
    return m.ReceiptView(
        number=row.number,
        id=row.id,
        type=row.type,
        agent=row.agent,
        grant_id=row.grant_id,
        at=row.at,
        body=dict(row.body),
    )
