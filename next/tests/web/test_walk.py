"""Every page, with every kind of data, for everybody: none fails, and none shows what lies beyond somebody's limits."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from quipu.audit.page import Checks
from quipu.governance.operations import SET_RULES
from quipu.memory.operations import CREATE_STORE, FORGET, REMEMBER, UPDATE
from quipu.model.principal import local
from quipu.web.pages import pages
from tests.web.conftest import House, open_house
from tests.web.past import CODE, HOME, LISBON, PLUMBER, RETURN, SUPPORT, TRAVEL, WALNUTS, Past, write_past
from tests.web.person import Person, Seen

#: What strangers may write into a memory. None of it acts on a page.
STRANGE = (
    "<script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 1">',
    "{{ 7 * 7 }} {% for x in y %} ${7*7} <%= 7*7 %>",
    "# heading\n\n[link](javascript:window.hit=1) <!-- comment -->",
    "\u202egpj.exe\u202c and \u2066isolated\u2069 \u200f\x07\x1b[31m",
    "&lt;b&gt; &amp;amp; &#60;script&#62;",
    "]]></template></textarea></title><script>window.hit=1</script>",
    "'; DROP TABLE record; --",
    "a" * 5000,
    "שלום עולם وسلام",
    "\U0001f469\u200d\U0001f467 z\u0351\u036b\u0343 \U000e0041\U000e0042",
)
AGENT = "strange<script>alert(1)</script>"
#: What only some may see: agent, user, words.
PRIVATE = {
    "support": "alpaca shawl",
    "travel": "Humberto Delgado",
    "home": "Rui Carvalho",
    "tomas": "Sierra Verde",
    "team": "language of the letter",
}


@dataclass
class Full:
    """An installation with a past, strange texts, and much of one thing."""

    house: House
    past: Past
    strange: list[str]

    def addresses(self) -> list[str]:
        """Pages with each kind of data; those of a memory for every memory there is."""
        ids = [*self.past.ids.values(), *self.strange, "mem_none"]
        held = [*self.past.waiting, *self.past.decided, "prop_none"]
        return [
            *("/", "/memories", "/memories?q=Mara", "/memories?q=Mara&weak=1&count=50", "/memories?state=forgotten"),
            *(f"/memories?agent={agent}&type=procedural" for agent in (SUPPORT, TRAVEL, HOME, "nobody")),
            *("/memories?as_of=3", "/memories?as_of=2025-01-01T00:00", "/memories?as_of=nonsense", "/memories?filter=%7B"),
            *("/memories?q=%00%1b&agent=strange%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/memories?count=x&q=a"),
            *("/memories?tags=food&source=chat&since=2025-06-01&until=2025-06-30", "/memories?cursor=nonsense"),
            *(f"/memories/{one}" for one in ids),
            *(f"/memories/{self.past.ids[LISBON]}?version={number}" for number in (1, 3, 9, "x")),
            *("/stores", "/review", "/review?status=approved", "/review?status=rejected", "/review?agent=nobody"),
            *(f"/review/{one}" for one in held),
            f"/review/{self.past.waiting[0]}?queue=1",
            *("/rules", "/suggestions", f"/suggestions?agent={SUPPORT}&kind=stale", "/suggestions?agent=nobody"),
            *("/journal", "/journal?op=update", f"/journal?record={self.past.ids[WALNUTS]}", "/journal?cursor=x"),
            *("/journal?until=2025-06-10&actor=ana", "/journal?until=nonsense", "/journal?op=nothing&user=mara"),
            *("/journal/verify", "/undo", "/undo?source=web*", f"/undo?principal={TRAVEL}&agent={TRAVEL}", "/undo?since=x"),
            *("/undo?detectors=1&do=quarantine", "/undo?since=2025-06-01T10:00&until=2025-06-30", "/undo?do=x&run=r"),
            *("/health", "/access", "/access?cursor=x", "/secrets", "/tenants", "/signin", "/nowhere"),
        ]  # fmt: skip


async def _fill_with_strange(house: House) -> list[str]:
    """Strange text in every field that takes text."""
    ids: list[str] = []
    for text in STRANGE:
        short = text[:100].strip()
        ids.append(
            await house.remember(
                text, agent_id=AGENT, user_id=short, session_id=short, source=short, tags=[short],
                metadata={short: text, "nested": {"k": [text]}}, key=short,
                links=[{"to": ids[-1], "rel": short}] if ids else [],
            )
        )  # fmt: skip
    await house(UPDATE, id=ids[0], agent_id=AGENT, content="<del>" + STRANGE[1])
    await house(FORGET, ids=[ids[2]], agent_id=AGENT, reason=STRANGE[0])
    await house(REMEMBER, content=STRANGE[0], agent_id=AGENT, reasoning=STRANGE[1], approval_required=True)
    await house(CREATE_STORE, name="<b>bold</b>", description=STRANGE[6])
    for number in range(40):
        await house.remember(f"Number {number} of many", agent_id="much")
    return ids


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full() -> AsyncIterator[Full]:
    house = await open_house()
    past = await write_past(house.container, house.clock)
    rules = [{"id": "<i>", "effect": "hold", "reason": STRANGE[0], "when": {"sources": ["<script>"]}}]
    strange = await _fill_with_strange(house)
    await house(SET_RULES, local(), rules=rules)
    yield Full(house, past, strange)
    await house.close()


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
        assert name == "ana" or "4711" not in seen.html.source, f"{address}: labelled secret, and no admin"
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
            "/health",
        }
        if link in side | {"/journal/verify", "/access", "/secrets", "/tenants"}:
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
    for path in ("/", "/memories", "/review", "/suggestions", "/secrets", "/undo", "/journal/verify"):
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
