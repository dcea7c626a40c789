"""Signing in and out: cookies, sessions on any server, links from other sites, links that work once."""

import re

from quipu.access.model import WEB_SESSIONS
from quipu.access.operations import CREATE_SIGNIN_LINK, REVOKE_TOKEN
from quipu.bootstrap import http_app
from quipu.model.principal import local
from quipu.web.session import IDLE_MS, LIFE_MS
from tests.web.conftest import House
from tests.web.person import Person


async def test_a_token_signs_in_and_leads_on_to_where_one_wanted_to_go(house: House) -> None:
    token, person = await house.token("ana", "admin"), house.stranger()
    away = await person.get("/memories?q=tea")
    assert away.path == "/signin?next=%2Fmemories%3Fq%3Dtea"
    seen = await person.sign_in(token, "%2Fmemories%3Fq%3Dtea")
    assert (seen.status, seen.path) == (200, "/memories?q=tea")
    assert "ana" in seen.text


async def test_the_session_cookie_is_strict_and_no_script_reads_it(house: House) -> None:
    token, person = await house.token("ana", "admin"), house.stranger()
    page = await person.get("/signin")
    fields = [(name, token if name == "token" else value) for name, value in page.html.forms[0].fields]
    answer = (await person.post("/signin", fields, follow=False)).response
    cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("quipu-session="))
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie.split("; ")


async def test_under_tls_the_cookie_is_secure_and_bound_to_the_host(house: House) -> None:
    token, person = await house.token("ana", "admin"), house.stranger("https://memory.example")
    page = await person.get("/signin")
    fields = [(name, token if name == "token" else value) for name, value in page.html.forms[0].fields]
    answer = (await person.post("/signin", fields, follow=False)).response
    cookie = next(
        one for one in answer.headers.get_list("set-cookie") if one.startswith("__Host-quipu-session=")
    )
    assert "Secure" in cookie.split("; ")
    assert (await person.get("/")).text.startswith("Skip to the content")


async def test_on_an_unprotected_line_no_token_is_asked_for(house: House) -> None:
    person = house.stranger("http://memory.example")
    page = await person.get("/signin")
    assert "unprotected" in page.text
    assert "token" not in dict(page.html.forms[0].fields) if page.html.forms else True


async def test_what_is_no_token_is_refused_in_the_same_words_and_costs_a_wait(house: House) -> None:
    person = house.stranger()
    said = {(await person.sign_in(text)).text for text in ("", "qp_default_wrong", "x" * 20_000, "ünï")}
    assert len(said) == 1
    for _ in range(10):
        seen = await person.sign_in("qp_default_wrong")
    assert seen.status == 429


async def test_the_sign_in_form_of_another_browser_is_refused(house: House) -> None:
    token, mine, theirs = await house.token("ana", "admin"), house.stranger(), house.stranger()
    await mine.get("/signin")
    page = await theirs.get("/signin")
    fields = [(name, token if name == "token" else value) for name, value in page.html.forms[0].fields]
    assert (await mine.post("/signin", fields)).status == 403


async def test_a_session_is_good_on_any_server(house: House) -> None:
    person = await house.person("ana", "admin")
    other = Person(http_app(house.container))
    house.people.append(other)
    other.http.cookies = person.http.cookies
    assert "ana" in (await other.get("/memories")).text


async def test_who_is_shut_out_is_shut_out_of_the_page_at_once(house: House) -> None:
    person = await house.person("ana", "reviewer")
    tokens = await house.container.access.tokens.every("default")
    await house(REVOKE_TOKEN, id=next(one.id for one in tokens if one.name == "ana"))
    assert (await person.get("/")).path.startswith("/signin?ended=1")


