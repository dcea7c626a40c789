"""People who sign in with an OpenID Connect provider: its signed tokens, checked against its published keys.

Accepted is a JWT that is signed with one of the provider's keys, by an asymmetric algorithm, issued by it, for us, and
in time. `sub` says who it is; settings say which claims name the tenant, the roles and the agents.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from quipu.access import rules
from quipu.access.model import ANY
from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError
from quipu.model.principal import Principal
from quipu.outbound import HttpOutbound, Outbound

_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_LEEWAY_S = 60
#: Keys are read again at most this often, whatever unknown keys tokens name; and at least this often.
_REFRESH_MS = 60_000
_STALE_MS = 3_600_000
_LARGEST = 1 << 20
#: So much of a name is left when `oidc:` stands before it.
_LONGEST_NAME = 251


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Whose tokens are accepted, and what its claims mean."""

    issuer: str
    audience: str
    #: Everybody belongs to this tenant; where none is fixed, the claim names it.
    tenant: str | None = None
    tenant_claim: str | None = None
    roles_claim: str = "roles"
    #: The claim that names agents; None: all agents.
    agents_claim: str | None = None

    def __post_init__(self) -> None:
        if not _is_safe(self.issuer):
            raise InvalidError(
                "An identity provider is reached by https.",
                reason="bad_setting",
                hint="Correct QUIPU_OIDC_ISSUER; http is accepted for this machine alone.",
            )
        if not self.audience or not (self.tenant or self.tenant_claim):
            raise InvalidError(
                "An identity provider needs an audience, and a tenant or the claim that names it.",
                reason="bad_setting",
                hint="Set QUIPU_OIDC_AUDIENCE and QUIPU_OIDC_TENANT.",
            )


class OidcIdentities:
    """Accepts the tokens of one provider."""

    def __init__(
        self, provider: Provider, clock: Callable[[], int], outbound: Outbound | None = None
    ) -> None:
        """`outbound` asks for the provider's keys; left out, the provider's own host may be on a private network."""
        host = urlsplit(provider.issuer).hostname or ""
        self._provider, self._clock = provider, clock
        self._outbound = outbound or HttpOutbound((host,))
        self._keys: KeySet | None = None
        self._read_at = 0
        self._turn = asyncio.Lock()

    async def principal(self, text: str) -> Principal:
        """Who the token speaks of; or UnauthenticatedError, in the same words whatever is wrong."""
        claims = await self._claims(text)
        name = _text(claims, "sub")
        tenant = self._provider.tenant or _text(claims, self._provider.tenant_claim)
        if not name or not tenant or not _is_keepable(name):
            raise _refused()
        agents = _words(claims, self._provider.agents_claim) if self._provider.agents_claim else ANY
        roles = _words(claims, self._provider.roles_claim)
        return Principal(
            tenant=tenant,
            name=f"oidc:{name}",
            permissions=rules.permissions_of(role for role in roles if role in rules.ROLES),
            agents=agents,
            default_agent=rules.default_agent(None, agents),
            trust="user",
            expires_at=int(claims["exp"]) * 1000,
        )

    async def _claims(self, text: str) -> Mapping[str, Any]:
        keys = await self._key_set(_key_id(text))
        registry = jwt.JWTClaimsRegistry(
            now=self._clock() // 1000,
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._provider.issuer},
            aud={"essential": True, "value": self._provider.audience},
            exp={"essential": True},
        )
        try:
            token = jwt.decode(text, keys, algorithms=_ALGORITHMS)
            registry.validate(token.claims)
        except (JoseError, ValueError, TypeError) as error:
            raise _refused() from error
        return token.claims

    async def _key_set(self, key_id: str | None) -> KeySet:
        """The provider's keys; read again when they are old, or when a key is named that is not among them."""
        async with self._turn:
            now, known = self._clock(), self._keys
            age = now - self._read_at
            is_missing = key_id is not None and all(
                key.kid != key_id for key in (known.keys if known else ())
            )
            is_stale = (
                not 0 <= age <= _STALE_MS
            )  # below 0 a clock was wrong, and nobody knows how old they are
            if known is None or is_stale or (is_missing and age > _REFRESH_MS):
                try:
                    self._keys = known = await self._fetched()
                except BackendUnavailableError:
                    if known is None:
                        raise
                self._read_at = now
            return known

    async def _fetched(self) -> KeySet:
        issuer = self._provider.issuer
        found = await self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        url = found.get("jwks_uri")
        if found.get("issuer") != issuer or not isinstance(url, str) or not _is_safe(url):
            raise _unreachable()
        try:
            return KeySet.import_key_set(cast("Any", await self._document(url)))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _unreachable() from error

    async def _document(self, url: str) -> dict[str, Any]:
        try:
            answer = await self._outbound.send(
                "GET", url, headers={"Accept": "application/json"}, most_bytes=_LARGEST
            )
            found: object = json.loads(answer.body) if answer.is_success else None
        except (BackendUnavailableError, ValueError, RecursionError) as error:
            raise _unreachable() from error
        if not isinstance(found, dict):
            raise _unreachable()
        return cast("dict[str, Any]", found)


def _key_id(text: str) -> str | None:
    """The key that a token names, before any of it is believed."""
    try:
        header = cast("Mapping[str, Any]", jws.extract_compact(text.encode("ascii")).headers())
    except (JoseError, ValueError) as error:
        raise _refused() from error
    kind = header.get("typ", "JWT")
    if header.get("alg") not in _ALGORITHMS or not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise _refused()
    key_id = header.get("kid")
    return key_id if isinstance(key_id, str) else None


def _text(claims: Mapping[str, Any], name: str | None) -> str:
    found = claims.get(name) if name else None
    return found if isinstance(found, str) else ""


def _words(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of words, or words with spaces between them; a claim that is not there names nothing."""
    value: object = claims.get(name)
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list):
        return tuple(item for item in cast("list[object]", value) if isinstance(item, str))
    return ()


def _is_keepable(name: str) -> bool:
    """Whether both ledgers can keep it, whole: cut names would make one person of two."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name and len(name) <= _LONGEST_NAME


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return parts.scheme == "https" or (parts.scheme == "http" and is_local)


def _refused() -> UnauthenticatedError:
    return UnauthenticatedError(
        "This credential is not known here.",
        reason="bad_token",
        hint="Sign in again with your identity provider.",
    )


def _unreachable() -> BackendUnavailableError:
    return BackendUnavailableError("The identity provider does not answer.", reason="identity_provider")
