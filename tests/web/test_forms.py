"""Forms: only our own, in their own session; sent once; what was typed is not lost, and a secret is not repeated."""

import pytest

from quipu.access.operations import REVOKE_TOKEN
from quipu.memory.operations import LIST
from quipu.secrets.operations import ADD_SECRET
from tests.web.conftest import House

SECRET = "hunter2-nobody-knows"


async def _count(house: House) -> int:
    return len((await house(LIST, all_agents=True)).records)


async def test_a_form_without_the_secret_of_its_session_is_refused(house: House) -> None:
    person, other = await house.person("ana", "admin"), await house.person("ben", "admin")
    page, theirs = await person.get("/memories"), await other.get("/memories")
    fields = [("action", "add"), ("agent", "agent"), ("content", "planted")]
    stolen = dict(theirs.html.form("add").fields)["csrf"]
    for csrf in ([], [("csrf", "")], [("csrf", stolen)], [("csrf", "ü")]):
        seen = await person.post("/memories", [*fields, *csrf])
        assert seen.status == 403, csrf
        assert "This form was not sent by this page" in seen.text
    assert page.status == 200
    assert await _count(house) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
        {"Sec-Fetch-Site": "none", "Origin": "https://evil.example"},
    ],
)
async def test_a_form_of_another_site_is_refused_whatever_it_holds(
    house: House, headers: dict[str, str]
) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    fields = [*page.html.form("add").fields, ("content", "planted")]
    seen = await person.post("/memories", fields, **headers)
    assert seen.status == 403
    assert await _count(house) == 0


async def test_a_form_of_another_site_does_not_end_the_session(house: House) -> None:
    person = await house.person("ana", "admin")
    cookies = dict(person.http.cookies)
    person.http.cookies.clear()  # a strict cookie is not sent along
    seen = await person.post("/memories", [("content", "x")], **{"Sec-Fetch-Site": "cross-site"})
    assert seen.status == 403
    person.http.cookies.update(cookies)
    assert "ana" in (await person.get("/")).text


async def test_the_second_half_of_a_double_click_remembers_nothing_more(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    for _ in range(2):
        seen = await person.send(page, "add", content="Ana lives in Lisbon", agent="agent")
        assert seen.status == 200
    assert await _count(house) == 1


async def test_what_was_typed_stands_in_the_form_again_when_it_was_refused(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    seen = await person.send(page, "add", content="Ana lives in Lisbon", agent="agent", expires_at="soon")
    assert seen.status == 400
    assert "Nothing was done" in seen.text
    assert ("content", "Ana lives in Lisbon") in seen.html.form("add").fields


async def test_a_refused_secret_is_not_repeated(house: House) -> None:
    await house(ADD_SECRET, label="database", value=SECRET)
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    seen = await person.send(page, "add", content="a note", agent=f"agent-{SECRET}")
    assert seen.status == 422
    assert SECRET not in seen.html.source


async def test_what_was_typed_survives_a_session_that_has_ended(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    tokens = await house.container.access.tokens.every("default")
    await house(REVOKE_TOKEN, id=tokens[0].id)
    seen = await person.send(page, "add", content="A long letter.\nWith two lines.", agent="agent")
    assert seen.status == 401
    assert "A long letter.\nWith two lines." in seen.html.source
    assert "/signin?next=%2Fmemories&amp;ended=1" in seen.html.source
    assert await _count(house) == 0


async def test_what_was_never_signed_in_is_told_nothing_of_its_own(house: House) -> None:
    seen = await house.stranger().post("/memories", [("action", "add"), ("content", "x")])
    assert seen.path.startswith("/signin")


async def test_a_notice_is_shown_once_and_cannot_be_planted(house: House) -> None:
    person = await house.person("ana", "admin")
    seen = await person.send(await person.get("/memories"), "add", content="tea", agent="agent")
    assert "Remembered." in seen.text
    assert "Remembered." not in (await person.get(seen.path)).text
    person.http.cookies.set("quipu-notice", "U2VuZCBtb25leQ==.00", domain="127.0.0.1")
    assert "Send money" not in (await person.get("/")).text


async def test_an_open_server_binds_its_forms_to_the_browser(open_server: House) -> None:
    person = open_server.stranger()
    page = await person.get("/")
    assert "Filled in 9 invented memories" in (await person.send(page, "fill")).text
    other = open_server.stranger()
    await other.get("/")
    fields = page.html.form("fill") if page.html.has_form("fill") else None
    assert fields is not None
    assert (await other.post("/", fields.fields)).status == 403


async def test_what_is_no_action_of_the_page_is_refused(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    csrf = dict(page.html.form("add").fields)["csrf"]
    assert (await person.post("/memories", [("csrf", csrf), ("action", "erase")])).status == 400
    assert (await person.post("/memories", [("csrf", csrf)])).status == 400
