"""A long import on the page: how far it is, with a script and without one, for who began it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from quipu.errors import BackendUnavailableError
from quipu.model.moving import ImportReport
from quipu.model.principal import Principal
from tests.faces.web.conftest import House, Opened
from tests.faces.web.test_axe import OPTIONS, SERIOUS
from tests.faces.web.test_moving import named, sent

WITH, WITHOUT = {"java_script_enabled": True}, {"java_script_enabled": False}
BOTH = pytest.mark.parametrize("options", [WITH, WITHOUT], ids=["with a script", "without a script"])


class Slow:
    """Goes on only as far as it is let."""

    def __init__(self, house: House) -> None:
        self._served, self._carrying = house.served, house.served.service.importing.carrying
        self._real, self._carrying._commit = self._carrying._commit, self.commit
        self.tell: Callable[[int], None] = lambda _: None
        self.fault: BackendUnavailableError | None = None
        self._gate = asyncio.Event()

    async def commit(self, principal: Principal, import_id: str, tell: Callable[[int], None]) -> ImportReport:
        self.tell = tell
        await self._gate.wait()
        if self.fault is not None:
            raise self.fault
        return await self._real(principal, import_id, tell)

    def at(self, done: int) -> None:
        async def told() -> None:
            self.tell(done)

        self._served.do(told())

    def let_go(self) -> None:
        async def opened() -> None:
            self._gate.set()

        self._served.do(opened())

    def over(self) -> None:
        self.let_go()
        self._carrying._commit = self._real


@pytest.fixture
def slow(house: House) -> Iterator[Slow]:
    made = Slow(house)
    yield made
    made.over()


def lines(mark: str) -> str:
    return "\n".join(f"- The {mark} number {number} is here" for number in range(5))


def test_a_long_one_is_looked_on_by_who_began_it_and_nobody_else(house: House, slow: Slow) -> None:
    ana = house.person("ana")
    name = named(sent(ana, lines("first").encode(), format="text"))
    assert ana.get(f"/imports/{name}").status_code == 404, "nothing goes on yet"
    begun = ana.send(f"/imports/{name}", action="commit")
    assert (begun.status_code, begun.headers["location"]) == (303, f"/imports/{name}")
    slow.at(2)
    page = ana.get(f"/imports/{name}")
    assert re.search(r'<progress[^>]*max="5"[^>]*value="2"', page.text)
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page.text
    for other in ("ruth", "max"):
        if other in house.demo.tokens:
            assert house.person(other).get(f"/imports/{name}").status_code in (403, 404)
    again = ana.send(f"/imports/{name}", action="commit")
    assert again.headers["location"] == f"/imports/{name}", "once more is to look on"
    slow.let_go()
    page = ana.get(f"/imports/{name}")
    while "goes on while" in page.text:
        page = ana.get(f"/imports/{name}")
    assert "5 memories came in" in page.text
    assert "http-equiv" not in page.text


def test_one_that_fails_says_so(house: House, slow: Slow) -> None:
    ana = house.person("ana")
    name = named(sent(ana, lines("second").encode(), format="text"))
    assert ana.send(f"/imports/{name}", action="commit").status_code == 303
    slow.fault = BackendUnavailableError("The disk is full.", reason="io_error")
    slow.let_go()
    page = ana.get(f"/imports/{name}")
    while "goes on while" in page.text:
        page = ana.get(f"/imports/{name}")
    assert "could not be finished: The disk is full." in page.text


@pytest.mark.asyncio(loop_scope="module")
@BOTH
async def test_the_bar_fills_while_somebody_looks(
    house: House, window: Opened, slow: Slow, options: Mapping[str, Any]
) -> None:
    here = await window(**options)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go("/imports")
    await here.page.fill("#text", lines(f"third {options['java_script_enabled']}"))
    await here.page.click("button:has-text('See what would come in')")
    await here.page.click("button:has-text('Bring in')")
    await expect(here.page).to_have_url(re.compile(r"/imports/imp_"))
    bar, said = here.page.locator("progress"), here.page.locator("[role=status]")
    if options["java_script_enabled"]:
        answer: dict[str, Any] = (await Axe().run(here.page, options=OPTIONS)).response
        assert [one["id"] for one in answer["violations"] if one["impact"] in SERIOUS] == []
    await asyncio.to_thread(slow.at, 3)
    await expect(said).to_contain_text("3 of 5 items", timeout=15_000)
    if options["java_script_enabled"]:
        await expect(bar).to_have_js_property("value", 3)
    await asyncio.to_thread(slow.let_go)
    await expect(said).to_contain_text("5 memories came in", timeout=15_000)
    await here.page.click("text=All imports")
    await expect(here.page).to_have_url(here.url + "/imports")
