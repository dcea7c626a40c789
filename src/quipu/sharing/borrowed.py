"""What others share with us: asked for, checked, kept apart from memory, dropped in time, and given back.

1. It is data of somebody else's: never merged into memory, found by no recall, and never an instruction.
2. It is kept until the grant ends, and no longer: by its first end, or for a day where none is named. What its owner has
   erased meanwhile goes with the next answer; what comes under a grant that was taken back, with the next refusal.
3. Who lent something has it back by asking with a signature, which is good once and only while it is fresh. Nobody can
   make us drop what somebody else lent; and then nothing is put on receipt, for it would not be true.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from quipu import jose
from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnverifiableError,
)
from quipu.fields import DAY_MS, JsonObject, Name, Redact, ShortText, bad_value
from quipu.jose import b64, unb64
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Guard
from quipu.model.journal import Draft
from quipu.operation import Context, Request, invalid
from quipu.sharing import dids, receipts
from quipu.sharing import messages as m
from quipu.sharing.grants import tokens
from quipu.sharing.grants.terms import Did
from quipu.sharing.host import Host, check_guard, every
from quipu.sharing.lenders import ItemTold, Lenders, QueryAnswer, place_of_link, told
from quipu.sharing.model import (
    BORROWED_GRANTS,
    BORROWED_ITEMS,
    GRANT_TAG,
    NO_TENANT,
    BorrowedGrant,
    BorrowedItem,
    UsedProof,
)
from quipu.sharing.times import instant

_MOST_ITEMS, _MOST_OWNERS = 10_000, 1000
#: So many grants are named where it is not clear which one is meant.
_MOST_NAMED = 10
#: Refusals after which nothing of the grant is kept.
_ENDED = ("grant_revoked", "grant_expired")


class _Received(Request):
    """An item as it may be kept: what others say passes what is registered as a secret here, too."""

    #: It must stay what it is.
    item_id: Annotated[str, Redact.REFUSE]
    item: JsonObject


def _one_grant(tags: tuple[str, ...]) -> tuple[str, ...]:
    if sum(tag.startswith(GRANT_TAG) for tag in tags) != 1:
        raise bad_value("the one grant that it is about, as grant:ID")
    return tags


class _Wanted(Request):
    """OAP's request to delete, from whoever lent something: what, and under which grant."""

    principal_did: Did
    item_ids: Annotated[tuple[Annotated[str, Redact.NONE], ...], Field(max_length=_MOST_ITEMS, strict=False)]
    provenance_tags: Annotated[
        tuple[Name, ...], Field(max_length=100, strict=False), AfterValidator(_one_grant)
    ]
    reason: ShortText = "erased"
    cascade: bool = True

    @property
    def grant_id(self) -> str:
        return next(tag for tag in self.provenance_tags if tag.startswith(GRANT_TAG)).removeprefix(GRANT_TAG)


