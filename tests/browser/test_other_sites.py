"""What a page of another site can make somebody's browser do here, while they are signed in: nothing."""

from collections.abc import Awaitable, Callable

import pytest

from quipu.memory.operations import GET
from tests.browser.conftest import Desk
from tests.browser.window import Window
from tests.web.past import WALNUTS

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
Windows = Callable[..., Awaitable[Window]]


async def _state(desk: Desk) -> str:
    return (await desk.full.house(GET, id=desk.full.past.ids[WALNUTS])).state


async def test_a_form_of_another_site_changes_nothing(desk: Desk, window: Windows) -> None:
    here = await window()
    target = f"{desk.url}/memories/{desk.full.past.ids[WALNUTS]}"
    foreign = await here.page.context.new_page()
    await foreign.set_content(
        f'<form method="post" action="{target}"><input name="action" value="forget">'
        f'<input name="agent_id" value="support-bot"><button>Win a prize</button></form>'
    )
    async with foreign.expect_navigation() as answered:
        await foreign.click("button")
    answer = await answered.value
    assert answer is not None
    assert answer.status in (400, 403), await foreign.inner_text("body")
    assert await _state(desk) == "live"


async def test_a_script_of_another_site_reads_and_writes_nothing(desk: Desk, window: Windows) -> None:
    here = await window()
    foreign = await here.page.context.new_page()
    await foreign.goto("data:text/html,<title>elsewhere</title>")
    ask = """async ([url, options]) => {
        try { const answer = await fetch(url, options); return await answer.text() } catch { return null }
    }"""
    headers = {"content-type": "application/json"}
    for path, options in (
        ("/memories?q=Mara", {"credentials": "include"}),
        ("/v1/memories", {"credentials": "include"}),
        ("/v1/memories", {"method": "POST", "credentials": "include", "headers": headers, "body": "{}"}),
        ("/v1/memories", {"method": "POST", "mode": "no-cors", "credentials": "include", "body": '{"content": "x"}'}),
    ):  # fmt: skip
        assert not await foreign.evaluate(ask, [desk.url + path, options]), path


async def test_no_other_site_can_frame_a_page_nor_see_where_somebody_came_from(
    desk: Desk, window: Windows
) -> None:
    here = await window()
    answer = await here.page.goto(desk.url + "/memories")
    assert answer is not None
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] in ("no-referrer", "same-origin")
    cookies = await here.page.context.cookies()
    session = next(cookie for cookie in cookies if "quipu-session" in (cookie.get("name") or ""))
    assert session.get("httpOnly")
    assert session.get("sameSite") == "Strict"
