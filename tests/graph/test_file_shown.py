"""The file of a neighbourhood in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright

from quipu.faces.web import graph_file
from tests.faces.web.conftest import CHROMIUM, QUIETLY
from tests.faces.web.test_axe import OPTIONS, SERIOUS
from tests.graph.test_file import hostile
from tests.graph.test_pictures import star


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_browser_shows_it_offline_and_runs_nothing(tmp_path: Path, scheme: Any) -> None:
    """In a real Chromium without a network: readable by day and by night, sized by keys, reachable by keys."""
    file = tmp_path / "memory.html"
    async with async_playwright() as player:
        browser = await player.chromium.launch(executable_path=CHROMIUM, args=[*QUIETLY])
        context = await browser.new_context(color_scheme=scheme, offline=True)
        page = await context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        for graph in (hostile(), star(30)):
            file.write_text(graph_file.html(graph), "utf-8")
            await page.goto(file.as_uri())
            answer: dict[str, Any] = (await Axe().run(page, options=OPTIONS)).response
            assert [one["id"] for one in answer["violations"] if one["impact"] in SERIOUS] == []
        before = await page.locator(".drawing").bounding_box()
        await page.get_by_label("large").check()
        after = await page.locator(".drawing").bounding_box()
        assert before is not None
        assert after is not None
        assert after["width"] > 1.5 * before["width"]
        await page.locator(".drawing a").nth(3).focus()
        await page.keyboard.press("Enter")
        assert "#m-" in page.url
        assert set(asked) == {file.as_uri()}
        await browser.close()
