"""Being told that something is erased which others lent: it goes, for whoever lent it, by their signature, on receipt.

Nobody can make us drop what they did not lend.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict

from quipu import jose
from quipu.errors import (
    BackendUnavailableError,
    ForbiddenError,
    InvalidError,
    UnverifiableError,
)
from quipu.fields import Redact, bad_value
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Change, Commit, Drop
from quipu.ledger.reader import Reader
from quipu.model.journal import Draft
from quipu.operation import Context, Request
from quipu.sharing import dids, receipts
from quipu.sharing.erasure.cascade import GRANT_TAG
from quipu.sharing.grants import tokens
from quipu.sharing.grants.terms import Did
from quipu.sharing.host import Host
from quipu.sharing.host_messages import ReturnBorrowedRequest, ReturnBorrowedResponse
from quipu.sharing.model import (
    BORROWED_GRANTS,
    BORROWED_ITEMS,
    NO_TENANT,
    BorrowedItem,
    UsedProof,
)

#: How far the time of a signature may be off, and how long it is remembered.
_FRESH_S = 300
_REMEMBERED_MS = 600_000
_MOST_ITEMS = 10_000
_PAGE = 500


def _one_grant(tags: tuple[str, ...]) -> tuple[str, ...]:
    if sum(tag.startswith(GRANT_TAG) for tag in tags) != 1:
        raise bad_value(f"one tag {GRANT_TAG}ID: the grant under which the items were shown")
    return tags


class _Wanted(Request):
    """OAP's request to delete, as whoever lent something sends it."""

    principal_did: Did
    item_ids: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=256), Redact.NONE], ...],
        Strict(False),
        Field(min_length=1, max_length=_MOST_ITEMS),
    ]
    provenance_tags: Annotated[
        tuple[Annotated[str, Field(max_length=512), Redact.NONE], ...],
        Strict(False),
        Field(max_length=64),
        AfterValidator(_one_grant),
    ]
    reason: Annotated[str, Field(max_length=256), Redact.NONE] = "erased"
    scope_id: Annotated[str, Field(max_length=256), Redact.NONE] | None = None
    cascade: bool = True

    @property
    def grant_id(self) -> str:
        """The grant under which they were shown."""
        return next(tag.removeprefix(GRANT_TAG) for tag in self.provenance_tags if tag.startswith(GRANT_TAG))


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """Gives back what others want back."""

    host: Host

    async def returned(self, ctx: Context, request: ReturnBorrowedRequest) -> ReturnBorrowedResponse:
        """Drop it. What somebody else lent stays, and then nothing is put on receipt: it would not be true."""
        now = self.host.clock()
        who, proof = await self._signer(request.body, request.signature, now)
        wanted = _Wanted.parse(request.body)
        is_held = False
        is_theirs = False
        for owner in await self._holders(wanted.grant_id):
            held, dropped = await self.host.ledger.locked(
                owner, lambda reader: self._drop(reader, who, wanted, proof, now)
            )
            is_held, is_theirs = is_held or held > 0, is_theirs or dropped > 0
        if is_held and not is_theirs:
            raise ForbiddenError("Only who lent something has it back.", reason="bad_signature")
        if is_theirs:
            await self.host.ledger.scrub()
        receipt = receipts.deletion_receipt(
            id=self.host.ulid(),
            principal=wanted.principal_did,
            scope_id=wanted.scope_id,
            requested_at=now,
            completed_at=now,
            digest=receipts.hashed(sorted(wanted.item_ids)),
            count=len(wanted.item_ids),
            reason=wanted.reason,
            grants=[wanted.grant_id],
            told=(),
            by=self.host.keyring.signatory(None),
        )
        return ReturnBorrowedResponse(receipt=receipt)

    async def _holders(self, grant_id: str) -> Sequence[str]:
        """Tenants that were shown something under a grant of this id."""
        rows = await self.host.ledger.page(BORROWED_GRANTS, NO_TENANT, {"grant_id": grant_id}, limit=_PAGE)
        return list(dict.fromkeys(row.owner for row in rows))

    def _drop(
        self, reader: Reader, who: str, wanted: _Wanted, proof: UsedProof, now: int
    ) -> tuple[tuple[int, int], Sequence[Commit]]:
        """How many of the items are kept here, and how many of these go."""
        names = frozenset(wanted.item_ids)
        held = [row for row in _rows(reader, wanted.grant_id) if row.item_id in names]
        theirs = [row for row in held if who in (row.source, row.item.get("owner_did"))]
        if not theirs:
            return (len(held), 0), ()
        changes: list[Change] = [
            Drop(BORROWED_ITEMS, (row.source, row.grant_id, row.item_id)) for row in theirs
        ]
        changes += tokens.proofs_used(reader, (proof,), now)
        detail: dict[str, Any] = {"source": who, "grant_id": wanted.grant_id, "items": len(theirs)}
        draft = Draft(op="drop_borrowed", actor=who, at=now, detail=detail)
        return (len(held), len(theirs)), [Commit(tenant=reader.tenant, draft=draft, changes=tuple(changes))]

    async def _signer(self, body: Mapping[str, Any], signature: str, now: int) -> tuple[str, UsedProof]:
        """Who signed a body just now, and what makes the signature good once."""
        header = jose.opened_detached(signature)
        did, _ = dids.split(str(header.get("kid")))
        made, jti = tokens.seconds(header.get("iat")), header.get("jti")
        if not isinstance(jti, str) or not 8 <= len(jti) <= 256 or abs(made - now / 1000) > _FRESH_S:
            raise tokens.refused("bad_signature")
        try:
            document = await self.host.documents.document(did)
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            raise tokens.refused("bad_signature") from error
        key = tokens.check_key(dids.key_of(document, did, str(header.get("kid"))), now)
        if not jose.verify_detached(canonical(body), signature, key.jwk):
            raise tokens.refused("bad_signature")
        digest = hashlib.sha256(f"{did}.{jti}".encode("utf-8", "surrogatepass")).hexdigest()
        until = int(made * 1000) + _REMEMBERED_MS
        return did, UsedProof(id=f"{until:016d}.{digest}", until=until)


def _rows(reader: Reader, grant_id: str) -> Iterator[BorrowedItem]:
    after: tuple[str, str, str] | None = None
    while rows := reader.rows(BORROWED_ITEMS, {"grant_id": grant_id}, after=after, limit=_PAGE):
        yield from (row.value for row in rows)
        last = rows[-1].value
        after = (last.source, last.grant_id, last.item_id)
