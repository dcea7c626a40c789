"""Giving back what was borrowed: whoever lent it asks with a signature, and gets a Deletion Receipt.

1. Nobody can make us drop what somebody else lent; and then nothing is put on receipt, for it would not be true.
2. A request is good once, and only while it is fresh.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import AfterValidator, Field

from quipu import jose
from quipu.errors import BackendUnavailableError, ForbiddenError, InvalidError, UnverifiableError
from quipu.fields import Name, Redact, ShortText, bad_value
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.model.journal import Draft
from quipu.operation import Context, Request
from quipu.sharing import dids, receipts
from quipu.sharing import host_messages as m
from quipu.sharing.borrowed import key_of, returns_of, rows_of
from quipu.sharing.grants import tokens
from quipu.sharing.grants.terms import Did
from quipu.sharing.host import Host
from quipu.sharing.model import (
    BORROWED_GRANTS,
    BORROWED_ITEMS,
    NO_TENANT,
    BorrowedGrant,
    BorrowedItem,
    UsedProof,
)

_TAG = "grant:"
_MOST_ITEMS, _MOST_OWNERS, _PAGE = 10_000, 1000, 500


def _one_grant(tags: tuple[str, ...]) -> tuple[str, ...]:
    if sum(tag.startswith(_TAG) for tag in tags) != 1:
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
        return next(tag for tag in self.provenance_tags if tag.startswith(_TAG)).removeprefix(_TAG)


@dataclass(slots=True, kw_only=True)
class Returning:
    """Drops what others want back."""

    host: Host
    #: Whether it was seen to that whoever holds something can be found: a ledger that was copied does not know them.
    _is_indexed: bool = field(default=False, init=False)

    async def returned(self, ctx: Context, request: m.ReturnBorrowedRequest) -> m.ReturnBorrowedResponse:
        wanted = _Wanted.parse(request.body)
        who, proof = await self._signer(request)
        grants = await self._grants(wanted.grant_id)
        for grant in grants:
            rows = await self.host.ledger.read(grant.owner, lambda reader: _asked(reader, grant, wanted))  # noqa: B023
            if any(who not in (row.source, row.item.get("owner_did")) for row in rows):
                raise ForbiddenError("Only who lent something gets it back.", reason="bad_signature")
        await self._use_up(proof)
        for grant in grants:
            await self._drop(grant, who, wanted)
        now = self.host.clock()
        receipt = receipts.deletion_receipt(
            id=self.host.ulid(),
            principal=wanted.principal_did,
            scope_id=None,
            requested_at=now,
            completed_at=now,
            digest=receipts.hashed(sorted(wanted.item_ids)),
            count=len(wanted.item_ids),
            reason=wanted.reason,
            grants=[wanted.grant_id],
            told=(),
            by=self.host.keyring.signatory(None),
        )
        return m.ReturnBorrowedResponse(receipt=receipt)

    # -- who asks -----------------------------------------------------------------------------------------------------

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

    async def _use_up(self, proof: UsedProof) -> None:
        now = self.host.clock()

        def work(reader: Reader) -> tuple[None, list[Keep | Drop]]:
            return None, tokens.proofs_used(reader, (proof,), now)

        await self.host.ledger.settle(NO_TENANT, work)

    # -- what there is ------------------------------------------------------------------------------------------------

    async def _grants(self, grant_id: str) -> Sequence[BorrowedGrant]:
        """Who holds something of a grant, or may be asking for it just now."""
        ledger, equal = self.host.ledger, {"grant_id": grant_id}
        found = await ledger.page(BORROWED_GRANTS, NO_TENANT, equal, limit=_MOST_OWNERS)
        if not found and not self._is_indexed:
            self._is_indexed = True
            async for tenant in ledger.journaled_tenants():
                await self._index(tenant)
            found = await ledger.page(BORROWED_GRANTS, NO_TENANT, equal, limit=_MOST_OWNERS)
        return found

    async def _index(self, tenant: str) -> None:
        after: tuple[str, str, str] | None = None
        while rows := await self.host.ledger.page(BORROWED_ITEMS, tenant, after=after, limit=_PAGE):
            names = sorted({(row.grant_id, row.source) for row in rows})
            owners = [BorrowedGrant(grant_id=one, source=source, owner=tenant) for one, source in names]
            await self.host.ledger.update(NO_TENANT, BORROWED_GRANTS, *owners)
            after = key_of(rows[-1])

    async def _drop(self, grant: BorrowedGrant, who: str, wanted: _Wanted) -> None:
        """Out of the file too; and what of it is on its way is not kept."""

        def work(reader: Reader) -> tuple[None, Sequence[Commit]]:
            rows = _asked(reader, grant, wanted)
            mark = replace(grant, returns=returns_of(reader, grant) + 1)
            drops = [Drop(BORROWED_ITEMS, key_of(row)) for row in rows]
            draft = Draft(
                op="drop_borrowed",
                actor=who,
                at=self.host.clock(),
                detail={"source": grant.source, "grant_id": grant.grant_id, "items": len(rows)},
            )
            changes = (*drops, Keep(BORROWED_GRANTS, mark))
            return None, [Commit(tenant=reader.tenant, draft=draft, changes=changes)]

        await self.host.ledger.locked(grant.owner, work)
        await self.host.ledger.scrub()


def _asked(reader: Reader, grant: BorrowedGrant, wanted: _Wanted) -> list[BorrowedItem]:
    """What is kept of what is wanted back."""
    names = frozenset(wanted.item_ids)
    held = rows_of(reader, {"source": grant.source, "grant_id": grant.grant_id})
    return [row for row in held if row.item_id in names]
