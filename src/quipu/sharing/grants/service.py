"""The owner's side of grants: share, register, look, take back. What a grant is worth is worked out in one place.

1. The status of a grant follows from its row, the clock, and the key that signed it, for everybody who asks.
2. That a grant was taken back is also noted beside the keys: an older ledger that is put in place does not revive it.
3. The id of a grant is one owner's; nobody else's grant can have it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

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
from quipu.fields import DAY_MS
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.reader import Kept, Reader
from quipu.memory.pipeline import Guard
from quipu.model.journal import Draft
from quipu.operation import Context, invalid
from quipu.sharing import dids, receipts
from quipu.sharing.dids import PublicKey
from quipu.sharing.grants import messages as m
from quipu.sharing.grants import terms
from quipu.sharing.grants.terms import EMBEDDINGS, EXPORT, QUERY, Grant, grant_of
from quipu.sharing.grants.view import Coverage, GrantViews
from quipu.sharing.host import Host, check_guard, every, kept
from quipu.sharing.model import (
    GRANT_OWNERS,
    GRANTS,
    NO_TENANT,
    SHARED_ITEMS,
    GrantOwner,
    GrantRow,
    GrantStatus,
    Receipt,
)
from quipu.sharing.times import rfc3339

#: So many items are shown of what is shared, and of a draft.
_SAMPLE, _PREVIEW = 5, 100
_UPDATED_MS = 300_000


def status_of(row: GrantRow, now: int, *, is_noted: bool, is_signed: bool) -> GrantStatus:
    """What a grant is worth. `is_noted`: it was taken back, as is noted beside the keys; `is_signed`: by a key that counts."""
    if row.revoked_at is not None or is_noted:
        return "revoked"
    if row.expires_at <= now:
        return "expired"
    return "active" if is_signed else "suspended"


@dataclass(slots=True, kw_only=True)
class Grants:
    """Grants of all owners of this host."""

    host: Host
    views: GrantViews
    #: Whether it was seen to that every grant's owner can be found: a ledger that was copied does not know them.
    _is_indexed: bool = field(default=False, init=False)

    # -- sharing ------------------------------------------------------------------------------------------------------

    async def share(self, ctx: Context, request: m.ShareRequest) -> m.ShareResponse:
        """Sign a grant with the owner's key and register it."""
        if request.dry_run:
            guard = await self.host.redactor.guard(ctx.tenant, None)
            grant = self._drafted(ctx, guard.clean(request))
            return await self._shared(ctx, grant, None, _PREVIEW)
        _ = self.host.url  # without an address nobody could use it

        async def write(guard: Guard) -> m.ShareResponse:
            grant = self._drafted(ctx, guard.clean(request))
            await self._check(ctx.tenant, grant)
            row = await self._registered(ctx.tenant, grant, ctx.principal.name, guard)
            return await self._shared(ctx, grant, row, _SAMPLE)

        return await self.host.guarded(ctx.tenant, write)

    def _drafted(self, ctx: Context, request: m.ShareRequest) -> Grant:
        keyring, now = self.host.keyring, ctx.clock()
        if not terms.is_scope(request.scope_id):
            raise invalid([Fault("/scope_id", "bad_value", "letters, digits, dots, dashes and underscores")])
        chosen: dict[str, Any] = {
            "subject_entity_ids": request.subject,
            "kinds": request.kind,
            "labels_any": request.label,
            "all": request.all or None,
        }
        filter: dict[str, Any] = dict(request.filter or {})
        for name, part in chosen.items():
            if part:
                filter[name] = part if part is True else [*part]
        scopes = [QUERY, *([EMBEDDINGS] if request.embeddings else []), *([EXPORT] if request.export else [])]
        ends = request.expires_at or now + request.days * DAY_MS
        body: dict[str, Any] = {
            "grant_id": self.host.new_id("mgr"),
            "granter": f"{keyring.did(ctx.tenant)}#{request.scope_id}",
            "grantee": request.grantee,
            "purpose": request.purpose,
            "filter": filter,
            "max_items": request.max_items,
            "issued_at": rfc3339(now // 1000 * 1000),
            "expires_at": rfc3339(ends // 1000 * 1000),
            "revocable": True,
            "redaction_profile": request.profile,
            "trust_level": request.level,
            "lawful_basis": request.lawful_basis,
            "scopes": scopes,
            "binding": "bearer" if request.bearer else "dpop",
        }
        if request.purpose_code is not None:
            body["purpose_code"] = request.purpose_code
        if keyring.is_public:
            body["revocation_endpoint"] = f"{keyring.public_url}/.well-known/oap-revocation"
        return grant_of(receipts.signed(body, keyring.signatory(ctx.tenant)))

    async def _shared(self, ctx: Context, grant: Grant, row: GrantRow | None, most: int) -> m.ShareResponse:
        coverage = await self.views.read(ctx.tenant, grant)
        newest = coverage.ranked("", (), ctx.clock())
        shown = [_shown(one.shared.shown.item) for one in islice(newest, min(most, grant.terms.max_items))]
        return m.ShareResponse(
            grant_id=grant.id,
            status=None if row is None else await self.status(ctx.tenant, row),
            link=None if row is None else self.link(grant.id),
            expires_at=grant.expires_at,
            covered=len(coverage.items),
            items=tuple(shown),
            grant=dict(grant.body),
            endpoints={} if row is None else self.endpoints(grant.id),
            warnings=_warnings(grant, coverage),
        )

    async def register(self, ctx: Context, request: m.RegisterGrantRequest) -> m.RegisterGrantResponse:
        """A grant that its owner has signed elsewhere. A stranger's makes no key and takes no id."""
        grant = grant_of(request.grant)
        tenant = self.host.keyring.tenant_of(grant.owner)
        if tenant is None or await self.host.ledger.tenant(tenant) is None:
            raise _unsigned()
        if not await self._is_signed(grant, by_current_key=True):
            raise _unsigned()
        await self._check(tenant, grant)
        guard = await self.host.redactor.guard(tenant, None)
        guard.clean(request)
        row = await self._registered(tenant, grant, grant.owner, guard)
        return m.RegisterGrantResponse(
            grant_id=grant.id,
            status=await self.status(tenant, row),
            grant=dict(grant.body),
            endpoints=self.endpoints(grant.id),
        )

    async def _check(self, tenant: str, grant: Grant) -> None:
        documents, now = self.host.documents, self.host.clock()
        terms.check(grant, now, dids.fragments_of(await documents.document(grant.owner)))
        if self.host.keyring.tenant_of(grant.grantee) == tenant:
            raise invalid([Fault("/grantee", "bad_value", "somebody else: nobody shares with themselves")])
        try:
            await documents.document(grant.grantee)
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            accepted = "a DID whose document can be had"
            raise invalid([Fault("/grantee", "did_unresolved", accepted)]) from error

    async def _registered(self, tenant: str, grant: Grant, actor: str, guard: Guard) -> GrantRow:
        """The row of a grant that was checked, on receipt. The same one again changes nothing."""

        def claim(reader: Reader) -> tuple[None, Sequence[GrantOwner]]:
            known = reader.get(GRANT_OWNERS, grant.id)
            if known is not None and known.owner != tenant:
                raise _taken()
            return None, () if known is not None else [GrantOwner(id=grant.id, owner=tenant)]

        await self.host.ledger.revise(NO_TENANT, GRANT_OWNERS, claim)
        now = self.host.clock()
        # The row may have gone with a newer ledger.
        was_revoked = self.host.keyring.is_revoked(tenant, grant.id)
        row = GrantRow(
            id=grant.id,
            hash=grant.hash,
            body=grant.body,
            grantee=grant.grantee,
            registered_at=now,
            expires_at=grant.expires_at,
            revoked_at=now if was_revoked else None,
        )

        def work(reader: Reader) -> tuple[GrantRow, Sequence[Commit]]:
            check_guard(reader, guard)
            known = reader.get(GRANTS, grant.id)
            if known is not None:
                if known.hash != grant.hash:
                    raise _taken()
                return known, ()
            receipt = self._consent(reader, grant, "memory_grant_create", now)
            detail: dict[str, Any] = {"level": grant.level, "max_items": grant.terms.max_items}
            return row, [self._commit(reader, "grant", actor, row, receipt, Keep(GRANTS, row, 0), **detail)]

        return await self.host.ledger.locked(tenant, work)

    def _consent(self, reader: Reader, grant: Grant, action: str, now: int) -> Receipt:
        decision = self.host.decision(
            "allow",
            "memory.grant.given" if action == "memory_grant_create" else "memory.grant.revoked",
            scope_id=grant.scope_id,
            consumed_grant_id=grant.id,
            grant_hash=grant.hash,
        )
        return self.host.receipt(
            reader,
            "consent",
            at=now,
            agent=grant.grantee,
            grant_id=grant.id,
            action_id=action,
            action_version=receipts.ACTION_VERSION,
            policy_decisions=[decision],
            provenance_tags_out=[f"grant:{grant.id}", f"scope:{grant.scope_id}"],
        )

    @staticmethod
    def _commit(
        reader: Reader, op: str, actor: str, row: GrantRow, receipt: Receipt, change: Keep, **detail: Any
    ) -> Commit:
        told = {"grant_id": row.id, "grantee": row.grantee, "receipt_id": receipt.id, **detail}
        draft = Draft(op=op, actor=actor, at=receipt.at, detail=told)
        return Commit(tenant=reader.tenant, draft=draft, changes=(change, kept(receipt)))

    # -- what a grant is worth ----------------------------------------------------------------------------------------

    async def status(self, tenant: str, row: GrantRow) -> GrantStatus:
        """What a grant is worth at this moment."""
        is_noted = self.host.keyring.is_revoked(tenant, row.id)
        is_signed = await self._is_signed(grant_of(row.body))
        return status_of(row, self.host.clock(), is_noted=is_noted, is_signed=is_signed)

    async def status_document(self, grant_id: str) -> dict[str, Any]:
        """What anybody who knows the id may know, signed by this host."""
        found = await self.find(grant_id)
        if found is None:
            raise unknown()
        now = self.host.clock()
        body = {
            "grant_id": grant_id,
            "status": await self.status(*found),
            "as_of": rfc3339(now),
            "next_update": rfc3339(now + _UPDATED_MS),
        }
        return {**body, "signature": jose.detached(canonical(body), self.host.keyring.signatory(None))}

    async def find(self, grant_id: str) -> tuple[str, GrantRow] | None:
        """A grant by its id alone, and whose it is."""
        ledger = self.host.ledger
        owner = await ledger.get(GRANT_OWNERS, NO_TENANT, grant_id)
        if owner is None and not self._is_indexed:
            self._is_indexed = True
            await self.host.index(
                GRANTS, GRANT_OWNERS, lambda tenant, row: GrantOwner(id=row.id, owner=tenant)
            )
            owner = await ledger.get(GRANT_OWNERS, NO_TENANT, grant_id)
        row = None if owner is None else await ledger.get(GRANTS, owner.owner, grant_id)
        return None if owner is None or row is None else (owner.owner, row)

    async def _is_signed(self, grant: Grant, *, by_current_key: bool = False) -> bool:
        """Whether a key of the granter's signed it that is not compromised. Without the granter's document: no."""
        now = self.host.clock()
        try:
            document = await self.host.documents.document(grant.owner)
            keys = [key for key in dids.keys_of(document, grant.owner) if key.revoked is None]
            if by_current_key:
                keys = [key for key in keys if key.expires is None or now < key.expires]
            return _is_signed(grant, keys)
        except (QuipuError, ValueError):
            return False

    def link(self, grant_id: str) -> str:
        """What a grantee uses."""
        return f"{self.host.url}/oap/memory/grant/{grant_id}"

    def endpoints(self, grant_id: str) -> dict[str, str]:
        """Where a grant is used, ended and asked about."""
        url, link = self.host.url, self.link(grant_id)
        return {
            "query": f"{url}/oap/memory/query",
            "token": f"{link}/token",
            "revoke": link,
            "status": f"{url}/.well-known/oap-revocation?grant_id={grant_id}",
        }

    # -- looking --------------------------------------------------------------------------------------------------------

    async def listed(self, ctx: Context, request: m.ListGrantsRequest) -> m.ListGrantsResponse:
        found: list[m.GrantView] = []
        after = None if request.cursor is None else (request.cursor,)
        cursor: str | None = None
        while cursor is None:
            rows = await self.host.ledger.page(
                GRANTS, ctx.tenant, after=after, limit=request.limit + 1, newest_first=True
            )
            for row in rows:
                if len(found) == request.limit:
                    cursor = found[-1].id
                    break
                view = await self.view(ctx.tenant, row)
                if request.status in (None, view.status):
                    found.append(view)
            if len(rows) <= request.limit:
                break
            after = (rows[-1].id,)
        keyring = self.host.keyring
        return m.ListGrantsResponse(
            grants=tuple(found), owner=keyring.did(ctx.tenant), host=keyring.did(None), next_cursor=cursor
        )

    async def get(self, ctx: Context, request: m.GetGrantRequest) -> m.GetGrantResponse:
        row = await self.host.ledger.get(GRANTS, ctx.tenant, request.id)
        if row is None:
            raise unknown()
        shown = await self.host.ledger.page(SHARED_ITEMS, ctx.tenant, {"grant_id": row.id}, limit=1000)
        return m.GetGrantResponse(
            grant=await self.view(ctx.tenant, row),
            link=self.link(row.id) if self.host.keyring.is_public else None,
            shown=tuple(
                m.ShownView(item_id=one.item_id, record_id=one.record_id, at=one.at) for one in shown
            ),
        )

    async def view(self, tenant: str, row: GrantRow) -> m.GrantView:
        """A grant as its owner sees it."""
        grant = grant_of(row.body)
        return m.GrantView(
            id=row.id,
            grantee=row.grantee,
            purpose=grant.terms.purpose,
            status=await self.status(tenant, row),
            registered_at=row.registered_at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            level=grant.level,
            uses=row.uses,
            items_disclosed=row.disclosed,
            items_remaining=max(0, grant.terms.max_items - row.disclosed),
            grant=dict(row.body),
        )

    # -- taking back ----------------------------------------------------------------------------------------------------

    async def revoke(self, ctx: Context, request: m.RevokeGrantRequest) -> m.RevokeGrantResponse:
        return await self.revoked(ctx.tenant, request.id, ctx.principal.name)

    async def revoked(self, tenant: str, grant_id: str, actor: str) -> m.RevokeGrantResponse:
        """Taken back by the granter, or given up by the grantee. Once more changes nothing."""
        if await self.host.ledger.get(GRANTS, tenant, grant_id) is None:
            raise unknown()
        now = self.host.clock()
        self.host.keyring.note_revoked(tenant, grant_id)

        def work(reader: Reader) -> tuple[GrantRow, Sequence[Commit]]:
            known = reader.kept(GRANTS, grant_id)
            if known is None:
                raise unknown()
            if known.value.revoked_at is not None:
                return known.value, ()
            ended = replace(known.value, revoked_at=now)
            receipt = self._consent(reader, grant_of(ended.body), "memory_grant_revoke", now)
            return ended, [
                self._commit(reader, "revoke", actor, ended, receipt, Keep(GRANTS, ended, known.seq))
            ]

        row = await self.host.ledger.locked(tenant, work)
        return m.RevokeGrantResponse(grant_id=grant_id, status="revoked", revoked_at=row.revoked_at or now)

    async def revoke_all(self, ctx: Context, request: m.RevokeAllGrantsRequest) -> m.RevokeAllGrantsResponse:
        """In one transaction, on one receipt."""
        tenant, now, host = ctx.tenant, ctx.clock(), self.host
        for row in await host.ledger.read(tenant, _not_revoked):
            host.keyring.note_revoked(tenant, row.value.id)

        def work(reader: Reader) -> tuple[list[str], Sequence[Commit]]:
            found = _not_revoked(reader)
            names = [row.value.id for row in found]
            if not found:
                return names, ()
            receipt = host.receipt(
                reader,
                "kill_switch",
                at=now,
                agent=host.keyring.did(tenant),
                policy_decisions=[host.decision("block", "memory.grant.revoked_all", grants_revoked=names)],
            )
            detail: dict[str, Any] = {"grants": names, "receipt_id": receipt.id}
            draft = Draft(op="revoke", actor=ctx.principal.name, at=now, detail=detail)
            ended = (Keep(GRANTS, replace(row.value, revoked_at=now), row.seq) for row in found)
            return names, [Commit(tenant=tenant, draft=draft, changes=(*ended, kept(receipt)))]

        names = await host.ledger.locked(tenant, work)
        for name in names:
            host.keyring.note_revoked(tenant, name)
        return m.RevokeAllGrantsResponse(revoked=len(names))


def _not_revoked(reader: Reader) -> list[Kept[GrantRow]]:
    return [row for row in every(reader, GRANTS) if row.value.revoked_at is None]


def _is_signed(grant: Grant, keys: Sequence[PublicKey]) -> bool:
    """By the key that the signature names, or, where it names none, by any of these."""
    given: Any = grant.terms.signature
    message = canonical(receipts.without(grant.body, "signature"))
    named, text, verify = None, given, jose.verify
    if isinstance(given, dict):
        signature = cast("Mapping[str, Any]", given)
        named, text = signature.get("kid"), str(signature.get("value"))
    elif ".." in given:
        named, verify = jose.opened_detached(given).get("kid"), jose.verify_detached
    if named is not None:
        keys = [key for key in keys if named in (key.kid, dids.split(key.kid)[1])]
    return any(verify(message, text, key.jwk) for key in keys)


def _shown(item: Mapping[str, Any]) -> m.SharedView:
    return m.SharedView(
        item_id=item["item_id"], kind=item["kind"], text=item["content"].get("text"), item=dict(item)
    )


def _warnings(grant: Grant, coverage: Coverage) -> tuple[str, ...]:
    said: list[str] = []
    if not coverage.items:
        said.append("Nothing fits yet. What is remembered later and fits is shared too.")
    if 0 < grant.level < 4:
        said.append("Names other than those of your contacts, and postal addresses, are not recognised.")
    if grant.level == 4:
        said.append("Level 4 shows items as they are: nothing is masked.")
    return tuple(said)


def _taken() -> ConflictError:
    return ConflictError("There is another grant of this id.", reason="grant_taken")


def unknown() -> NotFoundError:
    return NotFoundError("There is no such grant.", reason="grant")


def _unsigned() -> ForbiddenError:
    return ForbiddenError("The grant is not signed by an owner whose memory is here.", reason="bad_signature")
