"""What a reviewer sees before a decision, and what becomes of one that cannot be made: nothing unseen, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from playwright.async_api import expect

from quipu.faces.web import overview, review
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from tests.faces.serving import served
from tests.faces.web.conftest import House, Opened, Person

DESK = "deciding-desk"
#: Keys decide on a page that has been up for so long.
SEEN_MS = 450


def asked(text: str, **more: Any) -> RememberRequest:
    more = {"agent_id": DESK, **more}
    return RememberRequest(type=MemoryType.SEMANTIC, content=text, approval_required=True, **more)


def held(house: House, text: str, **more: Any) -> str:
    """A proposal of a bot's."""
    writer = replace(local(), name="bot")
    answer = house.served.do(house.served.service.remember(writer, asked(text, **more)))
    return str(answer.extensions["proposal_id"])


def clear(house: House) -> None:
    """Nothing else waits."""
    for one in house.served.do(house.served.service.governance.proposals(local(), "pending")):
        house.served.do(house.served.service.decide(local(), one.id, approved=False))


def standing(house: House, name: str) -> str:
    return house.served.do(house.served.service.governance.proposal(local(), name)).status


def etag(text: str) -> str:
    return text.partition('name="etag" value="')[2].partition('"')[0]


# -- nothing unseen ----------------------------------------------------------------------------------------------


def test_every_memory_of_a_batch_is_shown_before_the_decision(house: House) -> None:
    clear(house)
    items = [asked(f"Otis has toy {number}", tags=("toys", f"shelf-{number}")) for number in range(12)]
    writer = replace(local(), name="bot")
    told = house.served.do(house.served.service.remember_many(writer, items, atomic=True))
    proposal = told[0].extensions["proposal_id"]  # pyright: ignore[reportAttributeAccessIssue]  none was refused
    page = house.person("ruth").get(f"/review/{proposal}").text
    for number in range(12):
        assert f"Otis has toy {number}</ins>" in page
        assert f"shelf-{number}" in page


def test_the_end_of_a_long_text_can_be_seen_before_the_decision(house: House) -> None:
    ruth = house.person("ruth")
    proposal = held(house, "a long text " * 3000 + "WITH AN END", metadata={"note": "n" * 500 + "NOTED"})
    page = ruth.get(f"/review/{proposal}?queue=1").text
    assert "WITH AN END" not in page
    assert "NOTED" not in page
    whole = re.search(r'<a href="([^"]+)">Show all of it</a>', page)
    assert whole is not None
    page = ruth.get(whole.group(1).replace("&amp;", "&")).text
    assert "WITH AN END" in page
    assert "NOTED" in page
    assert "Show all of it" not in page
    assert 'name="queue" value="1"' in page, "the queue goes on"
    assert "Show all of it" not in ruth.get(f"/review/{held(house, 'short')}").text


def test_a_change_too_long_to_compare_shows_the_new_text(house: House) -> None:
    writer = replace(local(), name="bot")
    first = RememberRequest(agent_id=DESK, type=MemoryType.SEMANTIC, content="It was short.")
    made = house.served.do(house.served.service.remember(writer, first))
    proposal = held(house, "It would be long. " * 6000 + "WITH AN END", id=made.id)
    ruth = house.person("ruth")
    assert ruth.get(f"/review/{proposal}").text.count("It would be long.") > 1000
    assert "WITH AN END" in ruth.get(f"/review/{proposal}?whole=1").text


@pytest.fixture(
    params=[
        "UPDATE proposal SET request = replace(request, 'pay 5', 'pay 9999')",
        """UPDATE proposal SET request = '{"x":1}'""",
        "UPDATE proposal SET operation = 'merge'",
    ],
    ids=["another text", "no text", "another operation"],
)
def altered(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Person, str]]:
    """A proposal that somebody wrote into behind the journal's back, and a reviewer."""
    file = tmp_path / "memory.db"
    with served(file) as running, Person(running.url) as person:
        writer = replace(local(), name="bot")
        answer = running.do(running.service.remember(writer, asked("pay 5 now")))
        connection = apsw.Connection(str(file))
        connection.execute(request.param)
        connection.close()
        person.sign_in(running.admin_token)
        yield person, str(answer.extensions["proposal_id"])