async def test_a_session_ends_when_nobody_comes_and_in_any_case_after_a_day(house: House) -> None:
    idle, busy = await house.person("ana", "admin"), await house.person("ben", "admin")
    for _ in range(LIFE_MS // (IDLE_MS // 2) - 1):
        house.clock.now += IDLE_MS // 2
        assert (await busy.get("/")).path == "/"
    assert "Your session has ended" in (await idle.get("/")).text
    house.clock.now += IDLE_MS // 2
    assert "Your session has ended" in (await busy.get("/")).text


async def test_signing_out_ends_the_session_whatever_the_browser_keeps(house: House) -> None:
    person = await house.person("ana", "admin")
    cookies = dict(person.http.cookies)
    page = await person.get("/")
    form = next(form for form in page.html.forms if form.action == "/signout")
    assert (await person.post("/signout", form.fields)).path == "/signin"
    person.http.cookies.update(cookies)
    assert (await person.get("/")).path.startswith("/signin")
    assert await house.container.ledger.count(WEB_SESSIONS, "default") == 0


async def test_the_ledger_has_no_session_text_and_no_token_text(house: House) -> None:
    person = await house.person("ana", "admin")
    text = person.http.cookies["quipu-session"]
    rows = await house.container.ledger.page(WEB_SESSIONS, "default")
    assert len(rows) == 1
    assert text.rpartition("_")[2] not in repr(rows)


async def test_a_link_signs_in_once_by_a_button(house: House) -> None:
    await house.token("ana", "admin")
    token_id = (await house.container.access.tokens.every("default"))[0].id
    link = (await house(CREATE_SIGNIN_LINK, token_id=token_id)).url
    first, second = house.stranger(), house.stranger()
    for person in (first, second):  # looking at it uses nothing up
        assert "This link signs you in once" in (await person.get(link)).text
    pages = [await person.get(link) for person in (first, second)]
    assert "ana" in (await first.post("/signin", pages[0].html.forms[0].fields)).text
    refused = await second.post("/signin", pages[1].html.forms[0].fields)
    assert refused.status == 401
    assert "works once" in refused.text


async def test_a_link_from_another_site_is_asked_for_once_more_by_our_own_page(house: House) -> None:
    """The browser keeps the strict cookie back; the session goes on."""
    person = await house.person("ana", "admin")
    cookies = dict(person.http.cookies)
    person.http.cookies.clear()
    seen = await person.get("/memories?q=tea", **{"Sec-Fetch-Site": "cross-site"})
    assert "You came by a link on another site" in seen.text
    assert re.search(r'http-equiv="refresh" content="0; url=/memories\?q=tea"', seen.html.source)
    assert "set-cookie" not in seen.response.headers
    person.http.cookies.update(cookies)
    assert "ana" in (await person.get("/memories?q=tea")).text


async def test_nobody_is_led_to_another_site(house: House) -> None:
    token = await house.token("ana", "admin")
    for target in ("//evil.example", "https://evil.example/", "/\\evil.example", "/signout", "javascript:x"):
        person = house.stranger()
        page = await person.get("/signin")
        fields = [
            (name, {"token": token, "next": target}.get(name, value))
            for name, value in page.html.forms[0].fields
        ]
        assert (await person.post("/signin", fields)).path == "/"


async def test_whoever_comes_by_the_identity_provider_is_kept_sealed(house: House) -> None:
    sessions = house.container
    from quipu.web.session import Sessions

    made = Sessions(
        ledger=sessions.ledger,
        credentials=sessions.access.credentials,
        sealing=sessions.secrets.sealing,
        clock=house.clock,
        random=lambda count: bytes(count),
    )
    who = local()
    principal = type(who)(
        tenant="default",
        name="oidc:ana",
        permissions=who.permissions,
        agents=("shop-*",),
        trust="user",
        expires_at=house.clock.now + 60_000,
    )
    await sessions.ledger.open_tenant("default", house.clock.now)
    text = await made.begin(principal)
    assert (await made.find(text)).principal == principal
    rows = await sessions.ledger.page(WEB_SESSIONS, "default")
    assert b"oidc:ana" not in (rows[0].principal or b"")
    assert rows[0].expires_at == principal.expires_at
