"""Tokens: what has to be in one, and what has to be right about it (OAP contract 4.5, D1, D2, 13.4).

Signatures are checked elsewhere; here is what must hold once they are right. Every check is mandatory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

from quipu.errors import ConflictError, UnauthenticatedError
from quipu.model.grants import Binding, Grant, GrantStatus, KeptGrant
from quipu.rules.dids import PublicKey, split

GRANT_TYPE = "oap-memory-grant+jwt"
PROOF_TYPE = "dpop+jwt"
#: An OAP Trust Token, by which an agent comes in an owner's name, and what it may be for.
TRUST_TYPE = "oap-trust+jwt"
OWNED = ("memory_grant_create", "memory_grant_revoke", "memory_export", "memory_import", "memory_delete")
SKEW_S = 60
TOKEN_S = 600
LONGEST_S = 3600
#: No time that somebody means is further away.
_FURTHEST_S = 1e12
#: How long a proof is good, and how long it is remembered.
PROOF_S = 300
REPLAY_MS = 600_000
#: What the names of things begin with that are good once: a proof of a key, the id of a request.
PROOF = "proof."
REQUEST = "request."
_STANDINGS = {
    GrantStatus.REVOKED: "grant_revoked",
    GrantStatus.EXPIRED: "grant_expired",
    GrantStatus.SUSPENDED: "grant_suspended",
}


def refused(reason: str = "bad_token", message: str = "The token is not good.") -> UnauthenticatedError:
    """Whatever is wrong with a token, its holder learns only which kind of thing."""
    return UnauthenticatedError(message, reason=reason)


def _not_good(reason: str = "bad_token") -> NoReturn:
    raise refused(reason)


def check_standing(kept: KeptGrant | None, now: int) -> KeptGrant:
    """The grant, if it counts at this moment."""
    if kept is None:
        raise refused("grant_unknown")
    standing = kept.standing(now)
    if standing is not GrantStatus.ACTIVE:
        raise refused(_STANDINGS[standing], "The grant is no longer valid.")
    return kept


def check_once(replayed: frozenset[str]) -> None:
    """Nothing of a request was used before (D23)."""
    if any(name.startswith(PROOF) for name in replayed):
        _not_good("binding_failed")
    if replayed:
        raise ConflictError("A request of this id was answered already.", reason="request_replayed")


def check_assertion(claims: Mapping[str, Any], client: str, audiences: tuple[str, ...], now_s: float) -> str:
    """A client's word for itself, to this host, for a few minutes (RFC 7523); returns what makes it good once."""
    issued, ends = seconds(claims.get("iat")), seconds(claims.get("exp"))
    jti = claims.get("jti")
    is_right = (
        claims.get("iss") == client
        and claims.get("sub") == client
        and claims.get("aud") in audiences
        and now_s < ends + SKEW_S
        and issued - SKEW_S <= now_s
        and 0 <= ends - issued <= PROOF_S
        and isinstance(jti, str)
        and 8 <= len(jti) <= 256
    )
    if not is_right or not isinstance(jti, str):
        _not_good("binding_failed")
    return jti


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustToken:
    """What a Trust Token says: who comes for whom, for what, until when, and with which key."""

    principal: str
    agent: str
    scope: frozenset[str]
    ends_s: float
    thumbprint: str


def check_trust(claims: Mapping[str, Any], audience: str, now_s: float) -> TrustToken:
    """All that has to be in a Trust Token, for this host and for now. One that is bound to no key is none."""
    principal, agent, scope, nonce = (claims.get(name) for name in ("iss", "agent", "scope", "nonce"))
    issued, ends = seconds(claims.get("iat")), seconds(claims.get("exp"))
    cnf = claims.get("cnf")
    jkt = cast("Mapping[str, Any]", cnf).get("jkt") if isinstance(cnf, Mapping) else None
    if not isinstance(principal, str) or not isinstance(agent, str) or not isinstance(scope, str):
        _not_good()
    if any(claims.get(name, principal) != principal for name in ("sub", "oap_principal")):
        _not_good()
    if claims.get("oap_agent", agent) != agent or claims.get("aud") != audience:
        _not_good()
    if not isinstance(nonce, str) or not 8 <= len(nonce) <= 256:
        _not_good()
    if ends + SKEW_S <= now_s:
        _not_good("token_expired")
    if issued - SKEW_S > now_s or not 0 <= ends - issued <= TOKEN_S:
        _not_good()
    if not isinstance(jkt, str) or not jkt:
        _not_good("binding_failed")
    named = frozenset(scope.split())
    if not named or not named <= set(OWNED):
        _not_good()
    return TrustToken(principal=principal, agent=agent, scope=named, ends_s=ends, thumbprint=jkt)


