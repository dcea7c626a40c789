"""Import, export, changes and backups: streams that break, pause, and are left early."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, ConflictError, ForbiddenError, InvalidError, Memory, sync
from quipu.client import exchange
from quipu.client.changes import messages
from quipu.client.transport import Call
from quipu.config import Config
from quipu.errors import UnauthenticatedError
from quipu.faces.http.problems import problem
from quipu.model.feed import FeedEvent
from tests.client.conftest import Reaching, watched
from tests.client.proxy import CUT_BEFORE, LOST, Fate, Proxy
from tests.faces.serving import Served, served

MIXED: list[Any] = [
    {"content": "good"},
    '{"content": "good text"}',
    "no json",
    {"content": ""},
    {"content": "x", "store": "nowhere"},
    {"nonsense": 1},
    {"content": "held", "approval_required": True},
    {"content": "with id", "id": "mem_MINE", "created_at": 5},
    '["a list"]',
]


# -- import -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{}, {"dry_run": True}, {"stop_on_error": True}])
async def test_an_import_counts_and_names_lines_as_here(reaching: Reaching, words: dict[str, bool]) -> None:
    remote = reaching()
    async with Memory("ana", "sqlite://:memory:", embedder="none") as here:
        ours = await here.import_records(MIXED, **words)
    theirs = await remote.import_records(MIXED, **words)
    assert (theirs.read, theirs.stored, theirs.held, theirs.failed) == (
        ours.read,
        ours.stored,
        ours.held,
        ours.failed,
    )
    assert sorted(theirs.errors) == sorted(ours.errors)
    assert theirs.import_id.startswith("imp_")


async def test_many_lines_go_in_one_upload(reaching: Reaching) -> None:
    memory = reaching()
    told: list[int] = []

    async def lines() -> AsyncIterator[dict[str, Any]]:
        for number in range(2_600):
            yield {"content": f"fact {number}", "metadata": {"n": number}}

    summary = await memory.import_records(lines(), progress=told.append)
    assert (summary.read, summary.stored) == (2_600, 2_600)
    assert told == sorted(told)
    assert told[-1] == 2_600
    imports = {record.provenance.import_id for record in (await memory.list(limit=1000)).records}
    assert imports == {summary.import_id}


async def test_an_upload_that_pauses_is_not_taken_for_gone() -> None:
    async def lines() -> AsyncIterator[dict[str, Any]]:
        yield {"content": "one"}
        await asyncio.sleep(1.6)  # longer than the server's patience with a body
        yield {"content": "two"}

    with served(body_timeout_s=1) as server:
        async with Memory("ana", connection=watched(server.url, server.admin_token)) as memory:
            assert (await memory.import_records(lines())).stored == 2


async def test_progress_tells_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a number is told, so many memories are there already; and all parts are one import."""
    monkeypatch.setattr(exchange, "_LINES", 3)
    kept: list[tuple[int, int]] = []
    lines = [{"content": str(n)} if n != 5 else {"content": 5} for n in range(8)]
    with served() as server, server.client() as other:

        def look(told: int) -> None:
            listed = other.get("/quipu/v1/records", params={"agent_id": "ana"}).json()["records"]
            kept.append((told, len(listed)))

        async with Memory("ana", connection=watched(server.url, server.admin_token)) as memory:
            summary = await memory.import_records(lines, progress=look)
            records = (await memory.list()).records
    assert kept == [(3, 3), (7, 6), (8, 7)]
    assert (summary.read, summary.stored, summary.failed) == (8, 7, 1)
    assert [line for line, _ in summary.errors] == [6]
    assert {record.provenance.import_id for record in records} == {summary.import_id}