@dataclass(slots=True, kw_only=True)
class Borrowed:
    """The grantee's side of sharing."""

    host: Host
    lenders: Lenders
    _is_indexed: bool = field(default=False, init=False)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def borrow(self, ctx: Context, request: m.BorrowRequest) -> m.BorrowResponse:
        """Ask, check, and keep what is shown until it expires."""
        request = (await self.host.redactor.guard(ctx.tenant, None)).clean(request)
        origin, grant_id = place_of_link(request.link)
        lender = await self.lenders.find(origin)
        grant = BorrowedGrant(grant_id=grant_id, source=lender.did, owner=ctx.tenant)
        await self.host.ledger.update(NO_TENANT, BORROWED_GRANTS, grant)
        before = await self.host.ledger.read(ctx.tenant, lambda reader: _returns(reader, grant))
        try:
            answer = await self.lenders.query(ctx.tenant, lender, grant_id, _body(request))
        except ForbiddenError as refused:
            if refused.reason in _ENDED:
                await self._dropped(ctx.tenant, ctx.principal.name, _of(lender.did, grant_id))
            raise
        for item in answer.output.items:
            self.lenders.check_item(lender, grant_id, item)
        await self.drop_expired(ctx.tenant, ctx.clock())
        rows, erased = await self._kept(ctx, grant, answer, before)
        return m.BorrowResponse(
            source=lender.did,
            grant_id=grant_id,
            items=tuple(_view(row) for row in rows),
            erased=tuple(erased),
            next_cursor=answer.output.next_cursor,
            warnings=answer.warnings,
        )

    async def _kept(
        self, ctx: Context, grant: BorrowedGrant, answer: QueryAnswer, before: int
    ) -> tuple[list[BorrowedItem], list[str]]:
        """What was shown, once it is kept, and the ids of what went because its owner has erased it.

        `before`: how often the lender had asked something back by then.
        """
        shown = {str(item["item_id"]) for item in answer.output.items}
        gone = {name for one in answer.output.erased for name in one.item_ids} - shown
        of_grant = _of(grant.source, grant.grant_id)

        async def write(guard: Guard) -> tuple[list[BorrowedItem], list[str]]:
            now = ctx.clock()
            rows = [
                BorrowedItem(
                    **of_grant,
                    item_id=str(item["item_id"]),
                    item=item,
                    receipt_id=answer.receipt.receipt_id,
                    received_at=now,
                    expires_at=_expiry(item, now),
                )
                for item in _cleaned(guard, answer.output.items)
            ]

            def work(reader: Reader) -> tuple[list[str], Sequence[Commit]]:
                if _returns(reader, grant) != before:
                    raise ConflictError("It was erased while it was on its way.", reason="erased_meanwhile")
                check_guard(reader, guard)
                drops = _held(reader, of_grant, lambda row: row.item_id in gone) if gone else []
                detail: dict[str, Any] = {**of_grant, "items": len(rows)}
                draft = Draft(op="borrow", actor=ctx.principal.name, at=now, detail=detail)
                changes = (*(Keep(BORROWED_ITEMS, row) for row in rows), *_drops(drops))
                commit = Commit(tenant=ctx.tenant, draft=draft, changes=changes)
                return [row.item_id for row in drops], [commit]

            erased = await self.host.ledger.locked(ctx.tenant, work)
            if erased:
                await self.host.ledger.scrub()
            return rows, erased

        return await self.host.guarded(ctx.tenant, write)

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
            after = BORROWED_ITEMS.key_of(rows[-1])
        page = found[: request.limit]
        return m.ListBorrowedResponse(
            items=tuple(_view(row) for row in page),
            next_cursor=_sealed(page[-1]) if len(found) > len(page) else None,
        )

    # -- dropping -----------------------------------------------------------------------------------------------------

    async def give_up(self, ctx: Context, request: m.GiveUpBorrowedRequest) -> m.GiveUpBorrowedResponse:
        """What is kept goes first: a server that is away, or has ended the grant itself, does not keep it here."""
        (await self.host.redactor.guard(ctx.tenant, None)).clean(request)
        source, grant_id = await self._meant(ctx.tenant, request)
        dropped = await self._dropped(ctx.tenant, ctx.principal.name, _of(source, grant_id))
        try:
            lender = await self.lenders.find_by_did(source)
            await self.lenders.end(ctx.tenant, lender, grant_id)
            ended = True
        except QuipuError:
            ended = False
        return m.GiveUpBorrowedResponse(source=source, grant_id=grant_id, dropped=dropped, ended=ended)

    async def _meant(self, tenant: str, request: m.GiveUpBorrowedRequest) -> tuple[str, str]:
        """The server and the grant; where they are not both given, the only one of which something is kept."""
        source, grant_id, which = request.source, request.grant_id, request.which
        if which is not None and m.is_link(which):
            origin, grant_id = place_of_link(which)
            source = dids.web_of(origin)
        elif which is not None and which.startswith("did:"):
            source = which
        elif which is not None:
            grant_id = which
        if source is not None:
            dids.checked(source, "/source" if which is None else "/which")
        if source is not None and grant_id is not None:
            return source, grant_id

        def held(reader: Reader) -> list[tuple[str, str]]:
            rows = (row.value for row in every(reader, BORROWED_ITEMS))
            return list(dict.fromkeys((row.source, row.grant_id) for row in rows))

        all_held = await self.host.ledger.read(tenant, held)
        found = [one for one in all_held if source in (None, one[0]) and grant_id in (None, one[1])]
        if len(found) == 1:
            return found[0]
        named = ", ".join(f"{one} of {of}" for of, one in (found or all_held)[:_MOST_NAMED])
        if found:
            raise invalid([Fault("/which", "bad_value", f"one of the grants that you borrow under: {named}")])
        hint = f"You borrow under {named}." if named else "Nothing is borrowed."
        raise NotFoundError("Nothing is borrowed under that.", reason="grant", hint=hint)

    async def drop_expired(self, tenant: str, now: int) -> None:
        """Drop what has had its time."""
        first = await self.host.ledger.read(tenant, lambda reader: reader.least(BORROWED_ITEMS, "expires_at"))
        if first is not None and first <= now:
            await self._dropped(tenant, "system", {}, lambda row: row.expires_at <= now)

    async def _dropped(
        self,
        tenant: str,
        actor: str,
        wanted: Mapping[str, Any],
        is_meant: Callable[[BorrowedItem], bool] | None = None,
    ) -> int:
        """How many items went, from the file too."""

        def work(reader: Reader) -> tuple[int, Sequence[Commit]]:
            rows = _held(reader, wanted, is_meant)
            if not rows:
                return 0, ()
            detail: dict[str, Any] = {**wanted, "items": len(rows)}
            draft = Draft(op="drop_borrowed", actor=actor, at=self.host.clock(), detail=detail)
            return len(rows), [Commit(tenant=tenant, draft=draft, changes=_drops(rows))]

        dropped = await self.host.ledger.locked(tenant, work)
        if dropped:
            await self.host.ledger.scrub()
        return dropped

    # -- giving back --------------------------------------------------------------------------------------------------

    async def returned(self, ctx: Context, request: m.ReturnBorrowedRequest) -> m.ReturnBorrowedResponse:
        """Drop what its lender wants back, on a Deletion Receipt."""
        wanted = _Wanted.parse(request.body)
        who, proof = await self._signer(request)
        grants = await self._holders(wanted.grant_id)
        for grant in grants:
            rows = await self.host.ledger.read(grant.owner, lambda reader: _asked(reader, grant, wanted))  # noqa: B023  awaited
            if any(who not in (row.source, row.item.get("owner_did")) for row in rows):
                raise ForbiddenError("Only who lent something gets it back.", reason="bad_signature")
        now = self.host.clock()
        await self.host.ledger.settle(
            NO_TENANT, lambda reader: (None, tokens.proofs_used(reader, (proof,), now))
        )
        for grant in grants:
            await self._give_back(grant, who, wanted)
        receipt = receipts.deletion_receipt(
            id=self.host.ulid(),
            principal=wanted.principal_did,
            scope_id=None,
            requested_at=now,
            completed_at=self.host.clock(),
            digest=receipts.hashed(sorted(wanted.item_ids)),
            count=len(wanted.item_ids),
            reason=wanted.reason,
            grants=[wanted.grant_id],
            told=(),
            by=self.host.keyring.signatory(None),
        )
        return m.ReturnBorrowedResponse(receipt=receipt)

    async def _signer(self, request: m.ReturnBorrowedRequest) -> tuple[str, UsedProof]:
        """Who signed the body just now, and what makes the signature good once."""
        now = self.host.clock()
        header = jose.opened_detached(request.signature)
        kid, jti = str(header.get("kid")), header.get("jti")
        at = tokens.seconds(header.get("iat"))
        if not isinstance(jti, str) or not 8 <= len(jti) <= 256 or abs(now / 1000 - at) > tokens.PROOF_S:
            raise tokens.refused("bad_signature")
        did, _ = dids.split(kid)
        try:
            document = await self.host.documents.document(did)
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            raise tokens.refused("bad_signature") from error
        key = tokens.check_key(dids.key_of(document, did, kid), now)
        if not jose.verify_detached(canonical(request.body), request.signature, key.jwk):
            raise tokens.refused("bad_signature")
        digest = hashlib.sha256(f"{did}.{jti}".encode("utf-8", "surrogatepass")).hexdigest()
        return did, tokens.remembered(at, digest)

    async def _holders(self, grant_id: str) -> Sequence[BorrowedGrant]:
        """Who holds something of a grant, or may be asking for it just now."""
        ledger, equal = self.host.ledger, {"grant_id": grant_id}
        found = await ledger.page(BORROWED_GRANTS, NO_TENANT, equal, limit=_MOST_OWNERS)
        if not found and not self._is_indexed:
            self._is_indexed = True
            await self.host.index(
                BORROWED_ITEMS,
                BORROWED_GRANTS,
                lambda tenant, row: BorrowedGrant(grant_id=row.grant_id, source=row.source, owner=tenant),
            )
            found = await ledger.page(BORROWED_GRANTS, NO_TENANT, equal, limit=_MOST_OWNERS)
        return found

    async def _give_back(self, grant: BorrowedGrant, who: str, wanted: _Wanted) -> None:
        """Out of the file too; and what of it is on its way is not kept."""

        def work(reader: Reader) -> tuple[None, Sequence[Commit]]:
            rows = _asked(reader, grant, wanted)
            mark = replace(grant, returns=_returns(reader, grant) + 1)
            detail: dict[str, Any] = {**_of(grant.source, grant.grant_id), "items": len(rows)}
            draft = Draft(op="drop_borrowed", actor=who, at=self.host.clock(), detail=detail)
            changes = (*_drops(rows), Keep(BORROWED_GRANTS, mark))
            return None, [Commit(tenant=reader.tenant, draft=draft, changes=changes)]

        await self.host.ledger.locked(grant.owner, work)
        await self.host.ledger.scrub()


