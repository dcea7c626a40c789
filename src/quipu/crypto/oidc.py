"""People who sign in with an OpenID Connect provider: its signed statements, checked against its published keys.

Accepted: a JWT signed with one of the provider's keys (asymmetric algorithms only), issued by it, for us, and in time.
Its claims say who it is (`name_claim`), and may say which tenant, roles and agents; settings say where they stand.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError
from quipu.model.access import Role
from quipu.model.principal import Principal
from quipu.model.record import Trust
from quipu.ports.surroundings import Clock
from quipu.rules.roles import permissions_of

_ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_LEEWAY_S = 60
#: Keys are asked for again this seldom, whatever unknown keys statements name.
_REFRESH_MS = 60_000
_STALE_MS = 3_600_000
_TIMEOUT_S = 5.0
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Whom we believe, and how its claims read."""

    issuer: str
    audience: str
    #: Without it the issuer's discovery document says where the keys are.
    jwks_url: str = ""
    #: Everybody belongs to this tenant, or the claim names it.
    tenant: str = ""
    tenant_claim: str = ""
    name_claim: str = "sub"
    roles_claim: str = "roles"
    agents_claim: str = ""
    #: Of reviewers: what they decide on.
    review_stores_claim: str = ""
    review_operations_claim: str = ""
    #: What somebody is whose claims name no role of ours.
    default_role: str = ""

    def __post_init__(self) -> None:
        for url in (self.issuer, self.jwks_url):
            if url and not _is_safe(url):
                raise InvalidError(
                    "An identity provider is reached by https.",
                    reason="bad_setting",
                    hint="http is accepted for this machine alone.",
                )
        if not self.audience or not (self.tenant or self.tenant_claim):
            raise InvalidError(
                "An identity provider needs an audience, and a tenant or the claim that names it.",
                reason="bad_setting",
                hint="Set QUIPU_OIDC_AUDIENCE and QUIPU_OIDC_TENANT.",
            )


@dataclass(slots=True)
class _Keys:
    known: KeySet | None = None
    fetched_at: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class OidcIdentities:
    """Believes one provider."""

    def __init__(self, provider: Provider, clock: Clock, client: httpx.AsyncClient | None = None) -> None:
        self._provider, self._clock = provider, clock
        self._client = client or httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False)
        self._keys = _Keys()

    async def close(self) -> None:
        await self._client.aclose()

    async def principal(self, statement: str) -> Principal:
        """Whom the statement speaks of."""
        claims = await self._claims(statement)
        name, tenant = self._text(claims, self._provider.name_claim), self._tenant(claims)
        if not name or not tenant:
            raise _refused()
        return Principal(
            tenant=tenant,
            name=f"oidc:{name}"[:256],
            permissions=permissions_of(self._roles(claims)),
            agents=_listed(claims, self._provider.agents_claim),
            review_stores=_listed(claims, self._provider.review_stores_claim),
            review_operations=_listed(claims, self._provider.review_operations_claim),
            trust=Trust.USER,
            expires_at=int(claims["exp"]) * 1000,
        )

    async def _claims(self, statement: str) -> Mapping[str, Any]:
        kid = self._kid(statement)
        keys = await self._key_set(kid)
        registry = jwt.JWTClaimsRegistry(
            now=self._clock() // 1000,
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._provider.issuer},
            aud={"essential": True, "value": self._provider.audience},
            exp={"essential": True},
        )
        try:
            token = jwt.decode(statement, keys, algorithms=_ALGORITHMS)
            registry.validate(token.claims)
        except (JoseError, ValueError, TypeError) as error:
            raise _refused() from error
        return token.claims

    @staticmethod
    def _kid(statement: str) -> str | None:
        """The key that a statement names, before any of it is believed."""
        try:
            header = cast("Mapping[str, Any]", jws.extract_compact(statement.encode("ascii")).headers())
        except (JoseError, ValueError) as error:
            raise _refused() from error
        kind = header.get("typ", "JWT")
        if header.get("alg") not in _ALGORITHMS or not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise _refused()
        kid = header.get("kid")
        return kid if isinstance(kid, str) else None

    async def _key_set(self, kid: str | None) -> KeySet:
        """The provider's keys; read again when they are old, or when a key is named that is not among them."""
        async with self._keys.lock:
            now, known = self._clock(), self._keys.known
            age = now - self._keys.fetched_at
            is_missing = known is None or (kid is not None and all(key.kid != kid for key in known.keys))
            is_stale = (
                not 0 <= age <= _STALE_MS
            )  # below 0 a clock was wrong, and nobody knows how old they are
            if known is None or is_stale or (is_missing and age > _REFRESH_MS):
                try:
                    self._keys.known = known = await self._fetched()
                except BackendUnavailableError:
                    if known is None:
                        raise
                self._keys.fetched_at = now
            return known

    async def _fetched(self) -> KeySet:
        url = self._provider.jwks_url
        if not url:
            place = f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._document(place)
            url = found.get("jwks_uri")
            if found.get("issuer") != self._provider.issuer or not isinstance(url, str) or not _is_safe(url):
                raise _unreachable()
        try:
            return KeySet.import_key_set(cast("Any", await self._document(url)))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _unreachable() from error

    async def _document(self, url: str) -> dict[str, Any]:
        try:
            answer = await self._client.get(url, headers={"Accept": "application/json"})
            answer.raise_for_status()
            found: object = json.loads(answer.content[:_LARGEST])
        except (httpx.HTTPError, ValueError) as error:
            raise _unreachable() from error
        if not isinstance(found, dict):
            raise _unreachable()
        return cast("dict[str, Any]", found)

    # -- what the claims say ------------------------------------------------------------------------------------

    @staticmethod
    def _text(claims: Mapping[str, Any], name: str) -> str:
        found = claims.get(name) if name else None
        return found if isinstance(found, str) else ""

    def _tenant(self, claims: Mapping[str, Any]) -> str:
        """A fixed tenant is the tenant; a claim is only asked where none is fixed."""
        return self._provider.tenant or self._text(claims, self._provider.tenant_claim)

    def _roles(self, claims: Mapping[str, Any]) -> list[Role]:
        named = _texts(claims.get(self._provider.roles_claim))
        known = [Role(name) for name in named if name in set(Role)]
        if not known and self._provider.default_role:
            return [Role(self._provider.default_role)]
        return known


def _listed(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """What a claim names; everything where no setting says which claim it is."""
    return tuple(_texts(claims.get(claim))) if claim else ("*",)


def _texts(value: object) -> list[str]:
    """A list of words, or words with spaces between them."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [item for item in cast("list[object]", value) if isinstance(item, str)]
    return []


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    )


def _refused() -> UnauthenticatedError:
    return UnauthenticatedError(reason="bad_token", hint="Sign in again with your identity provider.")


def _unreachable() -> BackendUnavailableError:
    return BackendUnavailableError("The identity provider does not answer.", reason="identity_provider")
