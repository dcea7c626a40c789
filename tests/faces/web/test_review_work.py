"""The work of a reviewer in a real Chromium, by keyboard alone: ten decisions, one edit, one merge, one undo, the journal."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Page, expect

from quipu.model.operations import ListRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType, State
from tests.faces.web.conftest import House, Opened, Window

pytestmark = pytest.mark.asyncio(loop_scope="module")

DESK = "desk-agent"
LIKE = "Mara lives in Lima, close to the sea and the old harbour"


def said(house: House, text: str, *, is_held: bool = True) -> str:
    """A memory of the desk's agent; held, its proposal."""
    request = RememberRequest(
        agent_id=DESK, type=MemoryType.SEMANTIC, content=text, source="chat", approval_required=is_held
    )
    writer = replace(local(), name="bot")
    answer = house.served.do(house.served.service.remember(writer, request))
    return str(answer.extensions.get("proposal_id", answer.id))


def live(house: House) -> set[str]:
    listed = house.served.do(
        house.served.service.reading.list(local(), ListRequest(agent_id=DESK, states=(State.LIVE,)))
    )
    return {record.content for record in listed.records}


def waiting(house: House) -> set[str]:
    found = house.served.do(house.served.service.governance.proposals(local(), "pending"))
    return {one.id for one in found if one.agent_id == DESK}


async def press(here: Window, key: str) -> None:
    """A key that leads to another page, by somebody who has seen this one."""
    await here.page.wait_for_timeout(450)
    async with here.page.expect_navigation():
        await here.page.keyboard.press(key)


async def heading(page: Page) -> str:
    return await page.inner_text("h1")


async def clear(house: House) -> None:
    """Nothing else waits."""
    for one in house.served.do(house.served.service.governance.proposals(local(), "pending")):
        house.served.do(house.served.service.decide(local(), one.id, approved=False))


async def test_ten_proposals_are_decided_with_the_keyboard_only(house: House, window: Opened) -> None:
    await clear(house)
    said(house, LIKE, is_held=False)
    texts = [f"fact number {place} about {word}" for place, word in enumerate(("bread", "salt", "wool"))]
    for text in (*texts, LIKE + " again", "a wrong word", *(f"noise {place}" for place in range(5))):
        said(house, text)
    assert len(waiting(house)) == 10

    here = await window()
    await here.go("/signin")
    await here.page.focus("#token")
    await here.page.keyboard.type(house.demo.tokens["ruth"])
    await press(here, "Enter")
    await here.go("/review")
    await press(here, "w")
    await expect(here.page).to_have_url(re.compile(r"/review/prp_\w+\?queue=1$"))
    assert await heading(here.page) == "Remember this?"

    for _ in texts:
        await press(here, "a")
        await expect(here.page.locator(".notice").first).to_have_text("Approved, and carried out.")
    await expect(here.page.locator("#related")).to_be_visible()
    await press(here, "m")
    await here.page.keyboard.press("e")
    await expect(here.page.locator("#content")).to_be_focused()
    await here.page.keyboard.press("Control+A")
    await here.page.keyboard.type("a right word")
    await press(here, "Control+Enter")
    for _ in range(4):
        await press(here, "r")
        await expect(here.page.locator(".notice").first).to_have_text("Rejected. Nothing was written.")
    assert len(waiting(house)) == 1
    await press(here, "u")
    await expect(here.page.locator(".notice").first).to_have_text("Taken back: it waits again.")
    assert len(waiting(house)) == 2
    await press(here, "r")
    await press(here, "r")
    assert waiting(house) == set()
    assert {*texts, "a right word"} < live(house)
    assert not any("noise" in text or "wrong" in text for text in live(house))
    assert sum(LIKE in text for text in live(house)) == 1, "the one that was like it was merged"

    await here.go("/journal?kind=decision&actor=ruth")
    entries = here.page.locator(".entry-said")
    assert await entries.count() >= 11
    await expect(entries.first).to_contain_text("decided: rejected")


async def test_an_approval_is_taken_back_with_what_it_did(house: House, window: Opened) -> None:
    await clear(house)
    said(house, "approved by mistake")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go("/review/next")
    await press(here, "a")
    assert "approved by mistake" in live(house)
    await press(here, "u")
    await expect(here.page.locator(".notice").first).to_have_text(
        "Taken back: what it did is undone, and it waits again."
    )
    assert "approved by mistake" not in live(house)
    assert await here.page.locator("form.undo").count() == 0, "once"
    assert len(waiting(house)) == 1
    await press(here, "a")
    assert "approved by mistake" in live(house)


async def test_keys_do_nothing_while_somebody_types(house: House, window: Opened) -> None:
    await clear(house)
    name = said(house, "still waits")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/review/{name}")
    await here.page.focus("#reason")
    await here.page.keyboard.type("arms")
    assert await here.page.input_value("#reason") == "arms"
    assert waiting(house) == {name}


async def test_the_same_works_without_a_script(house: House, window: Opened) -> None:
    await clear(house)
    name = said(house, "by hand")
    here = await window(java_script_enabled=False)
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/review/{name}?ask=by+hand")
    await expect(here.page.locator("#preview")).to_be_visible()
    await expect(here.page.locator(".two ins")).to_contain_text("by hand")
    await here.page.click("button:has-text('Reject')")
    await here.page.click("button:has-text('Take the last decision back')")
    await expect(here.page.locator(".notice").first).to_have_text("Taken back: it waits again.")


async def test_focus_goes_through_a_proposal_in_order_and_is_always_seen(
    house: House, window: Opened
) -> None:
    await clear(house)
    name = said(house, "in order")
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/review/{name}?queue=1")
    places: list[tuple[float, float]] = []
    words: list[str] = []
    for _ in range(40):
        await here.page.keyboard.press("Tab")
        at: Any = await here.page.evaluate(
            """() => { const one = document.activeElement; if (!one || one === document.body) return null;
              const box = one.getBoundingClientRect(), style = getComputedStyle(one);
              return { inside: !!one.closest('main'), top: box.top + scrollY, left: box.left,
                       ring: style.outlineStyle, name: (one.innerText || one.name || one.id || '').trim() }; }"""
        )
        if at is None:
            break
        assert at["ring"] != "none", f"the focus is not seen on {at['name']}"
        if at["inside"]:
            places.append((at["top"], at["left"]))
            words.append(at["name"])
    for wanted in ("Approve", "Reject", "Later", "Approve with changes"):
        assert wanted in words
    tops = [top for top, _ in places]
    assert all(later >= earlier - 60 for earlier, later in pairwise(tops))


@pytest.mark.parametrize(
    "path", ["/review", "/rules", "/patterns", "/candidates", "/recover", "/dashboard", "/journal"]
)
async def test_the_accessibility_tree_names_everything(house: House, window: Opened, path: str) -> None:
    """What a screen reader is told: landmarks, one main heading, and a name for whatever can be used."""
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(path)
    session = await here.page.context.new_cdp_session(here.page)
    tree: Any = await session.send("Accessibility.getFullAXTree")
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree["nodes"]
        if not node.get("ignored") and "role" in node
    ]
    roles = [role for role, _ in nodes]
    assert roles.count("main") == 1
    assert "navigation" in roles
    assert roles.count("heading") >= 1
    used = {"button", "link", "textbox", "combobox", "checkbox", "searchbox", "slider", "image", "region"}
    assert [role for role, name in nodes if role in used and not name.strip()] == []