async def test_an_import_whose_answer_is_lost_is_not_repeated(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(LOST)
    with pytest.raises(BackendUnavailableError):
        await memory.import_records([{"content": "once"}])
    assert proxy.count("/import") == 1
    assert [record.content for record in (await memory.list()).records] == ["once"]


async def test_what_fails_in_the_source_of_an_import_is_raised_as_it_is(reaching: Reaching) -> None:
    async def lines() -> AsyncIterator[dict[str, Any]]:
        yield {"content": "one"}
        raise LookupError("the file is gone")

    with pytest.raises(LookupError):
        await reaching().import_records(lines())


async def test_an_import_without_the_right_is_refused_before_it_is_read(
    server: Served, reaching: Reaching
) -> None:
    token = await reaching().create_token("reader", permissions=["memory:read"])
    reader = reaching(watched(server.url, token.text))
    with pytest.raises(ForbiddenError):
        await reader.import_records([{"content": "x"}] * 3)


async def drained(stream: AsyncIterator[Any], seen: list[Any]) -> None:
    """Everything that a stream gives, also when it ends in an error."""
    async for item in stream:
        seen.append(item)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# -- export -------------------------------------------------------------------------------------------------------


async def test_an_export_can_be_left_early(reaching: Reaching) -> None:
    memory = reaching()
    await memory.remember_many([f"fact {number}" for number in range(50)])
    async for _ in memory.export():
        break
    assert len([line async for line in memory.export()]) == 50


async def test_an_export_that_breaks_off_says_so(proxy: Proxy, server: Served, reaching: Reaching) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    await memory.remember_many([f"fact {number}" * 20 for number in range(50)])
    proxy.choose = lambda line: Fate(cut_after=3_000) if "/export" in line else None
    seen: list[Any] = []
    with pytest.raises(BackendUnavailableError) as broken:
        await drained(memory.export(), seen)
    assert broken.value.reason == "unreachable"
    assert len(seen) < 50
    assert proxy.count("/export") == 1


async def test_the_beginning_of_an_export_is_repeated(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    await memory.remember("tea")
    proxy.choose = lambda line: CUT_BEFORE if "/export" in line and proxy.count("/export") < 3 else None
    assert len([line async for line in memory.export()]) == 1
    assert proxy.count("/export") == 3


async def test_an_error_in_the_middle_of_a_stream_is_raised_as_itself(proxy: Proxy) -> None:
    lines = [{"a": 1}, {}, {"error": problem(ConflictError("Later.", reason="version_mismatch"))}]
    body = b"\n\n".join(json.dumps(line).encode() for line in lines)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: %d\r\n\r\n" % len(body)
    proxy.will(Fate(answer=head + body))
    connection = watched(proxy.url, "token")
    seen: list[Any] = []
    with pytest.raises(ConflictError) as raised:
        await drained(connection.transport.lines(Call(method="GET", path="/x")), seen)
    await connection.close()
    assert seen == [{"a": 1}, {}]
    assert (raised.value.reason, raised.value.message) == ("version_mismatch", "Later.")


# -- changes ------------------------------------------------------------------------------------------------------


async def taken(memory: Memory, count: int, **words: Any) -> list[FeedEvent]:
    """The next so many changes."""
    events: list[FeedEvent] = []
    async for event in memory.changes(**words):
        events.append(event)
        if len(events) == count:
            break
    return events


async def test_changes_are_the_same_here_and_there(reaching: Reaching, tmp_path: Path) -> None:
    async with Memory("ana", f"sqlite://{tmp_path / 'm.db'}", embedder="none") as here:
        for memory in (here, reaching()):
            first = await memory.remember("tea", type="episodic")
            await memory.remember("tea too", id=first.id, type="episodic")
            await memory.remember("cake")
            await memory.forget(ids=[first.id])
            events = await taken(memory, 4, since=0)
            assert [event.op.value for event in events] == [
                "remembered",
                "updated",
                "remembered",
                "forgotten",
            ]
            assert [event.seq for event in events] == sorted({event.seq for event in events})
            assert (events[0].agent_id, events[0].store, events[0].records[0].id) == ("ana", "main", first.id)
            only = await taken(memory, 3, since=0, types=["episodic"])
            assert {record.type.value for event in only for record in event.records} == {"episodic"}
            assert (await taken(memory, 1, since=events[2].seq))[0] == events[3]


async def test_a_feed_is_followed_across_broken_connections(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    writer, reader = reaching(), reaching(watched(proxy.url, server.admin_token))
    cuts = iter([300, 900, 1, 301, 555, 1_200])
    proxy.choose = lambda line: Fate(cut_after=next(cuts, 1 << 30)) if "/changes" in line else None
    ids = [(await writer.remember(f"fact {number}")).id for number in range(10)]
    following = asyncio.create_task(taken(reader, 30, since=0))
    for number in range(10, 30):
        ids.append((await writer.remember(f"fact {number}")).id)
    async with asyncio.timeout(30):
        events = await following
    assert [event.records[0].id for event in events] == ids, "in order, none lost, none twice"
    assert proxy.count("/changes") >= 5


async def test_a_feed_without_a_position_begins_with_the_next_change(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    writer, reader = reaching(), reaching(watched(proxy.url, server.admin_token))
    await writer.remember("before")
    is_following = asyncio.Event()
    proxy.choose = lambda line: is_following.set() if "/changes" in line else None
    following = asyncio.create_task(taken(reader, 1))
    async with asyncio.timeout(30):
        await is_following.wait()
        after = await writer.remember("after")
        (event,) = await following
    assert event.records[0].id == after.id


async def test_a_feed_ends_with_its_credential(server: Served, reaching: Reaching) -> None:
    owner = reaching()
    issued = await owner.create_token("reader", permissions=["memory:read"])
    reader = reaching(watched(server.url, issued.text))
    await owner.remember("one")
    feed = reader.changes(since=0)
    assert (await anext(feed)).op.value == "remembered"
    await owner.revoke_token(issued.token.id)
    await owner.remember("two")
    with pytest.raises(UnauthenticatedError) as ended:
        async with asyncio.timeout(30):
            await anext(feed)
    assert ended.value.reason == "revoked_token"


def test_a_blocking_reader_may_leave_a_feed(server: Served) -> None:
    config = Config(server_url=server.url, server_token=server.admin_token)
    with sync.connect(config=config, agent_id="ana") as memory:
        memory.remember("tea")
        for event in memory.changes(since=0):
            assert event.op.value == "remembered"
            break
        assert memory.recall("tea", min_relevance=0)[0].content == "tea"


def test_an_interrupted_reader_leaves_a_feed_in_order(server: Served) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    config = Config(server_url=server.url, server_token=server.admin_token)
    try:
        with sync.connect(config=config, agent_id="ana") as memory:
            for _ in range(5):
                later = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
                later.start()
                with pytest.raises(KeyboardInterrupt):
                    next(iter(memory.changes()))
                later.join()
                assert memory.remember("still here").id
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_an_event_stream_is_read_by_its_rules() -> None:
    async def lines() -> Any:
        for line in (": hello", "id: 7", "event: x", "data: a", "data:b", "", "", "retry: 5", "data: c", ""):
            yield line

    found = [message async for message in messages(lines())]
    assert found[0] is None
    assert [(message.id, message.data) for message in found[1:] if message] == [
        ("7", ["a", "b"]),
        (None, ["c"]),
    ]


# -- backup -------------------------------------------------------------------------------------------------------


async def test_a_backup_is_downloaded_whole_or_not_at_all(
    proxy: Proxy, server: Served, reaching: Reaching, tmp_path: Path
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    kept = await memory.remember("tea")
    proxy.choose = lambda line: Fate(cut_after=9_000) if "/backup" in line else None
    with pytest.raises(BackendUnavailableError):
        await memory.backup(tmp_path / "copy.db")
    assert names(tmp_path) == []
    proxy.choose = None
    told: list[tuple[int, int]] = []
    await memory.backup(tmp_path / "copy.db", progress=lambda done, of: told.append((done, of)))
    assert told[-1][0] == told[-1][1] == (tmp_path / "copy.db").stat().st_size
    async with Memory("ana", f"sqlite://{tmp_path / 'copy.db'}", embedder="none") as copy:
        assert (await copy.get(kept.id)).content == "tea"
        assert (await copy.verify()).holds
    asked = len(proxy.asked)
    with pytest.raises(InvalidError):
        await memory.backup(tmp_path / "copy.db")
    assert len(proxy.asked) == asked, "a taken name is refused before anything is asked"


async def test_a_backup_needs_the_one_who_runs_the_server(
    server: Served, reaching: Reaching, tmp_path: Path
) -> None:
    issued = await reaching().create_token("admin of a tenant", roles=["admin"])
    with pytest.raises(ForbiddenError):
        await reaching(watched(server.url, issued.text)).backup(tmp_path / "copy.db")
    assert names(tmp_path) == []
