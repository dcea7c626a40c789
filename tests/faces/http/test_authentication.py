"""Who may come in: credentials, back-off, open mode, host names, other origins."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.routing import Route

from quipu.errors import RateLimitedError
from quipu.faces.http.backoff import MOST, Backoff, Remembered
from quipu.faces.http.catalogue import Face
from quipu.faces.http.hosts import host_of, is_named
from quipu.model.access import Role
from quipu.model.principal import Principal, local
from quipu.service.memory import MemoryService
from tests.faces.http.rig import Rig, problem
from tests.faces.serving import Served, served


def test_a_good_token_is_let_in_by_its_name(at: Served) -> None:
    with at.client() as client:
        assert client.get("/rig/whoami").json() == {"name": "admin", "tenant": "default"}
        given = {"Authorization": f"bearer  {at.admin_token}"}
        assert client.get("/rig/whoami", headers=given).status_code == 200


def test_without_a_credential_nothing_but_what_is_public_is_reached(at: Served) -> None:
    with at.client("") as client:
        response = client.get("/rig/whoami")
        problem(response, 401, "unauthenticated", "no_credential")
        assert response.headers["www-authenticate"] == 'Bearer realm="quipu"'
        assert client.get("/rig/public").json() == {"name": None}
        # Not even a handler that forgets to ask who it is.
        for path in ("/rig/large", "/rig/page", "/rig/events", "/rig/fail"):
            problem(client.get(path), 401, "unauthenticated", "no_credential")
        problem(client.post("/rig/lines", content=b"{}"), 401, "unauthenticated", "no_credential")


def bad_headers(at: Served) -> dict[str, list[tuple[str, str]]]:
    good = at.admin_token
    return {
        "unknown": [("Authorization", f"Bearer {good[:-1]}{'A' if good[-1] != 'A' else 'B'}")],
        "other tenant": [("Authorization", f"Bearer {good.replace('_default_', '_other_')}")],
        "other tenant, well formed": [("Authorization", f"Bearer qp_nobody_{'x' * 43}")],
        "right tenant, well formed": [("Authorization", f"Bearer qp_default_{'x' * 43}")],
        "empty": [("Authorization", "Bearer")],
        "long": [("Authorization", "Bearer " + "x" * 9000)],
        "odd": [("Authorization", "Bearer \x80")],
        "two": [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")],
        "jwt": [("Authorization", "Bearer a.b.c")],
    }


def test_bad_credentials_all_look_alike(at: Served) -> None:
    seen: list[Any] = []
    with at.client("") as client:
        for headers in bad_headers(at).values():
            given: Any = [(name.encode(), value.encode("latin-1")) for name, value in headers]
            response = client.get("/rig/whoami", headers=given)
            body = problem(response, 401, "unauthenticated", "bad_token")
            assert response.headers["www-authenticate"].endswith('error="invalid_token"')
            del body["request_id"]
            seen.append(body)
    assert all(body == seen[0] for body in seen)


@pytest.mark.parametrize("given", ["Basic YTpi", "{token}"])
def test_another_way_of_saying_who_one_is_gets_no_error_code_but_the_right_way(
    at: Served, given: str
) -> None:
    with at.client("") as client:
        headers = {"Authorization": given.format(token=at.admin_token)}
        response = client.get("/rig/whoami", headers=headers)
        body = problem(response, 401, "unauthenticated", "no_credential")
        assert "Authorization: Bearer" in body["detail"]
        assert response.headers["www-authenticate"] == 'Bearer realm="quipu"'


def test_that_a_token_has_ended_is_told_only_to_who_shows_all_of_it(at: Served) -> None:
    ended = at.do(at.service.tokens.issue(local(), name="ended", roles=[Role.AGENT]))
    at.do(at.service.tokens.revoke(local(), ended.token.id))
    good = at.do(at.service.tokens.issue(local(), name="good", roles=[Role.AGENT]))

    def told(token: str) -> dict[str, Any]:
        with at.client(token) as client:
            response = client.get("/rig/whoami")
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == 'Bearer realm="quipu", error="invalid_token"'
        return {name: value for name, value in response.json().items() if name != "request_id"}

    def guessed(text: str) -> str:
        return text[:-2] + ("AA" if text[-2:] != "AA" else "BB")

    made_up = f"qp_default_{'x' * 43}"
    assert told(guessed(ended.text)) == told(guessed(good.text)) == told(made_up)
    assert told(made_up)["detail"].startswith("This credential is not known here. Check that")
    whole = told(ended.text)
    assert whole["reason"] == "revoked_token"
    assert whole["detail"] == (
        "This token has been revoked. Ask an administrator for another; `quipu token create` makes one."
    )


def test_who_shows_nothing_is_told_what_to_show(at: Served) -> None:
    with at.client("") as client:
        body = problem(client.get("/rig/whoami"), 401, "unauthenticated", "no_credential")
    assert body["detail"].startswith("No credential was sent. Send `Authorization: Bearer <token>`")


def test_a_bad_credential_is_told_even_where_none_is_needed(at: Served) -> None:
    with at.client("qp_default_x") as client:
        problem(client.get("/rig/public"), 401, "unauthenticated", "bad_token")
    with at.client() as client:
        assert client.get("/rig/public").json() == {"name": "admin"}


def test_a_revoked_token_is_refused_at_once(at: Served) -> None:
    issued = at.do(at.service.tokens.issue(local(), name="gone", roles=[Role.AGENT]))
    with at.client(issued.text) as client:
        assert client.get("/rig/whoami").status_code == 200
        at.do(at.service.tokens.revoke(local(), issued.token.id))
        problem(client.get("/rig/whoami"), 401, "unauthenticated", "revoked_token")


def test_guessing_is_slowed_down_and_good_credentials_are_not(at: Served) -> None:
    with at.client() as good, at.client("qp_default_guess") as guess:
        assert good.get("/rig/whoami").status_code == 200
        answers = [guess.get("/rig/whoami") for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 11 + [429]
        problem(answers[-1], 429, "rate_limited", "bad_credentials")
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert good.get("/rig/whoami").status_code == 200, "a neighbour behind the same address"
        text = good.get("/metrics").text
    assert 'quipu_limited_total{reason="bad_credentials"} 1.0' in text


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def wait_of(backoff: Backoff, address: str) -> int:
    try:
        backoff.check(address)
    except RateLimitedError as error:
        return error.retry_after or 0
    return 0


def test_each_further_failure_doubles_the_wait_up_to_a_bound() -> None:
    clock = Hands()
    backoff = Backoff(clock, free=3, longest_s=60, half_life_s=1e9)
    waits: list[int] = []
    for _ in range(12):
        backoff.failed("10.0.0.1")
        waits.append(wait_of(backoff, "10.0.0.1"))
    assert waits == [0, 0, 0, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert wait_of(backoff, "10.0.0.2") == 0
    clock.now += 60
    assert wait_of(backoff, "10.0.0.1") == 0


def test_failures_are_forgotten_with_time() -> None:
    clock = Hands()
    backoff = Backoff(clock, free=3, half_life_s=60)
    for _ in range(100):
        backoff.failed("10.0.0.1")
        clock.now += 60
    assert wait_of(backoff, "10.0.0.1") == 0, "one a minute is nobody's attack"


def test_addresses_of_one_network_are_one_and_memory_is_bounded() -> None:
    backoff = Backoff(Hands(), free=0)
    backoff.failed("2001:db8::1")
    assert wait_of(backoff, "2001:db8::ffff:1%eth0") > 0
    assert wait_of(backoff, "2001:db8:0:1::1") == 0
    for number in range(2 * MOST):
        backoff.failed(f"host-{number}")
    assert wait_of(backoff, "host-0") == wait_of(backoff, "2001:db8::1") == 0
    assert wait_of(backoff, f"host-{2 * MOST - 1}") > 0
    kept = Remembered(most=2)
    for item in (b"a", b"b", b"a", b"c"):
        kept.add(item)
    assert [item in kept for item in (b"a", b"b", b"c")] == [True, False, True]


def test_a_face_may_have_its_own_way_for_its_own_routes(rig: Rig) -> None:
    async def by_cookie(request: Request) -> Principal | None:
        return local("cookie") if request.cookies.get("session") == "good" else None

    def faces(service: MemoryService) -> list[Face]:
        own = Face(name="own", routes=[Route("/own", rig.whoami)], prefix="/own", authenticator=by_cookie)
        return [own, *rig.faces(service)]

    with served(more=faces) as at, at.client("", cookies={"session": "good"}) as client:
        assert client.get("/own").json()["tenant"] == "cookie"
        problem(client.get("/rig/whoami"), 401, "unauthenticated", "no_credential")
        client.cookies.clear()
        problem(client.get("/own"), 401, "unauthenticated", "no_credential")
        given = {"Authorization": f"Bearer {at.admin_token}"}
        assert client.get("/own", headers=given).json()["tenant"] == "default"


# -- open mode and names --------------------------------------------------------------------------------------------


def test_in_open_mode_everybody_is_the_person_at_the_machine(rig: Rig) -> None:
    with served(more=rig.faces, is_open=True) as at, at.client() as client:
        assert at.admin_token == ""
        assert client.get("/rig/whoami").json() == {"name": "local", "tenant": "default"}


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
def test_in_open_mode_no_other_site_gets_in_through_a_browser(
    rig: Rig, headers: dict[str, str], is_let_in: bool
) -> None:
    with served(more=rig.faces, is_open=True) as at, at.client() as client:
        response = client.get("/rig/whoami", headers=headers)
    if is_let_in:
        assert response.status_code == 200
    else:
        problem(response, 403, "forbidden", "host")


def test_two_host_headers_are_refused(rig: Rig) -> None:
    with served(more=rig.faces, is_open=True) as at, at.connect() as connection:
        connection.sendall(
            b"GET /rig/whoami HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100)[9:12] in (b"400", b"403")


def test_the_server_answers_to_the_names_it_was_given(rig: Rig) -> None:
    with served(more=rig.faces, allowed_hosts="memory.example, .corp.example") as at, at.client() as client:
        for name in ("memory.example", "a.corp.example:443"):
            assert client.get("/rig/whoami", headers={"Host": name}).status_code == 200
        for name in ("corp.example", "127.0.0.1", "memory.example.evil"):
            problem(client.get("/rig/whoami", headers={"Host": name}), 403, "forbidden", "host")
        assert client.get("/readyz", headers={"Host": "10.1.2.3"}).status_code == 200, "a load balancer"


@given(name=st.text(min_size=1, max_size=20), more=st.text(max_size=10))
def test_a_name_is_its_own_and_no_longer_one(name: str, more: str) -> None:
    assert not is_named(f"{name}{more}x", [name]) or name.startswith(".")
    assert host_of(f"[::1]{more}") == "::1"


def test_other_origins_are_let_in_by_name_only(rig: Rig) -> None:
    def preflight(client: httpx.Client, origin: str) -> httpx.Response:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        return client.options(
            "/rig/echo", headers={**asked, "Access-Control-Request-Headers": "authorization"}
        )

    with served(more=rig.faces) as at, at.client("") as client:
        assert "access-control-allow-origin" not in preflight(client, "https://app.example").headers
    with served(more=rig.faces, cors_origins="https://app.example") as at, at.client("") as client:
        allowed = preflight(client, "https://app.example")
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in allowed.headers
        assert "access-control-allow-origin" not in preflight(client, "https://evil.example").headers
        refused = client.post("/rig/echo", headers={"Origin": "https://app.example"})
        problem(refused, 401, "unauthenticated", "no_credential")
        assert refused.headers["access-control-allow-origin"] == "https://app.example"
        assert "Quipu-Request-Id" in refused.headers["access-control-expose-headers"]


def test_a_proxy_is_believed_only_where_there_is_one(rig: Rig) -> None:
    def guesses(at: Served, count: int) -> list[int]:
        with at.client("qp_default_guess") as client:
            return [
                client.get("/rig/whoami", headers={"X-Forwarded-For": f"198.51.100.{number}"}).status_code
                for number in range(count)
            ]

    with served(more=rig.faces) as at:
        assert guesses(at, 13)[-1] == 429, "all from here, whatever they say"
    with served(more=Rig().faces, behind_proxy=True) as at:
        assert guesses(at, 13)[-1] == 401, "each from somewhere else"
