"""Whole journeys through the page in a real Chromium: with a script, without one, and by keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.faces.web.conftest import House, Opened
from tests.faces.web.demo import TRAVEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

INES = "Inês lives in Lisbon and flies from Humberto Delgado."
WITH, WITHOUT = {"java_script_enabled": True}, {"java_script_enabled": False}


@pytest.mark.parametrize("options", [WITH, WITHOUT], ids=["with a script", "without a script"])
async def test_sign_in_search_open_look_back_verify_sign_out(
    house: House, window: Opened, options: Mapping[str, Any]
) -> None:
    here = await window(**options)
    page: Page = here.page
    await here.go("/memories")
    await expect(page).to_have_url(re.compile(r"/signin\?next="))
    await page.fill("#token", house.demo.tokens["ana"])
    await page.click("button[type=submit]")
    await expect(page).to_have_url(here.url + "/memories")

    await page.fill("#q", "Bolhão")
    await page.click(".search button")
    await expect(page.locator("h2#results")).to_contain_text("memory")
    await page.check(f".pill input[value={TRAVEL}]", force=True)
    await page.fill("#q", "Bolhão")
    await page.click(".search button")
    await expect(page).to_have_url(re.compile(f"agent={TRAVEL}"))
    first = page.locator(".hit").first
    await expect(first).to_contain_text("near Bolhão")
    await first.locator("summary").click()
    await expect(first.locator(".reasons")).to_be_visible()

    await first.locator(".hit-link").click()
    await expect(page.locator("#reader")).to_contain_text("Version 3 of 3")
    await expect(page.locator(".strand > li")).to_have_count(3)
    await expect(page.locator(".strand del").first).to_be_visible()

    slider = page.locator("#version")
    await slider.focus()
    await slider.press("ArrowLeft")
    await slider.press("ArrowLeft")
    if not options["java_script_enabled"]:
        await page.click("form.versions button")
        await expect(page).to_have_url(re.compile(r"\?version=1$"))
    await expect(page.locator("#reader")).to_contain_text("lives in Lisbon")
    await expect(page.locator("#reader")).to_contain_text("not the newest")

    await page.click("nav >> text=Journal")
    await expect(page.locator(".entry").first).to_be_visible()
    await page.click("text=Verify now")
    await expect(page.locator("h1")).to_have_text("Nothing was altered")

    await page.click("text=Sign out")
    await expect(page).to_have_url(here.url + "/signin")
    await here.go("/memories")
    await expect(page).to_have_url(re.compile(r"/signin\?next="))


@pytest.mark.parametrize("options", [WITH, WITHOUT], ids=["with a script", "without a script"])
async def test_the_slider_through_time_shows_what_was_known(
    house: House, window: Opened, options: Mapping[str, Any]
) -> None:
    here = await window(**options)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(f"/memories?agent={TRAVEL}")
    slider = here.page.locator("#moment")
    await slider.focus()
    await slider.press("Home")
    if options["java_script_enabled"]:
        await expect(here.page.locator("form.time output")).to_contain_text("UTC")
    await here.page.click("text=Look back")
    await expect(here.page.locator(".notice.then")).to_contain_text("looking at the past")
    await expect(here.page.locator(".hit")).to_have_count(0)
    await here.page.click("text=Back to now")
    assert await here.page.locator(".hit").count() > 5


async def test_forget_and_restore_without_a_script(house: House, window: Opened) -> None:
    here = await window(**WITHOUT)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(
        f"/memories/{house.demo.ids['Jonas collects miles with one airline only and asks for aisle seats.']}"
    )
    await here.page.click("text=Forget…")
    await here.page.fill("#reason", "he changed his mind")
    await here.page.click("button:has-text('Forget')")
    await expect(here.page.locator(".notice").first).to_contain_text("Forgotten")
    await expect(here.page.locator(".reason")).to_contain_text("he changed his mind")
    await here.page.click("button:has-text('Restore')")
    await expect(here.page.locator(".notice").first).to_contain_text("Restored")


async def test_deciding_on_a_proposal(house: House, window: Opened) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ruth"])
    await here.page.click(".big a")
    before = await here.page.locator(".hit").count()
    await here.page.locator(".hit-link").last.click()
    await here.page.fill("#reason", "checked")
    await here.page.click("button:has-text('Approve')")
    await expect(here.page.locator(".notice")).to_have_text("Approved, and carried out.")
    await expect(here.page.locator(".hit")).to_have_count(before - 1)


async def test_another_agent_is_one_click_away(house: House, window: Opened) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(f"/memories?agent={TRAVEL}")
    await here.page.locator(".pill", has_text="home-assistant").click()
    await here.page.wait_for_url(re.compile("agent=home-assistant"))
    await expect(here.page.locator("h2#results")).to_contain_text("home-assistant")


# -- by keyboard alone -------------------------------------------------------------------------------------------


async def focused(page: Page) -> str:
    """What has the focus, in words, and whether one can see it."""
    return await page.evaluate(
        """() => {
          const at = document.activeElement;
          const shown = at.matches('.pill input') ? at.nextElementSibling : at;
          const style = getComputedStyle(shown);
          const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
          return `${(at.innerText || at.name || at.id).trim()}|${seen}`;
        }"""
    )


async def test_a_journey_without_a_mouse(house: House, window: Opened) -> None:
    here = await window()
    page: Page = here.page
    await here.go("/signin")
    await expect(page.locator("#token")).to_be_focused()
    await page.keyboard.type(house.demo.tokens["ana"])
    await page.keyboard.press("Enter")
    await page.wait_for_url(here.url + "/")

    await page.keyboard.press("Tab")
    assert await focused(page) == "Skip to the content|true"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"

    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.name") == "q"
    await page.keyboard.type("Jonas mother hotel")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("q=Jonas"))
    await here.go(f"/memories?q=Jonas&agent={TRAVEL}")

    links = page.locator(".hit-link")
    await page.keyboard.press("j")
    await expect(links.nth(0)).to_be_focused()
    await page.keyboard.press("j")
    await expect(links.nth(1)).to_be_focused()
    await page.keyboard.press("k")
    await expect(links.nth(0)).to_be_focused()
    await page.keyboard.press("k")
    await expect(links.nth(0)).to_be_focused()
    assert (await focused(page)).endswith("|true")
    await page.keyboard.press("Tab")
    assert (await focused(page)).endswith("|true"), "the reasons can be opened by keyboard"
    await page.keyboard.press("Enter")
    await expect(page.locator(".reasons").first).to_be_visible()

    await links.nth(0).focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("/memories/mem_"))


async def test_keys_are_letters_while_somebody_types(house: House, window: Opened) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    await here.go("/memories")
    await here.page.focus("#q")
    await here.page.keyboard.type("j/k")
    assert await here.page.input_value("#q") == "j/k"


async def test_every_stop_of_the_tab_key_can_be_seen(house: House, window: Opened) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    for path in (
        "/",
        f"/memories?q=Jonas&agent={TRAVEL}&user=jonas",
        f"/memories/{house.demo.ids[INES]}",
        "/journal",
        "/review",
    ):
        await here.go(path)
        total = await here.page.locator(
            "a[href], button:visible, input:visible, select:visible, summary"
        ).count()
        seen: list[str] = []
        for _ in range(total + 3):
            await here.page.keyboard.press("Tab")
            said = await focused(here.page)
            if await here.page.evaluate("document.activeElement === document.body"):
                break
            seen.append(said)
        assert len(seen) > 8, path
        assert [stop for stop in seen if not stop.endswith("|true")] == [], path
