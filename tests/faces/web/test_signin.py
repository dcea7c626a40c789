"""Signing in and out: cookies, rotation, revocation, and where one lands."""

import logging
import re

import httpx
import pytest

from quipu.model.access import Role
from quipu.model.principal import local
from tests.faces.serving import served
from tests.faces.web.conftest import HTML, House, Person

COOKIE = re.compile(r"quipu=([A-Za-z0-9_-]{43}); HttpOnly; Max-Age=86400; Path=/; SameSite=strict")


def test_who_is_not_signed_in_is_led_to_the_form_and_back(house: House) -> None:
    person = house.person()
    answer = person.get("/memories?q=tea&agent=support-bot")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Fmemories%3Fq%3Dtea%26agent%3Dsupport-bot"
    landed = person.sign_in(house.demo.tokens["ana"], next="/memories?q=tea&agent=support-bot")
    assert landed.headers["location"] == "/memories?q=tea&agent=support-bot"


def test_the_cookie_is_strict_and_out_of_reach_of_scripts(house: House) -> None:
    answer = house.person().sign_in(house.demo.tokens["ana"])
    kept = [text for text in answer.headers.get_list("set-cookie") if text.startswith("quipu=")]
    assert len(kept) == 1
    assert COOKIE.fullmatch(kept[0])


def test_over_tls_the_cookie_is_bound_to_this_very_host(house: House) -> None:
    """As the server sees it behind a proxy that it trusts."""
    with served(
        behind_proxy=True,
        trusted_proxies="127.0.0.1",
    ) as running:
        headers = {**HTML, "X-Forwarded-Proto": "https", "Host": "memory.example"}
        with httpx.Client(base_url=running.url, headers=headers) as client:
            form = client.get("/signin")
            (before,) = form.headers.get_list("set-cookie")
            assert before.startswith("__Host-quipu-signin=")
            secret = re.search(r'name="csrf" value="([^"]+)"', form.text)
            assert secret is not None
            name, _, value = before.partition(";")[0].partition("=")
            answer = client.post(
                "/signin",
                data={"csrf": secret.group(1), "token": running.admin_token},
                headers={"Cookie": f"{name}={value}", "Origin": "https://memory.example"},
            )
            assert answer.status_code == 303, answer.text
            (kept,) = [text for text in answer.headers.get_list("set-cookie") if "Max-Age=86400" in text]
            assert kept.startswith("__Host-quipu=")
            assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= {
                part.strip() for part in kept.split(";")
            }
            assert "Domain" not in kept


def test_beyond_this_machine_nobody_signs_in_over_an_open_line(house: House) -> None:
    with httpx.Client(base_url=house.url, headers={**HTML, "Host": "memory.example"}) as client:
        form = client.get("/signin")
        assert "over an unprotected line" in form.text
        assert 'name="token"' not in form.text


def test_a_session_that_was_there_before_is_never_taken_over(house: House) -> None:
    """Session fixation: the name that somebody planted is not the name after signing in."""
    planted = house.person("ruth").session
    assert planted is not None
    victim = house.person()
    victim.client.cookies.set("quipu", planted, domain="127.0.0.1")
    victim.client.cookies.set("quipu", planted)
    assert victim.sign_in(house.demo.tokens["ana"]).status_code == 303
    named = {cookie.value for cookie in victim.client.cookies.jar if cookie.name == "quipu"} - {planted}
    assert len(named) == 1
    attacker = house.person()
    attacker.client.cookies.set("quipu", planted)
    assert attacker.get("/").status_code == 303, "the planted session has ended, and is nobody's"


def test_a_name_that_was_made_up_is_no_session(house: House) -> None:
    person = house.person()
    person.client.cookies.set("quipu", "A" * 43)
    answer = person.get("/")
    assert answer.headers["location"] == "/signin?ended=1"
    assert 'quipu=""' in answer.headers["set-cookie"]


def test_signing_out_ends_the_session_on_the_server(house: House, ana: Person) -> None:
    kept = ana.session
    assert kept is not None
    assert ana.send("/signout").headers["location"] == "/signin"
    ana.client.cookies.set("quipu", kept)
    assert ana.get("/").status_code == 303


