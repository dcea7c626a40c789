"""What others share with us: asked for, checked, kept apart from memory, and dropped in time.

1. It is data of somebody else's: never merged into memory, found by no recall, and never an instruction.
2. It is kept until the grant ends, and no longer: by its first end, or for a day where none is named.
3. Who lent something has it back by asking for it with a signature; nobody else does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from quipu.errors import ConflictError, Fault, QuipuError
from quipu.fields import DAY_MS, JsonObject, Redact
from quipu.jose import b64, unb64
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Guard
from quipu.model.journal import Draft
from quipu.operation import Context, Request, invalid
from quipu.sharing import dids
from quipu.sharing import host_messages as m
from quipu.sharing.host import Host
from quipu.sharing.lenders import ItemTold, Lenders, QueryAnswer, place_of_link, told
from quipu.sharing.model import (
    BORROWED_GRANTS,
    BORROWED_ITEMS,
    NO_TENANT,
    BorrowedGrant,
    BorrowedItem,
)
from quipu.sharing.times import instant

_MOST_ATTEMPTS = 16
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """The grantee's side of sharing."""

    host: Host
    lenders: Lenders

    async def borrow(self, ctx: Context, request: m.BorrowRequest) -> m.BorrowResponse:
        """Ask, check, and keep what is shown until it expires."""
        request = (await self.host.redactor.guard(ctx.tenant, None)).clean(request)
        origin, grant_id = place_of_link(request.link)
        lender = await self.lenders.find(origin)
        grant = BorrowedGrant(grant_id=grant_id, source=lender.did, owner=ctx.tenant)
        await self.host.ledger.update(NO_TENANT, BORROWED_GRANTS, grant)
        before = await self.host.ledger.read(ctx.tenant, lambda reader: returns_of(reader, grant))
        answer = await self.lenders.query(ctx.tenant, lender, grant_id, _body(request))
        for item in answer.output.items:
            self.lenders.check_item(lender, grant_id, item)
        await self.drop_expired(ctx.tenant, ctx.clock())
        rows = await self._kept(ctx, grant, answer, before)
        return m.BorrowResponse(
            source=lender.did,
            grant_id=grant_id,
            items=tuple(_view(row) for row in rows),
            next_cursor=answer.output.next_cursor,
            warnings=answer.warnings,
        )

    async def _kept(
        self, ctx: Context, grant: BorrowedGrant, answer: QueryAnswer, before: int
    ) -> list[BorrowedItem]:
        """What was shown, once it is kept. `before`: how often the lender had asked something back by then."""
        for _ in range(_MOST_ATTEMPTS):
            guard = await self.host.redactor.guard(ctx.tenant, None)
            now = ctx.clock()
            rows = [
                BorrowedItem(
                    source=grant.source,
                    grant_id=grant.grant_id,
                    item_id=str(item["item_id"]),
                    item=item,
                    receipt_id=answer.receipt.receipt_id,
                    received_at=now,
                    expires_at=_expiry(item, now),
                )
                for item in _cleaned(guard, answer.output.items)
            ]
            detail: dict[str, Any] = {
                "source": grant.source,
                "grant_id": grant.grant_id,
                "items": len(rows),
            }
            draft = Draft(op="borrow", actor=ctx.principal.name, at=now, detail=detail)
            keeps = tuple(Keep(BORROWED_ITEMS, row) for row in rows)
            commit = Commit(tenant=ctx.tenant, draft=draft, changes=keeps)

            def work(reader: Reader) -> tuple[bool, Sequence[Commit]]:
                if returns_of(reader, grant) != before:
                    raise ConflictError("It was erased while it was on its way.", reason="erased_meanwhile")
                is_checked = reader.head().guarded <= guard.checked_at  # noqa: B023  used in this turn only
                return is_checked, [commit] if is_checked else []  # noqa: B023

            if await self.host.ledger.locked(ctx.tenant, work):
                return rows
        raise ConflictError("The secrets of the tenant keep changing.", reason="secrets_changed")

    async def listed(self, ctx: Context, request: m.ListBorrowedRequest) -> m.ListBorrowedResponse:
        """What is kept and has not expired."""
        equal = {"source": request.source, "grant_id": request.grant_id}
        wanted = {name: value for name, value in equal.items() if value is not None}
        after, now, found = _opened(request.cursor), ctx.clock(), list[BorrowedItem]()
        while True:
            rows = await self.host.ledger.page(
                BORROWED_ITEMS, ctx.tenant, wanted, after=after, limit=request.limit + 1
            )
            found += [row for row in rows if row.expires_at > now]
            if len(rows) <= request.limit or len(found) > request.limit:
                break
            after = key_of(rows[-1])
        page = found[: request.limit]
        return m.ListBorrowedResponse(
            items=tuple(_view(row) for row in page),
            next_cursor=_sealed(page[-1]) if len(found) > len(page) else None,
        )

    async def give_up(self, ctx: Context, request: m.GiveUpBorrowedRequest) -> m.GiveUpBorrowedResponse:
        """What is kept goes first: a server that is away, or has ended the grant itself, does not keep it here."""
        (await self.host.redactor.guard(ctx.tenant, None)).clean(request)
        source = dids.checked(request.source, "/source")
        wanted = {"source": request.source, "grant_id": request.grant_id}
        dropped = await self._dropped(ctx.tenant, ctx.principal.name, wanted)
        try:
            lender = await self.lenders.find_by_did(source)
            await self.lenders.end(ctx.tenant, lender, request.grant_id)
            ended = True
        except QuipuError:
            ended = False
        return m.GiveUpBorrowedResponse(grant_id=request.grant_id, dropped=dropped, ended=ended)

    async def drop_expired(self, tenant: str, now: int) -> None:
        """Drop what has had its time."""
        first = await self.host.ledger.read(tenant, lambda reader: reader.least(BORROWED_ITEMS, "expires_at"))
        if first is not None and first <= now:
            await self._dropped(tenant, "system", {}, until=now)

    async def _dropped(
        self, tenant: str, actor: str, wanted: Mapping[str, Any], *, until: int | None = None
    ) -> int:
        """How many items went, from the file too. `until`: only those that have expired by then."""

        def work(reader: Reader) -> tuple[int, Sequence[Commit]]:
            rows = [row for row in rows_of(reader, wanted) if until is None or row.expires_at <= until]
            if not rows:
                return 0, ()
            detail: dict[str, Any] = {**wanted, "items": len(rows)}
            draft = Draft(op="drop_borrowed", actor=actor, at=self.host.clock(), detail=detail)
            drops = tuple(Drop(BORROWED_ITEMS, key_of(row)) for row in rows)
            return len(rows), [Commit(tenant=tenant, draft=draft, changes=drops)]

        dropped = await self.host.ledger.locked(tenant, work)
        if dropped:
            await self.host.ledger.scrub()
        return dropped


