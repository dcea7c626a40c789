"""Every page before axe-core in a real Chromium, by day and by night: nothing serious may be wrong for anybody."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe

from quipu.faces.web import routes
from tests.faces.web.conftest import House, Opened
from tests.faces.web.demo import SUPPORT
from tests.faces.web.test_grants import disputed
from tests.faces.web.test_looks import paths

#: What the guidelines of the W3C ask for.
OPTIONS = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
SERIOUS = ("serious", "critical")


def visited(house: House, grant: str = "nothing") -> dict[str, str]:
    """Those that are looked at elsewhere, and the rest; some stand for ids that are not there."""
    machine = house.demo.ids["return-parcel"]
    return {
        **paths(house, grant),
        "procedure": f"/memories/{machine}/procedure",
        "graph": f"/memories/{machine}/graph",
        "run": "/runs/nothing",
        "run-diff": "/runs/nothing/diff?with=other",
        "grant request": "/grants/requests/nothing",
        "import": "/imports/nothing",
        "review-next": "/review/next",
        "recover-form": f"/recover?agent={SUPPORT}",
    }


def test_no_page_is_left_out(house: House) -> None:
    reached = {path.partition("?")[0] for path in visited(house).values()}
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in routes._READS}
    assert [path for path, one in patterns.items() if not any(map(one.fullmatch, reached))] == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_page(house: House, window: Opened, scheme: str) -> None:
    here = await window(color_scheme=scheme)
    axe, found = Axe(), list[str]()

    async def looked(name: str) -> None:
        answer: dict[str, Any] = (await axe.run(here.page, options=OPTIONS)).response
        found.extend(
            f"{name}: {one['id']}: {node['target']} {node['html'][:120]}"
            for one in answer["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        )

    await here.go("/signin")
    await looked("signin")
    await here.sign_in(house.demo.tokens["ana"])
    for name, path in visited(house, await asyncio.to_thread(disputed, house, 1)).items():
        await here.go(path)
        await looked(name)
    here.complaints.clear()  # pages that are not there say so on the console
    assert found == []


@pytest.mark.asyncio(loop_scope="module")
async def test_axe_would_find_something(house: House, window: Opened) -> None:
    here = await window()
    await here.go("/signin")
    await here.page.evaluate("document.querySelector('label').remove(); document.documentElement.lang = ''")
    answer: dict[str, Any] = (await Axe().run(here.page, options=OPTIONS)).response
    assert {one["id"] for one in answer["violations"]} >= {"html-has-lang"}
