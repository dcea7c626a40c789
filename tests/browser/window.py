"""A server on a socket, and windows of a real browser in which nothing may go wrong."""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from quipu.config import Settings
from quipu.http.server import Server

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
#: No calls home, and no sandbox inside a container.
QUIETLY = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser that `scripts/browser` installs."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIETLY])
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of a server that is on its socket until the end of the block."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    server = Server(app, Settings(port=0))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@dataclass
class Window:
    """A page in a browser. What its console complains of is kept."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list[str])

    def hear(self, message: ConsoleMessage) -> None:
        # The browser itself says so of a page that answers 4xx.
        if message.type in ("error", "warning") and "responded with a status of 4" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    async def go(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def sign_in(self, token: str) -> None:
        await self.go("/signin")
        await self.page.fill("#token", token)
        await self.page.click("button[type=submit]")
        await self.page.wait_for_url(re.compile(re.escape(self.url) + r"/(?!signin)"))

    async def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(await self.page.evaluate(script))

    async def text(self, selector: str = "main") -> str:
        return await self.page.inner_text(selector)


async def opened(browser: Browser, url: str, **options: Any) -> Window:
    """A new window of a browser that has been nowhere yet."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = await context.new_page()
    window = Window(page, url)
    page.on("console", window.hear)
    page.on("pageerror", lambda error: window.complaints.append(f"script: {error}"))
    return window
