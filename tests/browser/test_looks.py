"""Every page in a real browser, by day, by night and on a phone: nothing overflows, complains, or keeps anybody out."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe

from quipu.audit.page import Checks
from quipu.web.pages import pages
from tests.browser.conftest import Desk
from tests.browser.window import Window, opened, served
from tests.web.conftest import open_house

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
Windows = Callable[..., Awaitable[Window]]

#: What the guidelines of the W3C ask for.
RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def _kinds(desk: Desk) -> list[str]:
    """One address of each page, and of a memory for each type and state."""
    first: dict[str, str] = {}
    for address in desk.full.addresses():
        path = address.partition("?")[0]
        is_real = "none" not in path and "x" not in address.partition("=")[2]
        first.setdefault(re.sub(r"(mem|prop|mgr)_\w+", r"\1", path), address if is_real else path)
    return [
        *first.values(),
        *(f"/memories/{one}" for one in desk.full.past.ids.values()),
        "/memories?q=Mara&agent=support-bot",
    ]


async def _violations(axe: Axe, window: Window, address: str) -> list[str]:
    answer: dict[str, Any] = (await axe.run(window.page, options=RULES)).response
    return [
        f"{address}: {one['id']}: {node['target']} {node['html'][:120]}"
        for one in answer["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_keeps_anybody_out(desk: Desk, window: Windows, scheme: str) -> None:
    here, axe, found = await window(None, color_scheme=scheme), Axe(), list[str]()
    await here.go("/signin")
    found += await _violations(axe, here, "/signin")
    await here.sign_in(desk.full.past.tokens["ana"])
    for address in _kinds(desk):
        await here.go(address)
        await here.page.evaluate(OPEN_ALL)
        found += await _violations(axe, here, address)
    other = await window("operator", color_scheme=scheme)
    for address in ("/health", "/tenants"):  # an operator sees more of them
        await other.go(address)
        await other.page.evaluate(OPEN_ALL)
        found += await _violations(axe, other, address)
    assert found == []


async def test_a_barrier_would_be_found(window: Windows) -> None:
    here = await window(None)
    await here.go("/signin")
    await here.page.evaluate("document.querySelector('label').remove(); document.documentElement.lang = ''")
    found = await _violations(Axe(), here, "/signin")
    assert any("html-has-lang" in one for one in found)


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desk", "phone"])
async def test_no_page_is_wider_than_the_window(desk: Desk, window: Windows, size: dict[str, Any]) -> None:
    here, wide = await window(**size), dict[str, int]()
    for address in desk.full.addresses():
        await here.go(address)
        await here.page.evaluate(OPEN_ALL)
        if over := await here.overflow():
            wide[address] = over
        assert await here.page.evaluate("window.hit") is None, f"a text acted on {address}"
    here = await window("operator", **size)
    for address in ("/health", "/tenants"):
        await here.go(address)
        if over := await here.overflow():
            wide[address] = over
    assert wide == {}


async def test_an_installation_with_nothing_in_it_fits_a_phone(desk: Desk) -> None:
    house = await open_house()
    token, wide = await house.token("ana", "admin"), dict[str, int]()
    async with served(house.app) as url:
        here = await opened(desk.browser, url, **PHONE)
        await here.sign_in(token)
        for page in pages(Checks(house.clock)):
            if "{" not in page.path:
                await here.go(page.path)
                if over := await here.overflow():
                    wide[page.path] = over
        assert here.complaints == []
        await here.page.context.close()
    await house.close()
    assert wide == {}


async def test_approve_and_reject_are_always_in_view(desk: Desk, window: Windows) -> None:
    for options in ({}, PHONE):
        here = await window("ruth", **options)
        for held in desk.full.past.waiting:
            await here.go(f"/review/{held}")
            for place in (0, 10_000):
                await here.page.evaluate(f"window.scrollTo(0, {place})")
                for name in ("approve", "reject"):
                    control = here.page.locator(f"[data-key={name[0]}]").first
                    box = await control.bounding_box()
                    assert box is not None, (held, name)
                    height = (options or {"viewport": {"height": 900}})["viewport"]["height"]
                    assert 0 <= box["y"] <= height - box["height"], (held, name, place, options)
