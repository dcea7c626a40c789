"""Every page, with every kind of data, for everybody: none fails, and none shows what lies beyond somebody's limits."""

import re
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from quipu.audit.page import Checks
from quipu.web.pages import pages
from tests.web.conftest import open_house
from tests.web.full import Full, open_full
from tests.web.past import CODE, PLUMBER, RETURN
from tests.web.person import Person, Seen

#: What only some may see: agent, user, words.
PRIVATE = {
    "support": "alpaca shawl",
    "travel": "Humberto Delgado",
    "home": "Rui Carvalho",
    "tomas": "Sierra Verde",
    "team": "language of the letter",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full() -> AsyncIterator[Full]:
    async with open_full() as made:
        yield made


async def _signed_in(full: Full, name: str) -> Person:
    person = full.house.stranger()
    assert (await person.sign_in(full.past.tokens[name])).status == 200
    return person


async def _walked(person: Person, addresses: Sequence[str]) -> dict[str, Seen]:
    return {address: await person.get(address) for address in addresses}


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_no_page_is_left_out_of_the_walk(full: Full) -> None:
    reached = {address.partition("?")[0] for address in full.addresses()}
    for page in pages(Checks(lambda: 0)):
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", page.path))
        assert any(map(pattern.fullmatch, reached)), page.path


async def test_every_page_with_every_kind_of_data_answers_an_admin(full: Full) -> None:
    person = await _signed_in(full, "ana")
    for address, seen in (await _walked(person, full.addresses())).items():
        assert seen.status in (200, 400, 403, 404), (address, seen.text)
        assert seen.html.title, address
        names_nothing = re.search("none|nowhere|=9$|=x$|nonsense|tenants|%7B|nobody", address)
        assert seen.status == 200 or names_nothing, (address, seen.status, seen.text)
        scripts = [given for tag, given in seen.html.tags if tag == "script"]
        assert all(given.get("src", "").startswith("/static/") for given in scripts), address
        acting = [
            given for _, given in seen.html.tags if any(n.startswith("on") or n == "style" for n in given)
        ]
        assert acting == [], address
        assert not any(link.startswith("javascript:") for link in seen.html.links), address
        assert "script-src 'self'" in seen.response.headers["content-security-policy"]
        # A form's token beside text of others would show by the length of what is packed.
        assert "content-encoding" not in seen.response.headers, address


async def test_control_characters_are_named_and_not_obeyed(full: Full) -> None:
    person = await _signed_in(full, "ana")
    for address, seen in (await _walked(person, full.addresses())).items():
        outside_of_fields = re.sub(r"(?s)<textarea.*?</textarea>|<input[^>]*>", "", seen.html.source)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x07\x1b\U000e0041]", outside_of_fields), address
    seen = await person.get(f"/memories/{full.strange[4]}")
    assert "U+202E" in seen.text
    assert "U+001B" in seen.text


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("ana", ()),
        ("ruth", ()),
        ("auditor", ()),
        ("travel-reviewer", ("support", "home", "tomas")),
        ("support-key", ("travel", "home")),
        ("only-mara", ("travel", "tomas")),
        ("team-reviewer", ("support", "travel", "home", "tomas")),
        ("operator", tuple(PRIVATE)),
    ],
)
async def test_nobody_is_shown_what_lies_beyond_their_limits(
    full: Full, name: str, hidden: tuple[str, ...]
) -> None:
    person = await _signed_in(full, name)
    walked = await _walked(person, full.addresses())
    for address, seen in walked.items():
        assert seen.status < 500, (address, seen.text)
        for one in hidden:
            assert PRIVATE[one] not in seen.html.source, (address, one)
        assert name == "ana" or "alarm code" not in seen.html.source, (
            f"{address}: labelled secret, and no admin"
        )
    for link in {link for seen in walked.values() for link in seen.html.links if link.startswith("/")}:
        side = {
            "/",
            "/memories",
            "/stores",
            "/review",
            "/rules",
            "/suggestions",
            "/journal",
            "/undo",
            "/runs",
            "/grants",
            "/consolidation",
            "/health",
        }
        if link in side | {"/journal/verify", "/access", "/secrets", "/transfer", "/tenants"}:
            assert (await person.get(link)).status == 200, f"{name} is offered {link}, and refused there"


async def test_somebody_of_another_tenant_sees_nothing_of_this_one(full: Full) -> None:
    issued = await full.house.token("zoe", "admin", tenant="atelier")
    person = full.house.stranger()
    await person.sign_in(issued)
    for address, seen in (await _walked(person, full.addresses())).items():
        assert seen.status < 500, (address, seen.text)
        # A request is said back to who made it.
        for word in (*PRIVATE.values(), "Tomás", "browser-agent", "nowhere.invalid", "Bolhão"):
            assert word not in seen.html.source, (address, word)


async def test_every_list_that_is_empty_says_what_to_do_next() -> None:
    house = await open_house()
    person = await house.person("ana", "admin", "operator")
    for path in (
        "/",
        "/memories",
        "/review",
        "/suggestions",
        "/consolidation",
        "/runs",
        "/grants",
        "/erasures",
        "/secrets",
        "/undo",
        "/journal/verify",
    ):
        seen = await person.get(path)
        assert seen.status == 200
        assert 'class="empty' in seen.html.source or 'class="card begin' in seen.html.source, path
        following = re.search(
            r'(?s)class="(?:empty|card begin).*?(?:<a href|<code>|<button)', seen.html.source
        )
        assert following, f"{path} says nothing to do next"
    await house.close()


async def test_what_was_gone_or_secret_stays_so_on_the_page(full: Full) -> None:
    person = await _signed_in(full, "ana")
    assert "Forgotten" in (await person.get(f"/memories/{full.past.ids[PLUMBER]}")).text
    assert "neighbour" not in (await person.get(f"/memories/{full.past.ids['erased']}")).html.source
    assert "alarm" in (await person.get(f"/memories/{full.past.ids[CODE]}")).text, "an admin may read it"
    reviewer = await _signed_in(full, "ruth")
    assert "Labelled secret" in (await reviewer.get(f"/memories/{full.past.ids[CODE]}")).text
    stood = await person.get(f"/memories/{full.past.ids[RETURN]}")
    assert "it is shipped" in stood.text
    assert stood.html.has_form("step")
