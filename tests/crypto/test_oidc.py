"""Statements of an identity provider: a real one on this machine, with real keys."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from quipu.crypto.oidc import OidcIdentities, Provider
from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError
from quipu.model.principal import Permission, Principal
from quipu.testing.builders import FixedClock

RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed", "use": "sig"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})


class Published:
    """A provider that publishes its keys, and counts who asks."""

    def __init__(self) -> None:
        self.keys: list[Any] = [RSA, EC, ED]
        self.asked: list[str] = []
        self.issuer = ""
        self.is_down = False
        published = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                published.asked.append(self.path)
                body: object = {"issuer": published.issuer, "jwks_uri": f"{published.issuer}/keys"}
                if self.path == "/keys":
                    body = KeySet(published.keys).as_dict(private=False)
                self.send_response(503 if published.is_down else 200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def published() -> Iterator[Published]:
    published = Published()
    yield published
    published.server.shutdown()
    published.server.server_close()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


def provider(published: Published, **given: Any) -> Provider:
    return Provider(**{"issuer": published.issuer, "audience": "quipu", "tenant": "acme", **given})


def statement(
    published: Published, clock: FixedClock, key: Any = RSA, alg: str = "RS256", **changed: Any
) -> str:
    now = clock() // 1000
    claims = {
        "iss": published.issuer,
        "aud": "quipu",
        "sub": "mara",
        "exp": now + 600,
        "iat": now,
        "roles": ["reviewer", "stranger"],
    }
    header = {"alg": alg, "kid": key.kid, **changed.pop("header", {})}
    told = {name: value for name, value in {**claims, **changed}.items() if value is not None}
    return jwt.encode(header, told, key, algorithms=[alg])


async def believed(published: Published, clock: FixedClock, text: str, **given: Any) -> Principal:
    identities = OidcIdentities(provider(published, **given), clock)
    try:
        return await identities.principal(text)
    finally:
        await identities.close()


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "Ed25519")])
async def test_a_good_statement_is_believed(
    published: Published, clock: FixedClock, key: Any, alg: str
) -> None:
    who = await believed(published, clock, statement(published, clock, key, alg))
    assert (who.tenant, who.name) == ("acme", "oidc:mara")
    assert who.permissions == {Permission.READ, Permission.REVIEW}
    assert who.expires_at == (clock() // 1000 + 600) * 1000
    assert not who.is_local


def unsigned(published: Published, clock: FixedClock, alg: str) -> str:
    """The claims of a good statement under no signature."""
    claims = statement(published, clock).split(".")[1]
    header = base64.urlsafe_b64encode(json.dumps({"alg": alg, "kid": "rsa"}).encode()).decode().rstrip("=")
    return f"{header}.{claims}."


BAD: dict[str, Any] = {
    "another audience": {"aud": "somebody else"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "no expiry": {"exp": None},
    "expired": {"exp": 1},
    "not yet": {"nbf": 1 << 40},
    "nobody": {"sub": None},
    "a number for a name": {"sub": 7},
    "somebody else's key": {"key": STRANGER},
    "an unknown key": {"key": RSAKey.generate_key(2048, {"kid": "unknown"})},
    "another kind of token": {"header": {"typ": "dpop+jwt"}},
    "a symmetric signature": {"key": OctKey.import_key(b"k" * 32, {"kid": "rsa"}), "alg": "HS256"},
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_statement_is_refused(published: Published, clock: FixedClock, name: str) -> None:
    with pytest.raises(UnauthenticatedError) as refused:
        await believed(published, clock, statement(published, clock, **BAD[name]))
    assert "mara" not in str(refused.value)


@pytest.mark.parametrize("alg", ["none", "None", "HS256", "RS256"])
async def test_an_unsigned_statement_is_refused(published: Published, clock: FixedClock, alg: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await believed(published, clock, unsigned(published, clock, alg))


async def test_the_public_key_is_no_shared_secret(published: Published, clock: FixedClock) -> None:
    """The old trick: sign with HMAC under the published key's own text."""
    signed = unsigned(published, clock, "HS256").rstrip(".")
    seal = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    text = f"{signed}.{base64.urlsafe_b64encode(seal).decode().rstrip('=')}"
    with pytest.raises(UnauthenticatedError):
        await believed(published, clock, text)


