"""Tokens of an identity provider: a small one on this machine, with real keys."""

import base64
import hmac
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from quipu.access.oidc import OidcIdentities, Provider
from quipu.access.operations import CREATE_TENANT, SUSPEND_TENANT
from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError
from quipu.model.principal import Permission, Principal
from quipu.outbound import Answer
from tests.access.conftest import Access, over, refusal
from tests.fixtures.memories import Clock

RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "rsa"})
ISSUER = "https://id.example"


class Published:
    """A provider that publishes its keys, and counts who asks."""

    def __init__(self) -> None:
        self.keys: list[Any] = [RSA, EC, ED]
        self.asked: list[str] = []
        self.is_down = False
        self.clock = Clock()
        self.configuration: Any = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        path = urlsplit(url).path
        self.asked.append(path)
        if self.is_down:
            return Answer(503)
        found = self.configuration
        if path == "/keys":
            found = KeySet(self.keys).as_dict(private=False)
        said = found if isinstance(found, bytes) else json.dumps(found).encode()
        if len(said) > most_bytes:
            raise BackendUnavailableError(reason="answer_too_large")
        return Answer(200, body=said)

    def identities(self, **given: Any) -> OidcIdentities:
        provider = Provider(**{"issuer": ISSUER, "audience": "quipu", "tenant": "acme", **given})
        return OidcIdentities(provider, self.clock, self)

    async def principal(self, text: str, **given: Any) -> Principal:
        return await self.identities(**given).principal(text)

    def token(self, key: Any = RSA, alg: str = "RS256", **changed: Any) -> str:
        now = self.clock() // 1000
        claims = {"iss": ISSUER, "aud": "quipu", "sub": "mara", "exp": now + 600, "iat": now}
        claims |= {"roles": ["reviewer", "stranger"]}
        header = {"alg": alg, "kid": key.kid, **changed.pop("header", {})}
        given = {name: value for name, value in {**claims, **changed}.items() if value is not None}
        return jws.serialize_compact(header, json.dumps(given).encode(), key, algorithms=[alg])

    def unsigned(self, alg: str) -> str:
        """The claims of a good token under no signature."""
        claims = self.token().split(".")[1]
        return f"{_base64(json.dumps({'alg': alg, 'kid': 'rsa'}).encode())}.{claims}."


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture
def published() -> Published:
    return Published()


async def test_a_good_token_says_who_it_is(published: Published) -> None:
    for key, alg in ((RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "Ed25519")):
        who = await published.principal(published.token(key, alg))
        assert (who.tenant, who.name, who.trust) == ("acme", "oidc:mara", "user")
        assert who.permissions == {Permission.READ, Permission.REVIEW}
        assert who.expires_at == (published.clock() // 1000 + 600) * 1000
        assert (who.is_local, who.token_id) == (False, None)


BAD: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "somebody else"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "no expiry": {"exp": None},
    "expired": {"exp": 1},
    "not yet": {"nbf": 1 << 40},
    "nobody": {"sub": None},
    "a number for a name": {"sub": 7},
    "a name that no ledger keeps": {"sub": "a\0b"},
    "a name that is no text": {"sub": "\ud800"},
    "a name too long to keep whole": {"sub": "x" * 252},
    "somebody else's key": {"key": OTHER},
    "an unknown key": {"key": RSAKey.generate_key(2048, {"kid": "unknown"})},
    "another kind of token": {"header": {"typ": "dpop+jwt"}},
    "a symmetric signature": {"key": OctKey.import_key(b"k" * 32, {"kid": "rsa"}), "alg": "HS256"},
}


async def test_a_bad_token_is_refused_alike_whatever_is_wrong(published: Published) -> None:
    said: set[str] = set()
    for changed in BAD.values():
        with pytest.raises(UnauthenticatedError) as refused:
            await published.principal(published.token(**changed))
        said.add(f"{refused.value.message} {refused.value.hint} {refused.value.reason}")
    assert len(said) == 1
    assert "mara" not in said.pop()


async def test_only_asymmetric_signatures_count(published: Published) -> None:
    for alg in ("none", "None", "HS256", "RS256"):
        with pytest.raises(UnauthenticatedError):
            await published.principal(published.unsigned(alg))
    # Signed with HMAC under the published key's own text.
    signed = published.unsigned("HS256").rstrip(".")
    seal = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    with pytest.raises(UnauthenticatedError):
        await published.principal(f"{signed}.{_base64(seal)}")


async def test_nonsense_is_refused(published: Published) -> None:
    for text in ("", "a.b.c", "e30.e30.e30", "ä.ä.ä", "x" * 5000):
        with pytest.raises(UnauthenticatedError):
            await published.principal(text)
    assert published.asked == [], "no key is fetched for it"


async def test_every_altered_character_is_noticed(published: Published) -> None:
    good = published.token(ED, "Ed25519")
    identities = published.identities()
    for at in range(0, len(good) - 1, 3):
        other = "A" if good[at] != "A" else "B"
        with pytest.raises(UnauthenticatedError):
            await identities.principal(good[:at] + other + good[at + 1 :])


