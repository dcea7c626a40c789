"""The page that shows the API, in a browser that reaches this server and nothing else."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Route

from tests.browser.conftest import Desk
from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
Windows = Callable[..., Awaitable[Window]]


async def test_the_api_is_shown_without_a_token_and_without_the_network(desk: Desk, window: Windows) -> None:
    here = await window(None)
    elsewhere: list[str] = []

    async def only_here(route: Route) -> None:
        if route.request.url.startswith((f"{desk.url}/", "data:")):
            await route.continue_()
        else:
            elsewhere.append(route.request.url)
            await route.abort()

    await here.page.route("**/*", only_here)
    await here.go("/docs")
    await here.page.wait_for_selector("#operations-default-remember")
    shown = await here.page.locator(".opblock").count()
    document = await here.page.evaluate("async () => (await fetch('/openapi.json')).json()")
    assert shown == sum(len(item) for item in document["paths"].values())
    # One of them, opened: its fields, its example and its answers.
    await here.page.click("#operations-default-remember .opblock-summary-control")
    await here.page.wait_for_selector("#operations-default-remember .responses-table")
    told = await here.page.inner_text("#operations-default-remember")
    assert "Ana lives in Lisbon" in told
    assert "Idempotency-Key" in told
    assert elsewhere == []
