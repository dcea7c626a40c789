"""The page on the real server, over a memory with a past; people who sign in to it, with and without a browser."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from tests.faces.serving import Served, served
from tests.faces.web.demo import Demo, WalkingClock, seed

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
#: No calls home, no sandbox inside a container.
QUIETLY = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_SECRET = re.compile(r'name="csrf" value="([^"]+)"')
HTML = {"Accept": "text/html"}


class Person:
    """Somebody at a browser without a screen: keeps cookies, sends forms as the page has them."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, headers=HTML, timeout=30)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(path, **more)

    def secret(self, path: str = "/journal/proof") -> str:
        """The secret in the forms of a page."""
        found = _SECRET.search(self.get(path).text)
        assert found is not None, "there is no form on the page"
        return found.group(1)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """A form, with the secret of this session."""
        return self.client.post(path, data={"csrf": self.secret(), **fields})

    def sign_in(self, token: str, **fields: str) -> httpx.Response:
        return self.client.post("/signin", data={"csrf": self.secret("/signin"), "token": token, **fields})

    @property
    def session(self) -> str | None:
        return self.client.cookies.get("quipu")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


@dataclass
class House:
    """A server, what is in its memory, and who may come."""

    served: Served
    demo: Demo
    people: list[Person] = field(default_factory=list[Person])

    @property
    def url(self) -> str:
        return self.served.url

    def person(self, name: str | None = None) -> Person:
        """Somebody new; with a name, already signed in with that token."""
        made = Person(self.url)
        self.people.append(made)
        if name is not None:
            assert made.sign_in(self.demo.tokens[name]).status_code == 303
        return made


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with served() as running:
        made = House(running, running.do(seed(running.service, WalkingClock(0))))
        yield made
        for person in made.people:
            person.client.close()


@pytest.fixture
def ana(house: House) -> Person:
    """May do everything in the tenant."""
    return house.person("ana")


# -- a real browser ----------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIETLY])
        yield browser
        await browser.close()


@dataclass
class Window:
    """A page in a browser that nothing may go wrong in."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list[str])

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    async def go(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def sign_in(self, token: str) -> None:
        await self.go("/signin")
        await self.page.fill("#token", token)
        await self.page.click("button[type=submit]")
        await self.page.wait_for_url(re.compile(re.escape(self.url) + r"/(?!signin)"))

    async def text(self, selector: str = "main") -> str:
        return await self.page.inner_text(selector)


Opened = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="module")
async def window(chromium: Browser, house: House) -> AsyncIterator[Opened]:
    """Opens windows: `await window(java_script_enabled=False)`. At the end none of them may have complained."""
    contexts: list[BrowserContext] = []
    windows: list[Window] = []

    async def opened(**options: Any) -> Window:
        context = await chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = await context.new_page()
        made = Window(page, house.url)
        page.on("console", made.hear)
        page.on("pageerror", lambda error: made.complaints.append(f"script: {error}"))
        windows.append(made)
        return made

    yield opened
    for context in contexts:
        await context.close()
    assert [complaint for one in windows for complaint in one.complaints] == []
