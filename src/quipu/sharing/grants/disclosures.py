"""What the owner sees of what was shared: who saw a memory, and the chain of receipts."""

from dataclasses import dataclass

from quipu import jose
from quipu.errors import NotFoundError
from quipu.ledger.reader import JournalQuery
from quipu.operation import Context
from quipu.sharing import dids, receipts
from quipu.sharing.grants import model as m
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.tokens import use_of
from quipu.sharing.host import Host
from quipu.sharing.model import RECEIPTS, Receipt

_PAGE = 500
#: So many receipts are shown to a grantee at once.
_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosures:
    """Reads the journal and the receipts of an owner."""

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
            for entry in entries:
                if request.grant_id not in (None, entry.detail["grant_id"]):
                    continue
                found += [
                    m.Disclosure(
                        at=entry.at,
                        grantee=entry.actor,
                        grant_id=str(entry.detail["grant_id"]),
                        receipt_id=str(entry.detail["receipt_id"]),
                        version=mention.version,
                    )
                    for mention in entry.records
                    if mention.id == request.id
                ]
            if len(entries) < _PAGE:
                break
            before = entries[-1].seq
        return m.WhoSawResponse(entries=tuple(found[: request.limit]))

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

    async def shown(self, ctx: Context, request: m.ListSharedReceiptsRequest) -> m.ListSharedReceiptsResponse:
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
