"""/mcp is opened by the first who asks for it: once for all, beside the loop, and closed by whoever opened it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import httpx
import pytest

from quipu.faces.mcp.opening import Opening
from tests.faces.mcp.test_http import HEADERS, LISTING
from tests.faces.serving import PATIENCE_S, Program

_MANY = 8


class Kept:
    """Tells who opened it and who closed it."""

    def __init__(self) -> None:
        self.opened_by: asyncio.Task[None] | None = None
        self.closed_by: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        self.opened_by = asyncio.current_task()
        try:
            yield
        finally:
            self.closed_by = asyncio.current_task()


class Maker:
    """Makes as slowly as it is told, on whatever thread it is asked."""

    def __init__(self, failures: int = 0) -> None:
        self.made: list[Kept] = []
        self.go_on = threading.Event()
        self.begun = 0
        self._failures = failures

    def __call__(self) -> Kept:
        self.begun += 1
        assert self.go_on.wait(PATIENCE_S), "the loop has stood still meanwhile"
        if self.begun <= self._failures:
            raise ImportError("No module named 'gone'")
        self.made.append(Kept())
        return self.made[-1]


async def begun(make: Maker, times: int = 1) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while make.begun < times:  # noqa: ASYNC110  a thread says so
            await asyncio.sleep(0.001)


async def test_what_nobody_asks_for_is_never_made() -> None:
    make = Maker()
    async with Opening(make).lasting():
        pass
    assert make.begun == 0


async def test_all_who_come_first_get_the_same_and_its_opener_closes_it() -> None:
    make = Maker()
    opening = Opening(make)
    async with opening.lasting():
        asking = [asyncio.create_task(opening.opened()) for _ in range(_MANY)]
        await begun(make)
        make.go_on.set()  # by the loop, which is free while it is made
        (kept,) = {*await asyncio.gather(*asking), await opening.opened()}
        assert kept.closed_by is None
    assert make.made == [kept]
    assert kept.opened_by is not None
    assert kept.closed_by is kept.opened_by
    assert kept.opened_by not in asking, "a request ends before the server does"


async def test_whoever_goes_away_first_leaves_it_to_the_others() -> None:
    make = Maker()
    opening = Opening(make)
    async with opening.lasting():
        first, second = (asyncio.create_task(opening.opened()) for _ in range(2))
        await begun(make)
        first.cancel()
        await asyncio.wait({first})
        make.go_on.set()
        assert await second is make.made[0]
    assert first.cancelled()
    assert make.made[0].closed_by is not None


async def test_a_failure_is_told_to_all_who_wait_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    make = Maker(failures=1)
    make.go_on.set()
    opening = Opening(make)
    with caplog.at_level(logging.ERROR, "quipu.mcp"):
        async with opening.lasting():
            told = await asyncio.gather(*(opening.opened() for _ in range(_MANY)), return_exceptions=True)
            assert [type(one) for one in told] == [ImportError] * _MANY
            assert await opening.opened() is make.made[0]
    assert make.begun == 2
    assert ["No module named 'gone'" in line for line in caplog.messages] == [True]


async def test_an_end_while_it_is_made_leaves_nothing_open() -> None:
    make = Maker()
    opening = Opening(make)
    async with asyncio.timeout(PATIENCE_S):
        async with opening.lasting():
            asking = asyncio.create_task(opening.opened())
            await begun(make)
            make.go_on.set()
        assert await asking is make.made[0]
    assert make.made[0].closed_by is not None


@pytest.fixture
def settled() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()


async def test_in_a_program_that_has_settled_what_comes_later_settles_too(settled: None) -> None:
    make = Maker()
    make.go_on.set()
    opening = Opening(make)
    async with opening.lasting():
        kept = await opening.opened()
        assert not any(one is kept for one in gc.get_objects())


def test_clients_that_come_at_the_same_time_are_all_answered(tmp_path: Path) -> None:
    """On a real server, which has loaded nothing of it yet, and which answers others meanwhile."""
    with Program(tmp_path / "memory.db") as program:
        answers: list[httpx.Response] = []

        def ask() -> None:
            with httpx.Client(base_url=program.url, headers=HEADERS, timeout=PATIENCE_S) as client:
                client.headers["Authorization"] = f"Bearer {program.token}"
                answers.append(client.post("/mcp", json=LISTING))

        asking = [threading.Thread(target=ask) for _ in range(_MANY)]
        for thread in asking:
            thread.start()
        assert httpx.get(f"{program.url}/readyz", timeout=PATIENCE_S).status_code == 200
        for thread in asking:
            thread.join(PATIENCE_S)
        assert [answer.status_code for answer in answers] == [200] * _MANY
        assert len({answer.text for answer in answers}) == 1
        assert program.stop() == 0


def test_a_server_that_is_stopped_while_it_loads_ends_well(tmp_path: Path) -> None:
    with Program(tmp_path / "memory.db") as program:
        headers = {**HEADERS, "Authorization": f"Bearer {program.token}"}

        def ask() -> None:
            with contextlib.suppress(httpx.HTTPError):  # answered or not, as it happens
                httpx.post(f"{program.url}/mcp", json=LISTING, headers=headers, timeout=PATIENCE_S)

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.1)
        assert program.stop() == 0
        asking.join(PATIENCE_S)
        assert "trace" not in program.log


def test_an_sdk_that_cannot_be_loaded_is_named_and_all_else_works(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "mcp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('this mcp is broken')", "utf-8")
    with Program(tmp_path / "memory.db", PYTHONPATH=str(broken.parent)) as program:
        with httpx.Client(base_url=program.url, timeout=PATIENCE_S) as client:
            client.headers["Authorization"] = f"Bearer {program.token}"
            assert client.get("/readyz").status_code == 200
            assert client.get("/quipu/v1/me").status_code == 200
            answer = client.post("/mcp", json=LISTING, headers=HEADERS)
        assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
        assert program.stop() == 0
        assert "this mcp is broken" in program.log
