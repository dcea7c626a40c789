"""Another site in the same browser: it can neither act for a person, nor frame the page, nor plant a session."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.faces.web.conftest import House, Opened, Window

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "http://evil.example"


async def evil(here: Window, body: str) -> None:
    """Open a page of another site in the same window."""

    async def answer(route: Route) -> None:
        await route.fulfill(body=f"<!doctype html><title>evil</title>{body}", content_type="text/html")

    await here.page.route(f"{EVIL}/**", answer)
    await here.page.goto(f"{EVIL}/")


async def signed_in(house: House, window: Opened, **options: Any) -> Window:
    here: Window = await window(**options)
    await here.sign_in(house.demo.tokens["ana"])
    return here


async def is_signed_in(here: Window) -> bool:
    await here.go("/health")
    return "signin" not in here.page.url


@pytest.mark.parametrize("path", ["/signout", "/journal/verify", "/journal/download"])
async def test_a_form_on_another_site_does_nothing(house: House, window: Opened, path: str) -> None:
    here = await signed_in(house, window)
    await evil(here, f'<form method="post" action="{house.url}{path}"><button>free iPad</button></form>')
    await here.page.click("button")
    await here.page.wait_for_load_state()
    assert here.page.url.startswith(house.url)
    assert "Nothing was altered" not in await here.page.content()
    assert await is_signed_in(here), "the person is still signed in"
    await here.go("/journal/proof")
    await expect(here.page.locator("h1")).to_have_text("Verification")
    here.complaints.clear()


async def test_another_site_cannot_forget_even_if_it_guesses_a_secret(house: House, window: Opened) -> None:
    here = await signed_in(house, window)
    record = house.demo.ids["Refunds above 200 € need the approval of a team lead."]
    await evil(
        here,
        f'<form method="post" action="{house.url}/memories/{record}/forget"><input name="csrf" value="guess"><button>x</button></form>',
    )
    await here.page.click("button")
    await here.page.wait_for_load_state()
    await here.go(f"/memories/{record}")
    await expect(here.page.get_by_text("Forget…")).to_be_visible()
    here.complaints.clear()


async def test_another_site_cannot_sign_a_person_in_to_its_own_account(house: House, window: Opened) -> None:
    here = await window()
    token = house.demo.tokens["ruth"]
    await evil(
        here,
        f'<form method="post" action="{house.url}/signin"><input name="token" value="{token}"><input name="csrf" value="x"><button>x</button></form>',
    )
    await here.page.click("button")
    await here.page.wait_for_load_state()
    assert not await is_signed_in(here)
    here.complaints.clear()


async def test_another_site_cannot_frame_a_page(house: House, window: Opened) -> None:
    here = await signed_in(house, window)
    await evil(
        here, "".join(f'<iframe src="{house.url}{path}"></iframe>' for path in ("/", "/signin", "/review"))
    )
    await here.page.wait_for_timeout(500)
    inside = [await frame.content() for frame in here.page.frames[1:]]
    assert len(inside) == 3
    assert not any("Quipu" in text for text in inside)
    assert {frame.url for frame in here.page.frames[1:]} == {"chrome-error://chromewebdata/"}
    here.complaints.clear()


async def test_another_site_cannot_read_a_page(house: House, window: Opened) -> None:
    here = await signed_in(house, window)
    await evil(here, "")
    told = await here.page.evaluate(
        f"fetch('{house.url}/memories', {{credentials: 'include'}}).then((answer) => answer.text(), () => 'refused')"
    )
    assert told == "refused"
    here.complaints.clear()


async def test_a_link_on_another_site_opens_the_page_for_who_is_signed_in(
    house: House, window: Opened
) -> None:
    here = await signed_in(house, window)
    await evil(here, f'<a href="{house.url}/journal?op=forget">the journal</a>')
    await here.page.click("a")
    await expect(here.page.locator("h1")).to_have_text("Journal")
    assert here.page.url.endswith("/journal?op=forget")


async def test_a_link_on_another_site_leads_who_is_not_to_the_form(house: House, window: Opened) -> None:
    here: Window = await window()
    await evil(here, f'<a href="{house.url}/journal">the journal</a>')
    await here.page.click("a")
    await expect(here.page).to_have_url(re.compile(r"/signin\?next="))


async def test_a_planted_session_is_not_the_one_after_signing_in(house: House, window: Opened) -> None:
    here: Window = await window()
    planted = "P" * 43
    await here.page.context.add_cookies([{"name": "quipu", "value": planted, "url": house.url}])
    await here.sign_in(house.demo.tokens["ana"])
    (kept,) = [cookie for cookie in await here.page.context.cookies() if cookie["name"] == "quipu"]
    assert kept["value"] != planted
    assert (kept["httpOnly"], kept["sameSite"], kept["path"]) == (True, "Strict", "/")
    page: Page = here.page
    assert await page.evaluate("document.cookie") == ""


async def test_what_was_seen_is_gone_after_signing_out(house: House, window: Opened) -> None:
    """Pages are not kept by the browser: going back asks the server again."""
    here = await signed_in(house, window)
    await here.go("/memories?agent=support-bot")
    await here.page.click("text=Sign out")
    await here.page.wait_for_url("**/signin*")
    await here.page.go_back()
    await here.page.wait_for_load_state()
    assert "walnuts" not in await here.page.content()