def test_an_altered_proposal_says_so_while_it_is_looked_at(altered: tuple[Person, str]) -> None:
    person, name = altered
    page = person.get(f"/review/{name}").text
    assert "What waits here is not what was held." in page
    assert 'value="approve"' not in page
    assert 'value="edit"' not in page
    assert 'value="reject"' in page
    assert person.send(f"/review/{name}", decision="approve").status_code == 409


@pytest.mark.parametrize(
    "altered", ["UPDATE proposal SET request = replace(request, 'pay 5', 'pay 9999')"], indirect=True
)
def test_an_altered_proposal_can_be_rejected(altered: tuple[Person, str]) -> None:
    person, name = altered
    assert person.send(f"/review/{name}", decision="reject").status_code == 303


def test_the_proof_leads_to_the_altered_proposal(altered: tuple[Person, str]) -> None:
    person, name = altered
    person.send("/journal/verify")
    page = person.get("/journal/proof").text
    assert "altered proposal" in page
    assert f'href="/review/{name}"' in page
    assert f'href="/memories/{name}"' not in page


def test_what_was_held_says_nothing_of_the_kind(house: House) -> None:
    page = house.person("ruth").get(f"/review/{held(house, 'as it was')}").text
    assert "not what was held" not in page
    assert 'value="approve"' in page


# -- nothing lost ------------------------------------------------------------------------------------------------


def test_the_same_decision_sent_twice_is_one(house: House) -> None:
    ruth, name = house.person("ruth"), held(house, "clicked twice")
    following = held(house, "the one after")
    for _ in range(2):
        answer = ruth.send(f"/review/{name}", decision="approve", queue="1")
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/review/next?left={name}"
    page = ruth.client.get(f"/review/next?left={name}", follow_redirects=True)
    assert page.url.path == f"/review/{following}"
    assert "Approved, and carried out." in page.text


def test_who_is_second_is_told_who_was_first_and_goes_on(house: House) -> None:
    ruth, ana = house.person("ruth"), house.person("ana")
    name, following = held(house, "wanted by two"), held(house, "the one after that")
    assert ruth.send(f"/review/{name}", decision="reject").status_code == 303
    answer = ana.send(f"/review/{name}", decision="approve", reason="I like it.", queue="1")
    assert answer.status_code == 409
    assert "Nothing was decided. This proposal has been decided already." in answer.text
    assert "Rejected by ruth" in answer.text
    assert "decision back" not in answer.text, "it was not theirs"
    assert standing(house, name) == "rejected"
    assert f'href="/review/next?left={name}" data-key="n">Next</a>' in answer.text
    assert ana.get(f"/review/next?left={name}").headers["location"] == f"/review/{following}?queue=1"


def test_an_edit_that_is_refused_keeps_what_was_typed(house: House) -> None:
    ruth, name = house.person("ruth"), held(house, "Otis walks at noon")
    stale = ruth.send(
        f"/review/{name}", decision="edit", etag="old", content="Otis walks at <nine>", queue="1"
    )
    assert stale.status_code == 409
    assert "Nothing was decided. What this would change has changed since it was shown." in stale.text
    assert re.search(r'<textarea id="content"[^>]*>\nOtis walks at &lt;nine&gt;</textarea>', stale.text)
    assert '<details class="card" open>' in stale.text
    assert 'name="queue" value="1"' in stale.text
    empty = ruth.send(f"/review/{name}", decision="edit", content="")
    assert empty.status_code == 400
    assert "Nothing was decided." in empty.text
    again = ruth.send(f"/review/{name}", decision="edit", etag=etag(stale.text), content="Otis walks at nine")
    assert again.status_code == 303