async def test_unknown_keys_are_asked_for_at_most_once_a_minute(published: Published) -> None:
    identities = published.identities()
    for _ in range(3):
        await identities.principal(published.token())
    assert published.asked == ["/.well-known/openid-configuration", "/keys"]
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    published.keys.append(fresh)
    text = published.token(fresh, "ES256")
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            await identities.principal(text)
    assert len(published.asked) == 2
    published.clock.now += 61_000
    assert (await identities.principal(text)).name == "oidc:mara"
    assert len(published.asked) == 4


async def test_while_the_provider_is_down_known_keys_go_on(published: Published) -> None:
    published.is_down = True
    identities = published.identities()
    with pytest.raises(BackendUnavailableError):
        await identities.principal(published.token())
    published.is_down = False
    published.clock.now += 61_000
    await identities.principal(published.token())
    published.is_down = True
    published.clock.now += 3_600_001
    assert (await identities.principal(published.token())).name == "oidc:mara"


async def test_keys_are_read_again_when_a_clock_that_was_ahead_is_set_right(published: Published) -> None:
    identities = published.identities()
    published.clock.now += 86_400_000
    await identities.principal(published.token())
    published.clock.now -= 86_400_000
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    published.keys = [fresh]
    assert (await identities.principal(published.token(fresh, "ES256"))).name == "oidc:mara"
    with pytest.raises(UnauthenticatedError):  # it is not published any more
        await identities.principal(published.token())


async def test_a_configuration_of_somebody_else_is_not_followed(published: Published) -> None:
    for configuration in (
        {"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://evil.example/keys"},
        {"issuer": ISSUER},
        [],
        b"not json",
        {**published.configuration, "padding": "x" * (2 << 20)},
    ):
        published.configuration = configuration
        with pytest.raises(BackendUnavailableError):
            await published.principal(published.token())


async def test_tenant_roles_and_agents_can_come_from_claims(published: Published) -> None:
    text = published.token(org="beta", groups="agent admin", bots=["ana", 7])
    claims = {"tenant": None, "tenant_claim": "org", "roles_claim": "groups", "agents_claim": "bots"}
    who = await published.principal(text, **claims)
    assert (who.tenant, who.agents, who.default_agent) == ("beta", ("ana",), "ana")
    assert Permission.ADMIN in who.permissions
    with pytest.raises(UnauthenticatedError):
        await published.principal(published.token(), **claims)
    none = await published.principal(published.token(roles=None), agents_claim="bots")
    assert (none.permissions, none.agents) == (frozenset(), ()), "who has no claim may do nothing, for nobody"


async def test_credentials_accept_it_where_its_tenant_is_open(access: Access, published: Published) -> None:
    server = over(access.ledger, access.clock, identities=published.identities())
    text = published.token()
    assert await refusal(server.shown(text)) == ("unauthenticated", "bad_token"), "no such tenant"
    await server(CREATE_TENANT, tenant="acme")
    assert (await server.shown(text)).name == "oidc:mara"
    await server(SUSPEND_TENANT, tenant="acme")
    assert await refusal(server.shown(text)) == ("unauthenticated", "suspended_tenant")
    odd = over(access.ledger, identities=published.identities(tenant=None, tenant_claim="org"))
    for tenant in ("A/B", "a\0", "nobody"):
        assert await refusal(odd.shown(published.token(org=tenant))) == ("unauthenticated", "bad_token")
    assert await refusal(access.shown(text)) == ("unauthenticated", "bad_token"), "no provider is set"


def test_bad_settings_are_refused() -> None:
    good = {"issuer": ISSUER, "audience": "quipu", "tenant": "acme"}
    for changed in (
        {"issuer": "http://id.example"},
        {"issuer": "ftp://x"},
        {"audience": ""},
        {"tenant": None},
    ):
        with pytest.raises(InvalidError) as refused:
            Provider(**{**good, **changed})  # pyright: ignore[reportArgumentType]
        assert refused.value.reason == "bad_setting"
    Provider(**{**good, "issuer": "http://127.0.0.1:8080"})


async def test_a_provider_cannot_send_us_into_a_private_network() -> None:
    """Its own host may be inside, as the operator has named it; the host that it names for its keys may not."""

    class Inside(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = self.server.server_port  # type: ignore[attr-defined]
            text = {"issuer": f"http://127.0.0.1:{at}", "jwks_uri": f"http://localhost:{at}/keys"}
            asked.append(self.path)
            body = json.dumps(text).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    asked: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), Inside)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        provider = Provider(issuer=f"http://127.0.0.1:{server.server_port}", audience="quipu", tenant="acme")
        with pytest.raises(BackendUnavailableError) as refused:
            await OidcIdentities(provider, Clock()).principal(Published().token())
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
    assert refused.value.reason == "identity_provider"
    assert asked == ["/.well-known/openid-configuration"]