def _body(request: m.BorrowRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"query": request.query, "max_results": request.max_results}
    if request.kinds:
        body["kinds"] = list(request.kinds)
    if request.cursor is not None:
        body["cursor"] = request.cursor
    return body


class _Received(Request):
    """An item as it may be kept: what others say passes what is registered as a secret here, too."""

    #: It must stay what it is.
    item_id: Annotated[str, Redact.REFUSE]
    item: JsonObject


def _cleaned(guard: Guard, items: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        yield guard.clean(_Received(item_id=str(item["item_id"]), item=dict(item))).item


def _expiry(item: Mapping[str, Any], now: int) -> int:
    """When it has to be gone."""
    ends = [instant(tag.expires) for tag in told(ItemTold, item, "item").provenance_tags]
    return min((end for end in ends if end is not None), default=now + DAY_MS)


def _view(row: BorrowedItem) -> m.BorrowedView:
    item = told(ItemTold, row.item, "item")
    return m.BorrowedView(
        item_id=row.item_id,
        kind=item.kind,
        text=item.content.text,
        captured_at=item.provenance.captured_at,
        source=row.source,
        grant_id=row.grant_id,
        receipt_id=row.receipt_id,
        received_at=row.received_at,
        expires_at=row.expires_at,
        item=dict(row.item),
    )


def returns_of(reader: Reader, grant: BorrowedGrant) -> int:
    """How often something of a grant was asked back."""
    known = reader.get(BORROWED_GRANTS, grant.grant_id, grant.source, grant.owner)
    return 0 if known is None else known.returns


def rows_of(reader: Reader, wanted: Mapping[str, Any]) -> Iterator[BorrowedItem]:
    """What is kept and is like this."""
    after: tuple[str, str, str] | None = None
    while rows := reader.rows(BORROWED_ITEMS, wanted, after=after, limit=_PAGE):
        yield from (row.value for row in rows)
        after = key_of(rows[-1].value)


def key_of(row: BorrowedItem) -> tuple[str, str, str]:
    return row.source, row.grant_id, row.item_id


def _sealed(row: BorrowedItem) -> str:
    """Where a page ended."""
    return b64(json.dumps(key_of(row)).encode())


def _opened(cursor: str | None) -> tuple[str, str, str] | None:
    if cursor is None:
        return None
    try:
        source, grant_id, item_id = json.loads(unb64(cursor))
    except (ValueError, TypeError):
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")]) from None
    return str(source), str(grant_id), str(item_id)
