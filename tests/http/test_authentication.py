"""Who may come in: credentials, patience with guesses, host names, other origins."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import RateLimitedError
from quipu.http.authentication import MOST_ADDRESSES, Backoff
from quipu.http.hosts import host_of, is_named
from tests.http.conftest import Server, Servers
from tests.requirement import requirement


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def wait_of(backoff: Backoff, address: str) -> float:
    try:
        backoff.check(address)
    except RateLimitedError as error:
        return error.retry_after_s or 0
    return 0


def test_each_further_failure_doubles_the_wait_up_to_a_bound() -> None:
    clock = Hands()
    backoff = Backoff(clock, free=3, longest_s=60, half_life_s=1e9)
    waits: list[float] = []
    for _ in range(12):
        backoff.failed("10.0.0.1")
        waits.append(wait_of(backoff, "10.0.0.1"))
    assert waits == [0, 0, 0, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert wait_of(backoff, "10.0.0.2") == 0
    clock.now += 60
    assert wait_of(backoff, "10.0.0.1") == 0


def test_failures_are_forgotten_with_time_and_memory_is_bounded() -> None:
    clock = Hands()
    backoff = Backoff(clock, free=3, half_life_s=60)
    for _ in range(100):
        backoff.failed("10.0.0.1")
        clock.now += 60
    assert wait_of(backoff, "10.0.0.1") == 0, "one a minute is nobody's attack"
    backoff = Backoff(Hands(), free=0)
    backoff.failed("2001:db8::1")
    assert wait_of(backoff, "2001:db8::ffff:1%eth0") > 0
    assert wait_of(backoff, "2001:db8:0:1::1") == 0
    for number in range(MOST_ADDRESSES + 10):
        backoff.failed(f"host-{number}")
    assert wait_of(backoff, "host-0") == wait_of(backoff, "2001:db8::1") == 0
    assert wait_of(backoff, f"host-{MOST_ADDRESSES + 9}") > 0


async def test_guessing_is_slowed_down_and_good_credentials_are_not(servers: Servers) -> None:
    clock = Hands()
    server = await servers(backoff=Backoff(clock))
    assert (await server.http.get("/rig/who")).status_code == 200
    guess = {"Authorization": "Bearer guess"}
    answers = [await server.http.get("/rig/who", headers=guess) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [401] * 11 + [429]
    assert answers[-1].json()["reason"] == "bad_credentials"
    assert answers[-1].headers["retry-after"] == "2"
    assert (await server.http.get("/rig/who")).status_code == 200, "a neighbour behind the same address"
    new = await server.http.get("/rig/who", headers={"Authorization": "Bearer other"})
    assert new.status_code == 429, "who was never seen might be guessing"
    far = server.call("GET", "/rig/who", {"authorization": "Bearer other"}, client="10.0.0.7")
    assert (await far.done()).status == 200
    clock.now += 3
    assert (await server.http.get("/rig/who", headers=guess)).status_code == 401
    text = (await server.http.get("/metrics")).text
    assert 'quipu_limited_total{reason="bad_credentials"} 2.0' in text


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["Bearer wrong"], "bad_token"),
        (["Bearer"], "bad_token"),
        (["Bearer " + "x" * 9000], "bad_token"),
        (["Bearer \x80"], "bad_token"),
        (["Bearer good", "Bearer good"], "bad_token"),
        (["Basic good"], "no_credential"),
        (["good"], "no_credential"),
        ([""], "no_credential"),
    ],
)
async def test_bad_credentials_all_look_alike(server: Server, given: list[str], reason: str) -> None:
    headers: Any = [(b"Authorization", value.encode("latin-1")) for value in given]
    del server.http.headers["Authorization"]
    answer = await server.http.get("/rig/who", headers=headers)
    body = answer.json()
    assert (answer.status_code, body["code"], body["reason"]) == (401, "unauthenticated", reason)
    wanted = 'Bearer realm="quipu"' + (', error="invalid_token"' if reason == "bad_token" else "")
    assert answer.headers["www-authenticate"] == wanted
    if reason == "no_credential":
        assert "Authorization: Bearer" in body["hint"]


async def test_a_bearer_is_read_as_people_write_it(server: Server) -> None:
    for text in ("bearer good", "Bearer   good ", "BEARER good"):
        assert (await server.http.get("/rig/who", headers={"Authorization": text})).status_code == 200


async def test_a_credential_that_ended_is_refused_at_once(server: Server) -> None:
    assert (await server.http.get("/rig/who")).status_code == 200
    del server.tokens["good"]
    assert (await server.http.get("/rig/who")).status_code == 401


# -- names ------------------------------------------------------------------------------------------------------------


async def test_in_open_mode_everybody_is_the_person_at_the_machine(servers: Servers) -> None:
    server = await servers(is_open=True)
    assert (await server.http.get("/rig/who")).json()["id"] == "local"


@requirement("mcp:running.hosts")
@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"Host": "localhost"}, True),
        ({"Host": "LocalHost:8321"}, True),
        ({"Host": "127.0.0.1:1"}, True),
        ({"Host": "[::1]:8321"}, True),
        ({"Host": "evil.example"}, False),
        ({"Host": "localhost.evil.example"}, False),
        ({"Host": "127.0.0.1.evil.example"}, False),
        ({"Host": "evil.example:127.0.0.1"}, False),
        ({"Host": ""}, False),
        ({"Host": "localhost", "Origin": "http://evil.example"}, False),
        ({"Host": "localhost", "Origin": "null"}, False),
        ({"Host": "localhost", "Origin": "http://localhost:8321"}, True),
        ({"Host": "localhost", "Origin": "http://[::1"}, False),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": "localhost", "Sec-Fetch-Site": "same-origin"}, True),
    ],
)
async def test_in_open_mode_no_other_site_gets_in_through_a_browser(
    servers: Servers, headers: dict[str, str], is_let_in: bool
) -> None:
    server = await servers(is_open=True)
    for path in ("/rig/who", "/healthz"):
        answer = await server.http.get(path, headers=headers)
        if is_let_in:
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.json()["reason"]) == (403, "unknown_host")


async def test_two_host_headers_are_refused(servers: Servers) -> None:
    server = await servers(is_open=True)
    headers: Any = [(b"Host", b"localhost"), (b"Host", b"evil")]
    assert (await server.http.get("/rig/who", headers=headers)).status_code == 403


async def test_the_server_answers_to_the_names_it_was_given_or_to_any(servers: Servers) -> None:
    server = await servers(allowed_hosts=("memory.example", ".corp.example"))
    for name in ("memory.example", "a.corp.example:443"):
        assert (await server.http.get("/rig/who", headers={"Host": name})).status_code == 200
    for name in ("corp.example", "127.0.0.1", "memory.example.evil"):
        assert (await server.http.get("/rig/who", headers={"Host": name})).status_code == 403
    probe = await server.http.get("/readyz", headers={"Host": "10.1.2.3"})
    assert probe.status_code == 200, "a load balancer"
    server = await servers()
    assert (await server.http.get("/rig/who", headers={"Host": "any.example"})).status_code == 200


@given(name=st.text(min_size=1, max_size=20), more=st.text(max_size=10))
def test_a_name_is_its_own_and_no_longer_one(name: str, more: str) -> None:
    assert not is_named(f"{name}{more}x", (name,)) or name.startswith(".") or name == "*"
    assert host_of(f"[::1]{more}") == "::1"


async def test_other_origins_are_let_in_by_name_only(servers: Servers) -> None:
    async def preflight(server: Server, origin: str) -> httpx.Response:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        return await server.http.options(
            "/rig/echo", headers={**asked, "Access-Control-Request-Headers": "authorization"}
        )

    server = await servers()
    assert "access-control-allow-origin" not in (await preflight(server, "https://app.example")).headers
    server = await servers(cors_origins=("https://app.example",))
    allowed = await preflight(server, "https://app.example")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-credentials" not in allowed.headers
    assert "access-control-allow-origin" not in (await preflight(server, "https://evil.example")).headers
    refused = await server.http.post(
        "/rig/echo", headers={"Origin": "https://app.example", "Authorization": "Bearer no"}
    )
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    assert "Quipu-Request-Id" in refused.headers["access-control-expose-headers"]
