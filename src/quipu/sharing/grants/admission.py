"""Who comes with a grant: a proof of the grantee's key is traded for a token, and a token for the use of the grant."""

from dataclasses import dataclass

from quipu import jose
from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError, UnverifiableError
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.model.journal import Draft
from quipu.operation import Context
from quipu.sharing import dids
from quipu.sharing.grants import model as m
from quipu.sharing.grants import tokens
from quipu.sharing.grants.rates import Rates
from quipu.sharing.grants.service import Grants, unknown
from quipu.sharing.grants.terms import Grant, grant_of
from quipu.sharing.grants.tokens import GrantUse, Shown, refused
from quipu.sharing.host import Host
from quipu.sharing.model import GRANTS, GrantRow, GrantStatus, UsedProof

#: What a grant that counts no more is refused with.
REASONS: dict[GrantStatus, str] = {
    "revoked": "grant_revoked",
    "expired": "grant_expired",
    "suspended": "grant_suspended",
}


def check_status(status: GrantStatus) -> None:
    if status != "active":
        raise refused(REASONS[status], "The grant is no longer valid.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Finds out what somebody who shows something of a grant may do."""

    host: Host
    grants: Grants
    #: How often refusals are noted, for each grant: who is refused cannot fill the owner's journal.
    noted: Rates

    # -- tokens -------------------------------------------------------------------------------------------------------

    async def exchange(self, ctx: Context, request: m.ExchangeGrantRequest) -> m.GrantTokenResponse:
        """A token for a grantee that proves a key of its own document."""
        now = self.host.clock()
        shown = Shown(scheme="", token="", proof=request.proof, method="POST", url=request.url)
        thumbprint, proof = tokens.check_proof(
            shown, now, None
        )  # before anything is looked up for a stranger
        found = await self.grants.find(request.id)
        if found is None:
            raise refused("grant_unknown")
        tenant, row = found
        grant = grant_of(row.body)
        await self._check_is_key_of(grant.grantee, thumbprint, now)
        await self._check_status(tenant, row, grant)
        await self.use_up(tenant, (proof,), now)
        return self._minted(grant, None if grant.terms.binding == "bearer" else thumbprint, now)

    async def mint(self, ctx: Context, request: m.MintGrantTokenRequest) -> m.GrantTokenResponse:
        """A token from the owner's hand, of a grant that whoever holds a token may use."""
        row = await self.host.ledger.get(GRANTS, ctx.tenant, request.id)
        if row is None:
            raise unknown()
        grant = grant_of(row.body)
        if grant.terms.binding != "bearer":
            raise InvalidError(
                "Tokens of this grant are made for who proves the grantee's key.",
                reason="bad_value",
                hint="Send the grantee the link, or share again with --bearer.",
            )
        check_status(await self.grants.status(ctx.tenant, row))
        return self._minted(grant, None, self.host.clock())

    def _minted(self, grant: Grant, thumbprint: str | None, now: int) -> m.GrantTokenResponse:
        by = self.host.keyring.signatory(None)
        claims = tokens.claims_of(
            grant, host=self.host.did, jti=self.host.new_id("tok"), now=now, thumbprint=thumbprint
        )
        return m.GrantTokenResponse(
            access_token=jose.token({"typ": tokens.GRANT_TYPE}, claims, by),
            token_type="Bearer" if thumbprint is None else "DPoP",
            expires_in=claims["exp"] - claims["iat"],
            scope=claims["scope"],
        )

    # -- requests with a token ------------------------------------------------------------------------------------------

    async def admit(self, shown: Shown, *, is_used_later: bool = False) -> GrantUse:
        """The use of a grant that a token stands for, once every check holds.

        `is_used_later`: the transaction of the caller uses up the proof.
        """
        now, host = self.host.clock(), self.host
        opened = jose.opened(shown.token)
        claims, kid = opened.claims, opened.header.get("kid")
        if opened.header.get("typ") != tokens.GRANT_TYPE or claims.get("iss") != host.did:
            raise refused()
        if not isinstance(kid, str) or ("#" in kid and dids.split(kid)[0] != host.did):
            raise refused()
        key = dids.key_of(host.keyring.document(None), host.did, kid)
        good = tokens.check_key(key, int(tokens.seconds(claims.get("iat")) * 1000))
        if not jose.is_signed(shown.token, good.jwk):
            raise refused()
        grant_id, principal = claims.get("grant_id"), claims.get("oap_principal")
        tenant = host.keyring.tenant_of(dids.split(str(principal))[0])
        row = None if tenant is None else await host.ledger.get(GRANTS, tenant, str(grant_id))
        if tenant is None or row is None:
            raise refused("grant_unknown")
        grant = grant_of(row.body)
        tokens.check_times(claims, now)
        scopes = tokens.check_claims(claims, grant, host.did)
        await self._check_status(tenant, row, grant)
        bound_to = tokens.check_binding(claims, grant, is_proven=shown.scheme == "dpop")
        proofs: tuple[UsedProof, ...] = ()
        if bound_to is not None:
            thumbprint, proof = tokens.check_proof(shown, now, shown.token)
            if thumbprint != bound_to:
                raise refused("binding_failed")
            proofs = (proof,)
        if not is_used_later:
            await self.use_up(tenant, proofs, now)
            proofs = ()
        return GrantUse(tenant=tenant, grant=grant, row=row, scopes=scopes, proofs=proofs)

    async def use_up(self, tenant: str, proofs: tuple[UsedProof, ...], now: int) -> None:
        """Each is good once."""

        def work(reader: Reader) -> tuple[None, list[Keep | Drop]]:
            return None, tokens.proofs_used(reader, proofs, now)

        if proofs:
            await self.host.ledger.settle(tenant, work)

    async def _check_status(self, tenant: str, row: GrantRow, grant: Grant) -> None:
        if (await self.host.ledger.head(tenant)).suspended_at is not None:
            raise refused("grant_suspended", "The grant is no longer valid.")
        try:
            check_status(await self.grants.status(tenant, row))
        except UnauthenticatedError as error:
            await self._note(tenant, grant, error.reason or "")
            raise

    async def _note(self, tenant: str, grant: Grant, reason: str) -> None:
        """The owner sees in the journal that somebody was refused."""
        if self.noted.wait(tenant, grant.id) is not None:
            return
        detail = {"grant_id": grant.id, "reason": reason}
        draft = Draft(op="deny", actor=grant.grantee, at=self.host.clock(), detail={**detail})
        await self.host.ledger.commit(Commit(tenant=tenant, draft=draft))

    async def _check_is_key_of(self, did: str, thumbprint: str, now: int) -> None:
        try:
            document = await self.host.documents.document(did)
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            raise refused("binding_failed") from error
        for key in dids.keys_of(document, did, "authentication"):
            is_current = key.revoked is None and (key.expires is None or now < key.expires)
            if is_current and _thumbprint(key.jwk) == thumbprint:
                return
        raise refused("binding_failed")


def _thumbprint(jwk: object) -> str | None:
    """A document may list keys of kinds that are not spoken here; they are nobody's then."""
    try:
        return jose.thumbprint(jwk)  # pyright: ignore[reportArgumentType]  whatever a document says
    except UnauthenticatedError:
        return None