def claims_for(
    grant: Grant, *, issuer: str, audience: str, jti: str, now_s: int, life_s: int, thumbprint: str | None
) -> dict[str, Any]:
    """The claims of a token that the host mints."""
    most = TOKEN_S if grant.binding is Binding.BEARER else LONGEST_S
    end = min(now_s + min(life_s, most), grant.expires_at // 1000)
    claims: dict[str, Any] = {
        "iss": issuer,
        "sub": grant.grantee,
        "aud": audience,
        "jti": jti,
        "grant_id": grant.id,
        "iat": now_s,
        "nbf": now_s,
        "exp": end,
        "oap_principal": grant.granter,
        "oap_agent": grant.grantee,
        "oap_scope": grant.scope_id,
        "scope": " ".join(sorted(grant.scopes)),
        "grant_hash": grant.hash,
    }
    return claims if thumbprint is None else {**claims, "cnf": {"jkt": thumbprint}}


def check_header(header: Mapping[str, Any], issuer: str, kind: str = GRANT_TYPE) -> str:
    """The name of the key, which must stand under the issuer."""
    kid = header.get("kid")
    if header.get("typ") != kind or not isinstance(kid, str) or not kid:
        _not_good()
    if "#" in kid and split(kid)[0] != issuer:
        _not_good()
    return kid


def check_key(key: PublicKey | None, issued_ms: int) -> PublicKey:
    """A key that is there, was not revoked, and was still signing when it signed."""
    if key is None or key.revoked is not None or (key.expires is not None and issued_ms > key.expires):
        _not_good()
    return key


def check_times(claims: Mapping[str, Any], now_s: float, *, longest_s: int = LONGEST_S) -> None:
    """Begun, not over, and not longer than allowed; clocks may differ by a minute."""
    issued, begins, ends = (seconds(claims.get(name)) for name in ("iat", "nbf", "exp"))
    if ends + SKEW_S <= now_s:
        _not_good("token_expired")
    if begins - SKEW_S > now_s or issued - SKEW_S > now_s or ends - issued > longest_s or ends < issued:
        _not_good()


def check_claims(claims: Mapping[str, Any], grant: Grant, audience: str) -> frozenset[str]:
    """The token is for us, about this grant, and allows no more than the grant; returns what it allows."""
    wanted = {
        "aud": audience,
        "sub": grant.grantee,
        "grant_id": grant.id,
        "grant_hash": grant.hash,
        "oap_principal": grant.granter,
        "oap_agent": grant.grantee,
        "oap_scope": grant.scope_id,
    }
    if any(claims.get(name) != value for name, value in wanted.items()):
        _not_good()
    if not isinstance(claims.get("jti"), str) or not claims["jti"]:
        _not_good()
    scope = claims.get("scope")
    scopes = frozenset(scope.split()) if isinstance(scope, str) else frozenset[str]()
    if not scopes or not scopes <= grant.scopes:
        _not_good()
    return scopes


def check_binding(claims: Mapping[str, Any], grant: Grant, *, is_proven: bool) -> str | None:
    """The thumbprint that a proof must have; None where the grant lets whoever holds the token use it (D2)."""
    cnf = claims.get("cnf")
    jkt = cast("Mapping[str, Any]", cnf).get("jkt") if isinstance(cnf, Mapping) else None
    if jkt is None and cnf is None and grant.binding is Binding.BEARER:
        if is_proven:
            _not_good("binding_failed")
        return None
    if not isinstance(jkt, str) or not jkt or not is_proven:
        _not_good("binding_failed")
    return jkt


def check_proof(
    header: Mapping[str, Any],
    claims: Mapping[str, Any],
    *,
    method: str,
    url: str,
    now_s: float,
    token_hash: str | None,
) -> str:
    """A proof for this very request (RFC 9449); returns what makes it one that is used once."""
    made = seconds(claims.get("iat"))
    jti = claims.get("jti")
    is_right = (
        header.get("typ") == PROOF_TYPE
        and isinstance(header.get("jwk"), Mapping)
        and "d" not in header["jwk"]
        and isinstance(jti, str)
        and 8 <= len(jti) <= 256
        and claims.get("htm") == method
        and same_address(claims.get("htu"), url)
        and abs(now_s - made) <= PROOF_S
        and (token_hash is None or claims.get("ath") == token_hash)
    )
    if not is_right or not isinstance(jti, str):
        _not_good("binding_failed")
    return jti


def same_address(given: object, url: str) -> bool:
    """Whether two addresses are the same but for query and fragment."""
    if not isinstance(given, str):
        return False
    try:
        one, other = urlsplit(given), urlsplit(url)
        return (one.scheme.lower(), one.netloc.lower(), one.path) == (
            other.scheme.lower(),
            other.netloc.lower(),
            other.path,
        )
    except ValueError:
        return False


def seconds(value: object) -> float:
    """A time of a token; anybody writes tokens, also with numbers that no clock will show."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _FURTHEST_S:
        _not_good()
    return float(value)
