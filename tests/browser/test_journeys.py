"""What people do on the page, with mouse and keys, in a real browser."""

import re
from collections.abc import Awaitable, Callable

import pytest

from tests.browser.conftest import Desk
from tests.browser.window import Window
from tests.web.past import PORTO

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
Windows = Callable[..., Awaitable[Window]]


async def test_a_memory_is_added_found_edited_forgotten_and_restored(window: Windows) -> None:
    here = await window()
    page = here.page
    await here.go("/memories")
    form = page.locator("form:has(input[name=action][value=add])")
    await form.locator("textarea").fill("The ferry to Barreiro leaves from Terreiro do Paço")
    await form.locator("[name=agent]").fill("travel-planner")
    await form.get_by_role("button", name="Remember").click()
    await page.wait_for_url(re.compile(r"/memories/mem_"))
    await here.go("/memories")
    await page.keyboard.press("/")
    await page.keyboard.type("ferry to Barreiro")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"q=ferry"))
    await page.get_by_role("link", name=re.compile("Barreiro")).first.click()
    await page.wait_for_url(re.compile(r"/memories/mem_"))
    await page.keyboard.press("e")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("The ferry to Barreiro leaves every half hour")
    await page.keyboard.press("Control+Enter")
    await page.wait_for_selector("text=Version 2 of 2")
    assert "every half hour" in await here.text(".paper")
    page.on("dialog", lambda dialog: dialog.accept())
    forget = page.locator("form:has(input[name=action][value=forget])")
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    await forget.get_by_role("button").first.click()
    await page.wait_for_selector(".notice:has-text('no search finds it any more')")
    await page.get_by_role("button", name="Restore").click()
    await page.wait_for_selector(".notice:has-text('no search finds it any more')", state="detached")


async def test_a_change_is_approved_and_stands(desk: Desk, window: Windows) -> None:
    here = await window("ruth")
    await here.go(f"/review/{desk.full.past.waiting[1]}")
    assert "Braga" in await here.text()
    await here.page.get_by_role("button", name="Approve", exact=True).click()
    await here.page.wait_for_selector("h1:has-text('Approved')")
    changed = next(text for text in desk.full.past.ids if "Inês lives in Lisbon" in text)
    await here.go(f"/memories/{desk.full.past.ids[changed]}")
    assert "Braga" in await here.text(".paper")
    assert PORTO.split(" near")[0] in await here.text("main")


async def test_held_writes_are_worked_through_with_keys(desk: Desk, window: Windows) -> None:
    here = await window("ruth")
    page = here.page
    await here.go("/review")
    await page.keyboard.press("w")
    await page.wait_for_url(re.compile(r"/review/prop_"))
    first = page.url
    await page.wait_for_timeout(500)  # a key decides on nothing that came up just now
    await page.keyboard.press("n")
    await page.wait_for_url(lambda url: "/review/prop_" in url and url != first)
    second = page.url
    await page.wait_for_timeout(500)
    await page.keyboard.press("r")
    await page.wait_for_url(lambda url: url != second)
    await here.go("/review?status=rejected")
    assert "ruth" in await here.text()


async def test_a_second_tap_decides_on_nothing_unseen(desk: Desk, window: Windows) -> None:
    here = await window("ruth")
    page = here.page
    await here.go("/review")
    await page.keyboard.press("w")
    await page.wait_for_url(re.compile(r"/review/prop_"))
    first = page.url
    await page.keyboard.press("a")  # at once: it was meant for the page before
    await page.wait_for_timeout(600)
    assert page.url == first


async def test_signing_out_ends_it_everywhere(window: Windows) -> None:
    here = await window()
    other = await here.page.context.new_page()
    await other.goto(here.url + "/journal")
    assert "/signin" not in other.url
    await here.go("/")
    await here.page.get_by_role("button", name="Sign out").first.click()
    await here.page.wait_for_url(re.compile("/signin|/ended|/signout"))
    await other.goto(here.url + "/journal")
    assert "/signin" in other.url