def test_a_revoked_token_is_out_at_the_very_next_page(house: House) -> None:
    service = house.served.service
    issued = house.served.do(service.tokens.issue(local(), name="short", roles=(Role.ADMIN,)))
    person = house.person()
    assert person.sign_in(issued.text).status_code == 303
    assert person.get("/").status_code == 200
    house.served.do(service.tokens.revoke(local(), issued.token.id))
    answer = person.get("/stores")
    assert answer.headers["location"] == "/signin?next=%2Fstores&ended=1"
    assert "Your session has ended" in person.get(answer.headers["location"]).text


@pytest.mark.parametrize(
    "token", ["", "nonsense", "qp_default_" + "x" * 43, "qp_nobody_" + "x" * 43, "ü" * 20, "x" * 20_000]
)
def test_what_is_no_token_stays_outside(house: House, token: str) -> None:
    answer = house.person().sign_in(token)
    assert answer.status_code == 401
    assert "That is no token of this server" in answer.text
    assert token == "" or token not in answer.text


def test_many_bad_tokens_have_to_wait(house: House) -> None:
    with served() as running:
        with Person(running.url) as person:
            seen = [person.sign_in("bad").status_code for _ in range(14)]
        assert seen[0] == 401
        assert seen[-1] == 429


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/%5cevil.example\\",
        "javascript:alert(1)",
        "/\tevil",
        "/\n/evil.example",
        "///evil.example",
        "/signin?next=/x",
        "/signout",
        "memories",
        "",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(house: House, target: str) -> None:
    answer = house.person().sign_in(house.demo.tokens["ana"], next=target)
    assert answer.status_code == 303
    assert answer.headers["location"] in ("/", target if target.startswith("/%5c") else "/")
    assert not answer.headers["location"].startswith(("//", "/\\"))


def test_the_form_keeps_only_an_own_path(house: House) -> None:
    text = house.person().get("/signin?next=https://evil.example").text
    assert 'name="next" value="/"' in text


def test_the_token_is_in_no_page_address_cookie_or_header(house: House, ana: Person) -> None:
    token = house.demo.tokens["ana"]
    for path in ("/", "/memories", "/journal", "/health", "/review", "/stores", "/signin"):
        answer = ana.get(path)
        assert token not in answer.text
        assert token not in str(answer.headers)
        assert token[11:30] not in answer.text
    assert all(token not in (cookie.value or "") for cookie in ana.client.cookies.jar)


def test_the_token_is_in_no_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    person = house.person("ana")
    person.get("/memories?q=" + "walnuts")
    assert not logging.getLogger("uvicorn.access").propagate, "only pytest hears this one"
    quiet = ("httpx", "httpcore", "uvicorn.access")
    ours = [record for record in caplog.records if not record.name.startswith(quiet)]
    assert any(record.name == "quipu.access" for record in ours), "the server writes a line per request"
    for record in ours:
        told = record.getMessage() + str(getattr(record, "fields", "")) + str(record.args)
        assert house.demo.tokens["ana"] not in told
        assert person.session not in told
        assert "walnuts" not in told


def test_a_link_on_another_site_opens_when_one_is_signed_in(house: House, ana: Person) -> None:
    """A strict cookie is kept back on such a request: the page asks again by itself, from here."""
    stranger = house.person()
    answer = stranger.get("/journal?op=forget", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/journal?op=forget">' in answer.text
    again = stranger.get("/journal?op=forget", headers={"Sec-Fetch-Site": "same-origin"})
    assert again.status_code == 303


def test_an_open_server_asks_nobody_and_its_forms_are_guarded_all_the_same() -> None:
    with (
        served(is_open=True) as running,
        Person(running.url) as person,
    ):
        first = person.get("/")
        assert first.status_code == 200
        assert "Sign out" not in first.text
        assert person.session is not None
        assert person.client.post("/journal/verify", data={}).status_code == 403
        assert person.send("/journal/verify").status_code == 303


@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}], ids=str
)
def test_what_comes_without_the_cookie_never_takes_the_cookie_away(
    house: House, headers: dict[str, str]
) -> None:
    """Otherwise any site could sign people out: its requests come without a strict cookie."""
    stranger = house.person()
    for method in ("GET", "POST"):
        answer = stranger.client.request(
            method, "/journal/verify" if method == "POST" else "/", headers=headers
        )
        assert "set-cookie" not in answer.headers


def test_a_form_of_another_site_is_refused_also_where_the_cookie_was_kept_back(house: House) -> None:
    answer = house.person().client.post("/signout", data={}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert "not sent by this page" in answer.text