def _body(request: m.BorrowRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"query": request.query, "max_results": request.max_results}
    if request.kinds:
        body["kinds"] = list(request.kinds)
    if request.cursor is not None:
        body["cursor"] = request.cursor
    return body


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


def _of(source: str, grant_id: str) -> dict[str, str]:
    return {"source": source, "grant_id": grant_id}


def _held(
    reader: Reader, wanted: Mapping[str, Any], is_meant: Callable[[BorrowedItem], bool] | None
) -> list[BorrowedItem]:
    rows = (row.value for row in every(reader, BORROWED_ITEMS, wanted))
    return [row for row in rows if is_meant is None or is_meant(row)]


def _asked(reader: Reader, grant: BorrowedGrant, wanted: _Wanted) -> list[BorrowedItem]:
    """What is kept of what is wanted back."""
    names = frozenset(wanted.item_ids)
    return _held(reader, _of(grant.source, grant.grant_id), lambda row: row.item_id in names)


def _drops(rows: Sequence[BorrowedItem]) -> tuple[Drop, ...]:
    return tuple(Drop(BORROWED_ITEMS, BORROWED_ITEMS.key_of(row)) for row in rows)


def _returns(reader: Reader, grant: BorrowedGrant) -> int:
    """How often something of a grant was asked back."""
    known = reader.get(BORROWED_GRANTS, grant.grant_id, grant.source, grant.owner)
    return 0 if known is None else known.returns


def _sealed(row: BorrowedItem) -> str:
    """Where a page ended."""
    return b64(json.dumps(BORROWED_ITEMS.key_of(row)).encode())


def _opened(cursor: str | None) -> tuple[str, str, str] | None:
    if cursor is None:
        return None
    try:
        source, grant_id, item_id = json.loads(unb64(cursor))
    except (ValueError, TypeError):
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")]) from None
    return str(source), str(grant_id), str(item_id)
