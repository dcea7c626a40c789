"""Who comes with a grant: a proof of the grantee's key is traded for a token, a token for the use of the grant.

1. Every check is made on every request; the grant's row is read again in the transaction that discloses.
2. Whatever is wrong with a token, its holder learns only which kind of thing.
3. A proof of a key (DPoP, RFC 9449) is good once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

from quipu import jose
from quipu.access.budgets import Bucket, taken_from
from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError, UnverifiableError
from quipu.jose import Signatory, b64
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.model.journal import Draft
from quipu.operation import Clock, Context
from quipu.sharing import dids
from quipu.sharing.dids import PublicKey
from quipu.sharing.grants import messages as m
from quipu.sharing.grants.service import Grants, unknown
from quipu.sharing.grants.terms import Grant, grant_of
from quipu.sharing.host import Host
from quipu.sharing.model import GRANTS, USED_PROOFS, GrantRow, GrantStatus, UsedProof

GRANT_TYPE = "oap-memory-grant+jwt"
PROOF_TYPE = "dpop+jwt"
TOKEN_S = 600
_SKEW_S = 60
#: How far the time of a proof may be off, and how long it is remembered.
PROOF_S = 300
_REMEMBERED_MS = 600_000
#: No time that somebody means is further away.
_FURTHEST_S = 1e12
_TIDIED = 50
#: So often a grant is used, and a refusal of it noted, and for so many grants that is counted.
PER_MINUTE, _MOST_RATES = 60, 20_000
#: What a grant that counts no more is refused with.
_REASONS: Mapping[GrantStatus, str] = {
    "revoked": "grant_revoked",
    "expired": "grant_expired",
    "suspended": "grant_suspended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What somebody shows: `Authorization`, the proof beside it, and the request that it is for."""

    scheme: str
    token: str
    proof: str | None
    method: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantUse:
    """A request under a grant, once its token was found good."""

    tenant: str
    grant: Grant
    #: The row as it was read; the transaction that discloses reads it again.
    row: GrantRow
    scopes: frozenset[str]
    #: Proofs that this request uses up.
    proofs: tuple[UsedProof, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantContext(Context):
    """The context of a call under a grant. Its principal is the grantee, who has no permission of this server's."""

    use: GrantUse | None = None


def use_of(ctx: Context) -> GrantUse:
    """The grant that a call is made under."""
    use = ctx.use if isinstance(ctx, GrantContext) else None
    if use is None:
        raise refused("no_credential", "This is for who has a grant's token.")
    return use


def refused(reason: str = "bad_token", message: str = "The token is not good.") -> UnauthenticatedError:
    return UnauthenticatedError(message, reason=reason)


def check_status(status: GrantStatus) -> None:
    if status != "active":
        raise refused(_REASONS[status], "The grant is no longer valid.")


class Rates:
    """So many times a minute for each grant, in this process; grants that were not used for longest are forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def wait(self, tenant: str, grant_id: str) -> int | None:
        """None, and it counts; or the seconds to wait."""
        key = (tenant, grant_id)
        self._buckets[key], wait = taken_from(self._buckets.pop(key, None), PER_MINUTE, self._clock())
        if len(self._buckets) > _MOST_RATES:
            self._buckets.popitem(last=False)
        return wait


# -- rules --------------------------------------------------------------------------------------------------------


def claims_of(grant: Grant, *, host: str, jti: str, now: int, thumbprint: str | None) -> dict[str, Any]:
    """The claims of a new token. It never outlives its grant."""
    issued = now // 1000
    claims: dict[str, Any] = {
        "iss": host,
        "sub": grant.grantee,
        "aud": host,
        "jti": jti,
        "grant_id": grant.id,
        "iat": issued,
        "nbf": issued,
        "exp": min(issued + TOKEN_S, grant.expires_at // 1000),
        "oap_principal": grant.terms.granter,
        "oap_agent": grant.grantee,
        "oap_scope": grant.scope_id,
        "scope": " ".join(sorted(grant.terms.scopes)),
        "grant_hash": grant.hash,
    }
    return claims if thumbprint is None else {**claims, "cnf": {"jkt": thumbprint}}


def check_key(key: PublicKey | None, signed_at: int) -> PublicKey:
    """A key that is there, is not compromised, and had not been retired when it signed."""
    if key is None or key.revoked is not None or (key.expires is not None and signed_at > key.expires):
        _refuse()
    return key


def check_times(claims: Mapping[str, Any], now: int) -> None:
    """Begun, not over, and not longer than allowed; clocks may differ by a minute."""
    issued, begins, ends = (seconds(claims.get(name)) for name in ("iat", "nbf", "exp"))
    at = now / 1000
    if ends + _SKEW_S <= at or begins - _SKEW_S > at or issued - _SKEW_S > at:
        _refuse()
    if not 0 <= ends - issued <= TOKEN_S:
        _refuse()


def check_claims(claims: Mapping[str, Any], grant: Grant, host: str) -> frozenset[str]:
    """The token is for this host and about this grant, and allows no more than the grant; what it allows."""
    wanted = {
        "iss": host,
        "aud": host,
        "sub": grant.grantee,
        "grant_id": grant.id,
        "grant_hash": grant.hash,
        "oap_principal": grant.terms.granter,
        "oap_agent": grant.grantee,
        "oap_scope": grant.scope_id,
    }
    jti, scope = claims.get("jti"), claims.get("scope")
    if any(claims.get(name) != value for name, value in wanted.items()):
        _refuse()
    scopes = frozenset(scope.split()) if isinstance(scope, str) else frozenset[str]()
    if not isinstance(jti, str) or not jti or not scopes or not scopes <= set(grant.terms.scopes):
        _refuse()
    return scopes


def check_binding(claims: Mapping[str, Any], grant: Grant, *, is_proven: bool) -> str | None:
    """The thumbprint that a proof must have; None where whoever holds the token may use it."""
    cnf = claims.get("cnf")
    if cnf is None and grant.terms.binding == "bearer":
        if is_proven:
            _refuse("binding_failed")
        return None
    jkt = cast("Mapping[str, Any]", cnf).get("jkt") if isinstance(cnf, Mapping) else None
    if not isinstance(jkt, str) or not jkt or not is_proven:
        _refuse("binding_failed")
    return jkt


def check_proof(shown: Shown, now: int, token: str | None) -> tuple[str, UsedProof]:
    """The thumbprint of the key that a proof was made with, and what makes it good once."""
    if not shown.proof:
        _refuse("binding_failed")
    opened = jose.opened(shown.proof)
    header, claims = opened.header, opened.claims
    made, jti, jwk = claims.get("iat"), claims.get("jti"), header.get("jwk")
    if not isinstance(jti, str) or not 8 <= len(jti) <= 256 or not isinstance(jwk, Mapping):
        _refuse("binding_failed")
    key = cast("Mapping[str, Any]", jwk)
    at = seconds(made)
    is_right = (
        header.get("typ") == PROOF_TYPE
        and "d" not in key
        and claims.get("htm") == shown.method
        and is_same_address(claims.get("htu"), shown.url)
        and abs(now / 1000 - at) <= PROOF_S
        and (token is None or claims.get("ath") == b64(hashlib.sha256(token.encode()).digest()))
    )
    if not is_right or not jose.is_signed(shown.proof, key):
        _refuse("binding_failed")
    thumbprint = jose.thumbprint(key)
    digest = hashlib.sha256(f"{thumbprint}.{jti}".encode("utf-8", "surrogatepass")).hexdigest()
    return thumbprint, remembered(at, digest)


def remembered(at: float, digest: str) -> UsedProof:
    """What makes something that was signed at a time, in seconds, good once."""
    until = int(at * 1000) + _REMEMBERED_MS
    # The time stands first, so that the oldest are found first.
    return UsedProof(id=f"{until:016d}.{digest}", until=until)


def proof(by: Signatory, method: str, url: str, *, at: int, jti: str, token: str | None = None) -> str:
    """A proof that this very request comes from who has the key; `token`: the one that is sent with it."""
    address = urlsplit(url)
    claims: dict[str, Any] = {
        "jti": jti,
        "htm": method,
        "htu": f"{address.scheme}://{address.netloc}{address.path}",
        "iat": at // 1000,
    }
    if token is not None:
        claims["ath"] = b64(hashlib.sha256(token.encode()).digest())
    return jose.token({"typ": PROOF_TYPE, "jwk": dict(by.jwk)}, claims, by)


def is_same_address(given: object, url: str) -> bool:
    """Whether two addresses are the same but for query and fragment."""
    if not isinstance(given, str):
        return False
    try:
        one, other = urlsplit(given), urlsplit(url)
    except ValueError:
        return False
    return (one.scheme.lower(), one.netloc.lower(), one.path) == (
        other.scheme.lower(),
        other.netloc.lower(),
        other.path,
    )


def seconds(value: object) -> float:
    """A time of a token; anybody writes tokens, also with numbers that no clock will show."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _FURTHEST_S:
        _refuse()
    return float(value)


def proofs_used(reader: Reader, proofs: Sequence[UsedProof], now: int) -> list[Keep | Drop]:
    """What notes that these were used; refused where one was used before. What is long past is forgotten."""
    if not proofs:
        return []
    if any(reader.get(USED_PROOFS, proof.id) is not None for proof in proofs):
        _refuse("binding_failed")
    past = (row.value for row in reader.rows(USED_PROOFS, limit=_TIDIED) if row.value.until < now)
    return [*(Keep(USED_PROOFS, proof) for proof in proofs), *(Drop(USED_PROOFS, (one.id,)) for one in past)]


def _refuse(reason: str = "bad_token") -> NoReturn:
    raise refused(reason)


# -- admission ----------------------------------------------------------------------------------------------------


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
        # Before anything is looked up for somebody unknown.
        thumbprint, proof = check_proof(shown, now, None)
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
        claims = claims_of(
            grant, host=self.host.did, jti=self.host.new_id("tok"), now=now, thumbprint=thumbprint
        )
        return m.GrantTokenResponse(
            access_token=jose.token({"typ": GRANT_TYPE}, claims, by),
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
        if opened.header.get("typ") != GRANT_TYPE or claims.get("iss") != host.did:
            raise refused()
        if not isinstance(kid, str) or ("#" in kid and dids.split(kid)[0] != host.did):
            raise refused()
        key = dids.key_of(host.keyring.document(None), host.did, kid)
        good = check_key(key, int(seconds(claims.get("iat")) * 1000))
        if not jose.is_signed(shown.token, good.jwk):
            raise refused()
        grant_id, principal = claims.get("grant_id"), claims.get("oap_principal")
        tenant = host.keyring.tenant_of(dids.split(str(principal))[0])
        row = None if tenant is None else await host.ledger.get(GRANTS, tenant, str(grant_id))
        if tenant is None or row is None:
            raise refused("grant_unknown")
        grant = grant_of(row.body)
        check_times(claims, now)
        scopes = check_claims(claims, grant, host.did)
        await self._check_status(tenant, row, grant)
        bound_to = check_binding(claims, grant, is_proven=shown.scheme == "dpop")
        proofs: tuple[UsedProof, ...] = ()
        if bound_to is not None:
            thumbprint, proof = check_proof(shown, now, shown.token)
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
            return None, proofs_used(reader, proofs, now)

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