def test_a_reason_is_kept_when_the_decision_is_refused(house: House) -> None:
    ruth, name = house.person("ruth"), held(house, "Otis barks")
    answer = ruth.send(f"/review/{name}", decision="approve", etag="old", reason="I heard him.")
    assert answer.status_code == 409
    assert 'value="I heard him."' in answer.text


def test_a_proposal_that_is_not_there_cannot_be_decided(house: House) -> None:
    assert house.person("ruth").send("/review/prp_nothing", decision="approve").status_code == 404


def test_many_are_decided_within_the_filter_and_can_be_taken_back(house: House) -> None:
    clear(house)
    ruth, name = house.person("ruth"), held(house, "one of many")
    assert f'name="agent" value="{DESK}"' in ruth.get(f"/review?agent={DESK}").text
    answer = ruth.send("/review", decision="approve", agent=DESK, **{f"pick-{name}": "on"})
    assert answer.headers["location"] == f"/review?agent={DESK}"
    assert "Take this decision back" in ruth.get(f"/review/{name}").text
    other = held(house, "another of many")
    assert ruth.send("/review", decision="shrug", **{f"pick-{other}": "on"}).status_code == 400
    assert standing(house, other) == "pending", "neither yes nor no is no decision"


def test_who_decides_on_many_stays_where_the_list_was(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    clear(house)
    monkeypatch.setattr(review, "_MOST_PENDING", 2)
    names = [held(house, f"on pages {number}") for number in range(4)]
    ruth = house.person("ruth")
    further = re.search(r'rel="next" href="([^"]+)"', ruth.get("/review").text)
    assert further is not None
    second = further.group(1).replace("&amp;", "&")
    page = ruth.get(second).text
    cursor = page.partition('name="cursor" value="')[2].partition('"')[0]
    assert f'name="pick-{names[1]}"' in page
    answer = ruth.send("/review", decision="reject", cursor=cursor, **{f"pick-{names[1]}": "on"})
    assert answer.headers["location"] == f"/review?cursor={cursor}"
    page = ruth.get(answer.headers["location"]).text
    assert f'name="pick-{names[0]}"' in page
    assert f'name="pick-{names[3]}"' not in page
    answer = ruth.send("/review", decision="reject", cursor=cursor, **{f"pick-{names[0]}": "on"})
    empty = ruth.get(answer.headers["location"])
    assert empty.headers["location"] == "/review", "nothing is left there, but much before it"
    page = ruth.get("/review").text
    assert "Rejected 1 of 1 write." in page
    assert f'name="pick-{names[3]}"' in page


def ticks(page: str) -> dict[str, str]:
    """What the boxes of a list say when they are ticked."""
    return dict(re.findall(r'name="(pick-[^"]+)" value="([^"]*)"', page))


def test_what_has_changed_since_the_list_was_shown_is_not_approved_with_the_others(house: House) -> None:
    clear(house)
    wish = RememberRequest(agent_id=DESK, type=MemoryType.SEMANTIC, content="The key is under the mat.")
    first = house.served.do(house.served.service.remember(local(), wish)).id
    other = house.served.do(
        house.served.service.remember(local(), replace(wish, content="The cat is grey."))
    ).id
    change, quiet, new = (
        held(house, "The key is in the shed.", id=first),
        held(house, "The cat is black.", id=other),
        held(house, "The lamp is blue."),
    )
    ruth = house.person("ruth")
    shown = ticks(ruth.get("/review").text)
    assert len(shown) == 3
    newer = replace(wish, id=first, content="The key was lost, and the lock is new.")
    house.served.do(house.served.service.remember(local(), newer))
    ruth.send("/review", decision="approve", **shown)
    page = ruth.get("/review").text
    assert "Approved 2 of 3 writes." in page
    assert "1 would now do something else than when the list was shown" in page
    assert [standing(house, name) for name in (change, quiet, new)] == ["pending", "approved", "approved"]
    kept = house.served.do(house.served.service.reading.get(local(), DESK, first, None))
    assert kept.content == "The key was lost, and the lock is new."
    ruth.send("/review", decision="approve", **{f"pick-{change}": "on"})
    assert standing(house, change) == "pending", "a tick that says nothing has seen nothing"
    ruth.send("/review", decision="approve", **ticks(ruth.get("/review").text))
    assert standing(house, change) == "approved", "it was shown as it is now"


def test_what_a_list_does_not_show_is_approved_on_its_own_page_only(house: House) -> None:
    clear(house)
    bot = replace(local(), name="bot", is_local=False)
    wish = ForgetRequest(agent_id=DESK, filter={"source": "chat"}, approval_required=True)
    answer = house.served.do(house.served.service.forget(bot, wish))
    name = str(answer.extensions["proposal_id"])
    ruth = house.person("ruth")
    shown = ticks(ruth.get("/review").text)
    ruth.send("/review", decision="approve", **shown)
    assert "Approved 0 of 1 write. 1 can only be approved on a page of its own" in ruth.get("/review").text
    assert standing(house, name) == "pending"
    ruth.send("/review", decision="reject", **shown)
    assert standing(house, name) == "rejected", "a no does nothing"


def test_the_list_says_which_memories_would_go(house: House) -> None:
    clear(house)
    wish = RememberRequest(agent_id=DESK, type=MemoryType.SEMANTIC, content="The gate squeaks.")
    name = house.served.do(house.served.service.remember(local(), wish)).id
    bot = replace(local(), name="bot", is_local=False)
    asking = ForgetRequest(agent_id=DESK, ids=(name,), approval_required=True)
    house.served.do(house.served.service.forget(bot, asking))
    page = house.person("ruth").get("/review").text
    assert "forget 1 record" in page
    assert "<del>The gate squeaks.</del>" in page


def test_the_same_list_sent_twice_is_one_decision(house: House) -> None:
    clear(house)
    for text in ("sent once", "and once more"):
        held(house, text)
    ruth = house.person("ruth")
    shown = ticks(ruth.get("/review").text)
    for _ in range(2):
        ruth.send("/review", decision="approve", **shown)
    assert "Approved 2 of 2 writes.</" in ruth.get("/review").text


def test_a_write_that_changes_a_memory_is_told_from_a_new_one(house: House) -> None:
    clear(house)
    wish = RememberRequest(agent_id=DESK, type=MemoryType.SEMANTIC, content="as it was")
    name = house.served.do(house.served.service.remember(local(), wish)).id
    held(house, "something new")
    assert "changes a memory" not in house.person("ruth").get("/review").text
    held(house, "as it would be", id=name)
    assert house.person("ruth").get("/review").text.count("changes a memory") == 1


def test_many_that_need_a_second_person_are_not_said_to_be_done(tmp_path: Path) -> None:
    rule = {"id": "two", "effect": "hold", "approvals": 2, "when": {"operations": ["remember"]}}
    with served(tmp_path / "memory.db") as running, Person(running.url) as person:
        running.do(running.service.policies.set(local(), {"rules": [rule]}))
        bot = replace(local(), name="bot", is_local=False)
        wish = RememberRequest(agent_id=DESK, type=MemoryType.SEMANTIC, content="twice agreed")
        answer = running.do(running.service.remember(bot, wish))
        person.sign_in(running.admin_token)
        person.send("/review", decision="approve", **{f"pick-{answer.extensions['proposal_id']}": "on"})
        assert "1 of them waits for others to agree." in person.get("/review").text


def test_a_thousand_that_wait_are_not_counted_one_by_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear(house)
    for number in range(3):
        held(house, f"counted {number}")
    ana = house.person("ana")
    assert "<b>3</b>" in ana.get("/").text
    monkeypatch.setattr(overview, "_PENDING", 2)
    assert "<b>2+</b>" in ana.get("/").text


# -- one after the other -----------------------------------------------------------------------------------------


def test_what_was_left_for_later_comes_last(house: House) -> None:
    clear(house)
    first, second, third = (held(house, f"in line {number}") for number in range(3))
    ruth = house.person("ruth")

    def next_after(left: str) -> str:
        return ruth.get(f"/review/next?left={left}").headers["location"]

    assert next_after(first) == f"/review/{second}?queue=1"
    ruth.send(f"/review/{second}", decision="approve", queue="1")
    assert next_after(second) == f"/review/{third}?queue=1", "not back to the first, which was left for later"
    ruth.send(f"/review/{third}", decision="approve", queue="1")
    assert next_after(third) == f"/review/{first}?queue=1"
    ruth.get("/review")  # reads what was said so far
    assert next_after(first) == "/review"
    assert "Nothing else waits for you." in ruth.get("/review").text


def test_who_works_through_a_filtered_list_stays_within_the_filter(house: House) -> None:
    clear(house)
    mine, other, last = (
        held(house, "in a queue", agent_id=name) for name in ("kiln & sons", "elsewhere", "kiln & sons")
    )
    ruth = house.person("ruth")
    page = ruth.get("/review", params={"agent": "kiln & sons"}).text
    assert 'href="/review/next?agent=kiln+%26+sons" data-key="w"' in page
    opened = ruth.get("/review/next?agent=kiln+%26+sons").headers["location"]
    assert opened == f"/review/{mine}?queue=1&agent=kiln+%26+sons"
    page = ruth.get(opened).text
    assert 'name="agent" value="kiln &amp; sons"' in page
    assert f'href="/review/next?left={mine}&amp;agent=kiln+%26+sons"' in page
    onwards = ruth.send(f"/review/{mine}", decision="reject", queue="1", agent="kiln & sons")
    opened = ruth.get(onwards.headers["location"]).headers["location"]
    assert opened == f"/review/{last}?queue=1&agent=kiln+%26+sons"
    taken_back = ruth.send("/undo", proposal=mine, agent="kiln & sons").headers["location"]
    assert taken_back.endswith("?queue=1&agent=kiln+%26+sons")
    ended = ruth.get(f"/review/next?left={other}&agent=nobody").headers["location"]
    assert ended == "/review?agent=nobody"
    assert "Nothing that waits passes the filters." in ruth.get(ended).text
    assert standing(house, other) == "pending"


def test_the_decision_on_a_long_text_is_one_click_away(house: House) -> None:
    clear(house)
    short, long = held(house, "short"), held(house, "a long story, " * 300)
    ruth = house.person("ruth")
    assert 'href="#decide"' not in ruth.get(f"/review/{short}").text
    page = ruth.get(f"/review/{long}").text
    assert page.index('href="#decide"') < page.index("a long story") < page.index('id="decide"')


def test_only_keys_that_do_something_are_named(house: House) -> None:
    clear(house)
    name = held(house, "a harmonica without any peer")
    page = house.person("ruth").get(f"/review/{name}").text
    keys = re.findall(r"<kbd>(\w)</kbd>", page.partition("Keys:")[2])
    assert keys == ["a", "r", "e"]
    assert all(f'data-key="{key}"' in page for key in keys)


def test_one_that_has_lapsed_does_not_stop_who_works_through_them() -> None:
    clock = FixedClock()
    with served(clock=clock) as running, Person(running.url) as person:

        def hold(text: str) -> str:
            writer = replace(local(), name="bot")
            return str(running.do(running.service.remember(writer, asked(text))).extensions["proposal_id"])

        lapsed = hold("nobody looked")
        clock.move(60 * 86_400_000)
        waiting = hold("looked at now")
        person.sign_in(running.admin_token)
        assert person.get("/review/next").headers["location"] == f"/review/{waiting}?queue=1"
        page = person.get(f"/review/{lapsed}?queue=1").text
        assert "it has lapsed" in page
        assert f'href="/review/next?left={lapsed}" data-key="n">Next</a>' in page


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("has_script", [True, False])
async def test_the_enter_key_in_the_reason_decides_nothing(
    house: House, window: Opened, has_script: bool
) -> None:
    name = held(house, "reject me")
    here = await window(java_script_enabled=has_script)
    await here.sign_in(house.demo.tokens["ruth"])
    for path in (f"/review/{name}", "/review"):
        await here.go(path)
        if path == "/review":
            await here.page.check(f"[name='pick-{name}']")
        await here.page.fill("#reason", "nobody said so")
        await here.page.press("#reason", "Enter")
        await here.page.wait_for_timeout(200)
        await expect(here.page.locator("#reason")).to_have_value("nobody said so")
        assert standing(house, name) == "pending"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_key_that_is_held_down_decides_once(house: House, window: Opened) -> None:
    clear(house)
    names = [held(house, f"held down {number}") for number in range(4)]
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go("/review/next")
    await here.page.wait_for_timeout(SEEN_MS)
    async with here.page.expect_navigation():
        await here.page.keyboard.down("a")
    for _ in range(10):
        await here.page.keyboard.down("a")  # what a keyboard sends for a key that stays down
        await here.page.wait_for_timeout(30)
    await here.page.keyboard.up("a")
    assert [standing(house, name) for name in names] == ["approved", "pending", "pending", "pending"]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_second_tap_of_two_decides_nothing_unseen(house: House, window: Opened) -> None:
    clear(house)
    first, second = held(house, "tapped twice"), held(house, "not seen yet")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go("/review/next")
    await here.page.wait_for_timeout(SEEN_MS)
    async with here.page.expect_navigation():
        await here.page.keyboard.press("a")
    await here.page.keyboard.press("a")
    await here.page.wait_for_timeout(SEEN_MS)
    assert (standing(house, first), standing(house, second)) == ("approved", "pending")
    async with here.page.expect_navigation():
        await here.page.keyboard.press("r")
    assert standing(house, second) == "rejected", "a key that comes later is meant"


@pytest.mark.asyncio(loop_scope="module")
async def test_all_on_a_page_are_ticked_at_once_and_none_again(house: House, window: Opened) -> None:
    clear(house)
    for number in range(3):
        held(house, f"ticked {number}")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go("/review")
    ticks, button = here.page.locator(".hit input"), here.page.get_by_text("Tick all on this page")
    await ticks.nth(1).check()
    for is_ticked in (True, False):
        await button.click()
        assert [await one.is_checked() for one in await ticks.all()] == [is_ticked] * 3
    plain = await window(java_script_enabled=False)
    await plain.sign_in(house.demo.tokens["ruth"])
    await plain.go("/review")
    assert not await plain.page.get_by_text("Tick all on this page").is_visible()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_double_click_on_a_decision_leads_to_the_next_one(house: House, window: Opened) -> None:
    clear(house)
    first, second = held(house, "double click"), held(house, "after the double click")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go("/review/next")
    await here.page.dblclick("button[value=approve]")
    await here.page.wait_for_url(f"**/review/{second}*")
    await expect(here.page.locator(".notice").first).to_have_text("Approved, and carried out.")
    assert (standing(house, first), standing(house, second)) == ("approved", "pending")


@pytest.mark.asyncio(loop_scope="module")
async def test_going_back_after_a_decision_shows_that_it_was_made(house: House, window: Opened) -> None:
    clear(house)
    name = held(house, "back again")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/review/{name}")
    await here.page.click("button[value=approve]")
    await here.page.wait_for_url("**/review")
    await here.page.go_back()
    await expect(here.page.locator("main")).to_contain_text("Approved by ruth")
    assert await here.page.locator("button[value=approve]").count() == 0
