"""The page on a socket, with much in it, and windows of a real browser."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.window import Window, chromium, opened, served
from tests.web.full import Full, open_full


@dataclass
class Desk:
    """A server with its past, and a browser before it."""

    full: Full
    url: str
    browser: Browser

    async def window(self, name: str | None = "ana", **options: Any) -> Window:
        """A new window; of somebody who is signed in, or of nobody."""
        window = await opened(self.browser, self.url, **options)
        if name is not None:
            await window.sign_in(self.full.past.tokens[name])
        return window


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk() -> AsyncIterator[Desk]:
    async with open_full() as full, served(full.house.app) as url, chromium() as browser:
        yield Desk(full, url, browser)


@pytest_asyncio.fixture(loop_scope="module")
async def window(desk: Desk) -> AsyncIterator[Callable[..., Awaitable[Window]]]:
    """Opens windows; at the end none of them may have complained."""
    windows: list[Window] = []

    async def open_one(name: str | None = "ana", **options: Any) -> Window:
        windows.append(await desk.window(name, **options))
        return windows[-1]

    yield open_one
    for one in windows:
        assert one.complaints == []
        await one.page.context.close()