@pytest.mark.parametrize("text", ["", "a.b.c", "e30.e30.e30", "ä.ä.ä", "x" * 5000])
async def test_nonsense_is_refused(published: Published, clock: FixedClock, text: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await believed(published, clock, text)


async def test_every_altered_character_is_noticed(published: Published, clock: FixedClock) -> None:
    good = statement(published, clock, ED, "Ed25519")
    identities = OidcIdentities(provider(published), clock)
    for at in range(0, len(good) - 1, 3):
        other = "A" if good[at] != "A" else "B"
        with pytest.raises(UnauthenticatedError):
            await identities.principal(good[:at] + other + good[at + 1 :])
    await identities.close()


async def test_keys_are_read_once_and_again_for_a_new_one(published: Published, clock: FixedClock) -> None:
    identities = OidcIdentities(provider(published), clock)
    for _ in range(3):
        await identities.principal(statement(published, clock))
    assert published.asked == ["/.well-known/openid-configuration", "/keys"]
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    published.keys.append(fresh)
    text = statement(published, clock, fresh, "ES256")
    with pytest.raises(UnauthenticatedError):  # strangers' keys do not make us ask at every statement
        await identities.principal(text)
    clock.move(61_000)
    assert (await identities.principal(text)).name == "oidc:mara"
    assert len(published.asked) == 4
    await identities.close()


async def test_a_provider_that_is_down_is_told_and_known_keys_go_on(
    published: Published, clock: FixedClock
) -> None:
    published.is_down = True
    identities = OidcIdentities(provider(published), clock)
    with pytest.raises(BackendUnavailableError):
        await identities.principal(statement(published, clock))
    published.is_down = False
    clock.move(61_000)
    await identities.principal(statement(published, clock))
    published.is_down = True
    clock.move(3_600_001)
    assert (await identities.principal(statement(published, clock))).name == "oidc:mara"
    await identities.close()


async def test_tenant_roles_and_agents_can_come_from_claims(published: Published, clock: FixedClock) -> None:
    text = statement(
        published, clock, org="beta", groups="agent admin", bots=["ana", 7], email="m@example.org"
    )
    who = await believed(
        published,
        clock,
        text,
        tenant="",
        tenant_claim="org",
        roles_claim="groups",
        agents_claim="bots",
        name_claim="email",
    )
    assert (who.tenant, who.name, who.agents) == ("beta", "oidc:m@example.org", ("ana",))
    assert Permission.ADMIN in who.permissions
    with pytest.raises(UnauthenticatedError):
        await believed(published, clock, statement(published, clock), tenant="", tenant_claim="org")


async def test_what_a_reviewer_decides_on_can_come_from_claims(
    published: Published, clock: FixedClock
) -> None:
    text = statement(published, clock, roles="reviewer", shelves=["shop-a"], deeds="remember merge")
    who = await believed(published, clock, text)
    assert (who.review_stores, who.review_operations) == (("*",), ("*",))
    claims = {"review_stores_claim": "shelves", "review_operations_claim": "deeds"}
    who = await believed(published, clock, text, **claims)
    assert (who.review_stores, who.review_operations) == (("shop-a",), ("remember", "merge"))
    nothing = await believed(published, clock, statement(published, clock, roles="reviewer"), **claims)
    assert (nothing.review_stores, nothing.review_operations) == ((), ()), (
        "who has no claim decides on nothing"
    )


async def test_no_role_is_no_permission_unless_one_is_given(published: Published, clock: FixedClock) -> None:
    text = statement(published, clock, roles=None)
    assert (await believed(published, clock, text)).permissions == frozenset()
    who = await believed(published, clock, text, default_role="reviewer")
    assert who.permissions == {Permission.READ, Permission.REVIEW}


@pytest.mark.parametrize(
    "given", [{"issuer": "http://idp.example"}, {"audience": ""}, {"tenant": ""}, {"jwks_url": "ftp://x"}]
)
def test_bad_settings(given: dict[str, str]) -> None:
    with pytest.raises(InvalidError) as refused:
        Provider(**{"issuer": "https://idp.example", "audience": "quipu", "tenant": "acme", **given})
    assert refused.value.reason == "bad_setting"


async def test_keys_are_read_again_when_a_clock_that_was_ahead_is_set_right(
    published: Published, clock: FixedClock
) -> None:
    identities = OidcIdentities(provider(published), clock)
    clock.move(86_400_000)
    await identities.principal(statement(published, clock))
    clock.move(-86_400_000)
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    published.keys = [fresh]
    assert (await identities.principal(statement(published, clock, fresh, "ES256"))).name == "oidc:mara"
    with pytest.raises(UnauthenticatedError):  # it is not published any more
        await identities.principal(statement(published, clock))
    await identities.close()
