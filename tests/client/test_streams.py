"""Answers that come one by one: broken connections, positions, errors in the middle, readers that leave."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from quipu.api import Memory
from quipu.client.streams import lines, messages
from quipu.client.transport import Call, Patience
from quipu.errors import BackendUnavailableError, ConflictError, InternalError, UnauthenticatedError
from quipu.memory.model import ChangeEvent
from tests.client.network import UNREACHABLE, Fate, Served, busy, plain
from tests.rendering.server import problem


async def taken(memory: Memory, count: int, **given: Any) -> list[ChangeEvent]:
    """The next so many changes."""
    events: list[ChangeEvent] = []
    stream = memory.changes(**given)
    async for event in stream:
        events.append(event)
        if len(events) == count:
            break
    await stream.aclose()
    return events


def events(*items: tuple[int, dict[str, Any] | None], event: str = "") -> httpx.Response:
    """An event stream, as a server sends it."""
    text = ": hello\n\n"
    for number, body in items:
        data = "" if body is None else f"data: {json.dumps(body)}\n"
        text += f"id: {number}\n{f'event: {event}' + chr(10) if event else ''}{data}\n"
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream; charset=utf-8"})


async def test_an_event_stream_is_read_by_its_rules() -> None:
    async def given() -> AsyncIterator[str]:
        for line in (
            *(": hello", "id: 7", "event: x", "data: a", "data:b", "", "", "retry: 5", "data: c", ""),
            *("id: 9", "", "data: cut off"),
        ):
            yield line

    found = [message async for message in messages(given())]
    assert found[0] is None
    assert [(message.id, message.event, message.data) for message in found[1:] if message] == [
        ("7", "x", ["a", "b"]),
        (None, "", ["c"]),
        ("9", "", []),
    ]


async def test_a_feed_is_followed_across_broken_connections(served: Served) -> None:
    writer, reader = served.connect(), served.connect()
    ids = [(await writer.remember(f"fact {number}")).id for number in range(20)]
    cuts = iter([10, 300, 900, 1, 301, 555, 1_200])
    served.network.choose = lambda request: (
        Fate(arrives=next(cuts, 1 << 30)) if request.url.path == "/v1/changes" else None
    )
    served.network.will(UNREACHABLE)
    found = [event for event in await taken(reader, 20, since=0) if event.record_ids]
    assert [event.record_ids[0] for event in found] == ids[: len(found)], "in order, none lost, none twice"
    assert len(found) >= 18
    assert served.network.count("/v1/changes") >= 5


async def test_a_feed_without_a_position_resumes_where_it_began(served: Served) -> None:
    await served.connect().remember("before")
    body = ChangeEvent(seq=9, type="memory.remembered", at=1, actor="ana").to_dict()
    answers = iter([Fate(answer=events((8, None))), Fate(answer=events((9, body)))])
    served.network.choose = lambda _: next(answers)
    (event,) = await taken(served.connect(), 1)
    assert event.seq == 9
    queries = [dict(request.url.params) for request in served.network.asked[-2:]]
    assert [query.get("since") for query in queries] == [None, "8"]


async def test_a_feed_ends_with_its_credential(served: Served) -> None:
    body = ChangeEvent(seq=1, type="memory.remembered", at=1, actor="ana").to_dict()
    answers = iter([Fate(answer=events((1, body))), busy(401, "unauthenticated", retryable=False)])
    served.network.choose = lambda _: next(answers)
    with pytest.raises(UnauthenticatedError):
        await taken(served.connect(), 2, since=0)


async def test_an_error_in_the_middle_of_a_feed_is_raised_as_itself(served: Served) -> None:
    body = problem(ConflictError("Later.", reason="version_mismatch"))
    served.network.will(Fate(answer=events((1, body), event="error")))
    with pytest.raises(ConflictError) as raised:
        await taken(served.connect(), 1, since=0)
    assert raised.value.reason == "version_mismatch"


async def test_a_feed_gives_up_on_a_server_that_does_not_come_back(served: Served) -> None:
    await served.connect().remember("tea")
    served.network.choose = lambda _: Fate(arrives=1)
    with pytest.raises(BackendUnavailableError):
        await taken(served.connect(patience=Patience(retries=3)), 1, since=0)
    assert served.network.count("/v1/changes") == 4


async def test_a_page_instead_of_a_feed_is_no_feed(served: Served) -> None:
    served.network.will(plain(200))
    with pytest.raises(InternalError) as odd:
        await taken(served.connect(), 1, since=0)
    assert odd.value.reason == "bad_answer"


async def test_a_feed_ends_when_the_memory_is_closed_by_another_task(served: Served) -> None:
    memory = served.connect()
    await memory.remember("tea")
    hanging = asyncio.Event()

    def hang_after_the_first(request: httpx.Request) -> Fate | None:
        if request.url.params.get("since") == "0":
            return None
        hanging.set()
        return Fate(hangs=True)

    async def follow() -> int:
        return len([event async for event in memory.changes(since=0)])

    served.network.choose = hang_after_the_first
    follower = asyncio.create_task(follow())
    await asyncio.wait_for(hanging.wait(), 20)
    await memory.close()
    assert await asyncio.wait_for(follower, 20) >= 1


async def test_lines_are_read_one_by_one_and_an_error_at_the_end_is_raised(served: Served) -> None:
    items = [{"a": 1}, {}, {"error": problem(ConflictError("Later.", reason="version_mismatch"))}]
    text = "\n\n".join(json.dumps(item) for item in items)
    answer = httpx.Response(200, text=text, headers={"content-type": "application/x-ndjson"})
    served.network.will(UNREACHABLE, Fate(answer=answer))
    call = Call(method="GET", path="/x", accept="application/x-ndjson")
    seen: list[Any] = []

    async def drained() -> None:
        async for item in lines(served.transport, call):
            seen.append(item)

    with pytest.raises(ConflictError):
        await drained()
    assert seen == [{"a": 1}, {}]
    await served.transport.close()
