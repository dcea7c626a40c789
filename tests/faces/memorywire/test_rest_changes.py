"""The change feed: everything once and in order, to those who may hear it, as long as they may."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.bootstrap import start
from quipu.config import Config
from quipu.faces.http import deadlines
from quipu.model.feed import FeedRequest
from quipu.model.operations import CreateStoreRequest, RememberRequest
from quipu.model.principal import Principal, local
from quipu.model.record import MemoryType
from quipu.model.store import StoreScope
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_rest_operations import TEA
from tests.faces.memorywire.wired import READ, REVIEW, V0, Caller, Wired, is_problem, served
from tests.requirement import requirement


@pytest.fixture
async def house(clock: FixedClock) -> AsyncIterator[Wired]:
    async with served(clock) as server:
        yield server


class Feed:
    """Events as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.comments: list[str] = []
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.reading = asyncio.create_task(self._read(response))

    async def _read(self, response: httpx.Response) -> None:
        found: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif "data" in found:
                self._events.put_nowait(_checked(found))
                found = {}
        self._events.put_nowait(None)

    async def event(self, within_s: float = 5) -> dict[str, Any]:
        async with asyncio.timeout(within_s):
            event = await self._events.get()
        if event is None:
            raise EOFError
        return event

    async def some(self, count: int) -> list[dict[str, Any]]:
        return [await self.event() for _ in range(count)]

    async def ended(self, within_s: float = 5) -> bool:
        try:
            await self.event(within_s)
        except EOFError:
            return True
        return False

    async def silent(self, for_s: float = 0.3) -> bool:
        with contextlib.suppress(TimeoutError):
            await self.event(for_s)
            return False
        return True


def _checked(found: dict[str, str]) -> dict[str, Any]:
    """What an event says; its id and its kind must agree with it."""
    data: dict[str, Any] = json.loads(found["data"])
    assert (found["id"], found["event"]) == (str(data["seq"]), data["op"])
    assert problems("change", data) == []
    return data


@asynccontextmanager
async def following(caller: Caller, query: str = "", **headers: str) -> AsyncIterator[Feed]:
    auth = {"Authorization": f"Bearer {caller.token}"}
    async with caller.client.stream(
        "GET", f"{V0}/changes{query}", headers=auth | headers, timeout=20
    ) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        feed = Feed(response)
        try:
            yield feed
        finally:
            feed.reading.cancel()
            await asyncio.gather(feed.reading, return_exceptions=True)


@requirement("memorywire:rest.changes")
async def test_every_kind_of_change_is_told_without_content(house: Wired) -> None:
    ada, judge = await house.caller("ada"), await house.caller("judge", REVIEW)
    async with following(ada) as feed:
        one, two = await ada.kept("zimtstern one"), await ada.kept("zimtstern two")
        await ada.post("/remember", TEA | {"id": one, "content": "zimtstern changed"})
        await ada.post("/expire", {"agent_id": "ana", "policy": {"type": "semantic"}, "action": "demote"})
        await ada.post("/merge", {"agent_id": "ana", "canonical": one, "duplicates": [two]})
        await ada.post("/expire", {"agent_id": "ana", "policy": {"type": "semantic"}, "action": "archive"})
        await ada.post(f"/records/{one}/restore")
        await ada.post("/forget", {"agent_id": "ana", "ids": [one], "reason": "zimtstern"})
        await ada.post("/forget", {"agent_id": "ana", "ids": [one, two], "hard_delete": True})
        held = (await ada.post("/remember", TEA | {"approval_required": True})).json()
        proposal = held["approval_url"].rpartition("/")[2]
        await judge.post(f"/proposals/{proposal}/decision", {"approved": True})
        events = await feed.some(12)
        assert [event["op"] for event in events] == [
            "remembered",
            "remembered",
            "updated",
            "demoted",
            "merged",
            "archived",
            "restored",
            "forgotten",
            "erased",
            "held",
            "decided",
            "remembered",
        ]
    assert events[2]["records"] == [{"id": one, "version": 2, "type": "semantic"}]
    assert {(event["agent_id"], event["store"]) for event in events[:9]} == {("ana", "main")}
    assert {row["id"] for row in events[8]["records"]} == {one, two}
    assert [event["cause"] for event in events[8:]] == [None, proposal, proposal, proposal]
    assert "zimtstern" not in json.dumps(events)


@requirement("memorywire:rest.changes")
async def test_reads_and_upkeep_are_no_changes(house: Wired) -> None:
    ada = await house.caller("ada")
    record_id = await ada.kept("tea")
    async with following(ada) as feed:
        await ada.recalled("tea")
        await ada.get(f"/records/{record_id}")
        await ada.get("/export")
        await house.running.service.flush()
        assert await feed.silent()
        await ada.kept("coffee")
        assert (await feed.event())["op"] == "remembered"


@requirement("memorywire:rest.changes")
async def test_an_import_is_told_by_chunk_with_its_cause(house: Wired) -> None:
    ada = await house.caller("ada")
    async with following(ada) as feed:
        body = b"".join(json.dumps(TEA | {"content": f"n {n}"}).encode() + b"\n" for n in range(600))
        answer = await ada.ask(
            "POST", "/import", content=body, headers={"Content-Type": "application/x-ndjson"}
        )
        events = await feed.some(2)
    assert [len(event["records"]) for event in events] == [500, 100]
    assert events[0]["cause"] == json.loads(answer.text.splitlines()[-1])["summary"]["import_id"]


@requirement("memorywire:rest.changes-resume")
async def test_who_comes_back_begins_behind_what_was_seen(house: Wired) -> None:
    ada = await house.caller("ada")
    for number in range(5):
        await ada.kept(f"n {number}")
    async with following(ada, "?since=0") as feed:
        events = await feed.some(5)
        assert await feed.silent()
    third = str(events[2]["seq"])
    async with following(ada, f"?since={third}") as feed:
        assert await feed.some(2) == events[3:]
    async with following(ada, "?since=0", **{"Last-Event-ID": third}) as feed:
        assert await feed.some(2) == events[3:]
    async with following(ada) as feed:
        assert await feed.silent(0.2)
        await ada.kept("new")
        assert (await feed.event())["seq"] > events[-1]["seq"]


@requirement("memorywire:rest.changes-resume")
@pytest.mark.parametrize("where", ["?since=99999", "?since=-1", "?since=x", "?types=eaten", "?colour=1"])
async def test_odd_questions_are_refused(server: Wired, ada: Caller, where: str) -> None:
    is_problem(await ada.get(f"/changes{where}"), 400, "validation_error")


@requirement("memorywire:rest.changes-resume")
async def test_an_id_of_somebody_else_and_an_unknown_store_are_refused(server: Wired, ada: Caller) -> None:
    bad = await ada.get("/changes", headers={"Last-Event-ID": "abc"})
    is_problem(bad, 400, "validation_error", "bad_value")
    is_problem(await ada.get("/changes?store=attic"), 404, "not_found", "store")
    shop = await server.caller("shop", READ, agents=("shop",))
    is_problem(await shop.get("/changes?agent_id=ana"), 403, "forbidden", "agent_not_allowed")


async def _busy(caller: Caller, choose: random.Random, writes: int) -> None:
    """All kinds of writes, and reads between them."""
    kept: list[str] = []
    for number in range(writes):
        match choose.randrange(5):
            case 0 if kept:
                await caller.post(
                    "/remember", TEA | {"id": choose.choice(kept), "content": f"again {number}"}
                )
            case 1 if kept:
                await caller.post("/forget", {"agent_id": "ana", "ids": [kept.pop()]})
            case 2:
                await caller.recalled("n")
            case _:
                kept.append(await caller.kept(f"n {number}"))


async def _told_by_journal(server: Wired) -> list[int]:
    entries = await server.running.parts.ledger.entries("default", 0, 10_000)
    return [entry.seq for entry in entries if entry.op in ("remember", "update", "forget")]


@requirement("memorywire:rest.changes-resume")
async def test_a_reader_that_is_cut_off_at_random_hears_everything_once(house: Wired) -> None:
    ada = await house.caller("ada")
    choose = random.Random(7)  # noqa: S311  a test's choices
    writing = asyncio.create_task(_busy(ada, random.Random(8), 150))  # noqa: S311  a test's choices
    seen: list[int] = []
    cuts = 0
    while not (writing.done() and seen and seen[-1] == (await _told_by_journal(house))[-1]):
        last = {"Last-Event-ID": str(seen[-1])} if seen else {}
        async with following(ada, "?since=0", **last) as feed:
            with contextlib.suppress(TimeoutError):
                for _ in range(choose.randrange(1, 12)):
                    seen.append((await feed.event(0.5))["seq"])
        cuts += 1
    await writing
    assert seen == await _told_by_journal(house)
    assert cuts > 10


@requirement("memorywire:rest.changes-resume")
async def test_a_reader_resumes_across_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    seen: list[int] = []
    token = ""
    for life in range(3):
        async with served(FixedClock(), file) as server:
            ada = Caller(server.client, token) if token else await server.caller("ada")
            token = ada.token
            for number in range(4):
                await ada.kept(f"life {life}, {number}")
            last = {"Last-Event-ID": str(seen[-1])} if seen else {}
            async with following(ada, "?since=0", **last) as feed:
                seen += [event["seq"] for event in await feed.some(3)]
            expected = await _told_by_journal(server)
    assert seen == expected[:9]


@requirement("memorywire:rest.changes")
async def test_writes_of_another_process_are_told_too(tmp_path: Path) -> None:
    """Another ledger on the same file, of which this server hears nothing but what the file says."""
    file = tmp_path / "memory.db"
    async with served(FixedClock(), file) as server:
        ada = await server.caller("ada")
        other = await start(Config(store_url=f"sqlite://{file}"), embedder=WordEmbedder(), clock=server.clock)
        try:
            async with following(ada) as feed:
                request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="from afar")
                stored = await other.service.remember(local(), request)
                event = await feed.event(2)
                assert [row["id"] for row in event["records"]] == [stored.id]
        finally:
            await other.close()


@requirement("memorywire:rest.changes")
async def test_own_writes_are_told_at_once(house: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quipu.service.changes._POLL_S", 30.0)
    ada = await house.caller("ada")
    async with following(ada) as feed:
        await asyncio.sleep(0.1)
        await ada.kept("tea")
        assert (await feed.event(2))["op"] == "remembered"


# -- who may hear what ------------------------------------------------------------------------------------------


@requirement("memorywire:rest.changes-rights")
async def test_each_reader_hears_of_what_they_may_read(house: Wired) -> None:
    ada = await house.caller("ada")
    shop = await house.caller("shop", READ, agents=("shop-*",))
    bound = await house.caller("bound", READ, user_id="mara")
    reviewer = await house.caller("rev", READ, REVIEW, agents=("shop-*",))
    await house.running.parts.ledger.open("other")
    foreign = await house.caller("ada", tenant="other")
    start = (await house.running.parts.ledger.head("default")).seq
    first = (await ada.post("/remember", TEA | {"agent_id": "shop-1"})).json()["id"]
    second = await ada.kept("hers", user_id="mara")
    await ada.kept("nobody's")
    await ada.post("/remember", TEA | {"agent_id": "shop-2", "approval_required": True})
    await ada.post("/remember", TEA | {"approval_required": True})
    last = (await ada.post("/remember", TEA | {"agent_id": "shop-1", "user_id": "mara"})).json()["id"]

    async def heard(caller: Caller, query: str, count: int) -> list[Any]:
        async with following(caller, f"?since={start}{query}") as feed:
            events = await feed.some(count)
            assert await feed.silent(0.2)
        return [event["records"][0]["id"] if event["records"] else event["op"] for event in events]

    assert await heard(shop, "", 2) == [first, last]
    assert await heard(bound, "", 2) == [second, last]
    assert await heard(reviewer, "", 3) == [first, "held", last]
    assert await heard(reviewer, "&agent_id=shop-1", 2) == [first, last]
    assert len(await heard(ada, "", 6)) == 6
    async with following(foreign) as feed:
        await ada.kept("not for others")
        assert await feed.silent()


@requirement("memorywire:rest.changes-rights")
async def test_a_feed_is_narrowed_by_agent_store_and_type(house: Wired) -> None:
    ada = await house.caller("ada")
    await house.running.service.stores.create(local(), CreateStoreRequest(name="attic"))
    start = (await house.running.parts.ledger.head("default")).seq
    await ada.kept("plain")
    stored = await ada.kept("above", store="attic")
    event = (await ada.post("/remember", TEA | {"type": "episodic"})).json()["id"]

    async def heard(query: str) -> str:
        async with following(ada, f"?since={start}&{query}") as feed:
            told = await feed.event()
            assert await feed.silent(0.2)
        return str(told["records"][0]["id"])

    assert await heard("store=attic") == stored
    assert await heard("types=episodic,emotional") == event
    assert await heard("types=episodic&agent_id=ana") == event


@requirement("memorywire:rest.changes-rights")
async def test_a_shared_store_is_heard_as_far_as_its_records_are_shared(house: Wired) -> None:
    ada = await house.caller("ada")
    shared = CreateStoreRequest(name="team", scope=StoreScope.TEAM)
    await house.running.service.stores.create(local(), shared)
    start = (await house.running.parts.ledger.head("default")).seq
    open_to_all = await ada.kept("shared", store="team")
    await ada.kept("private", store="team", privacy_intent={"share_with": []})
    reader = await house.caller("reader", READ, agents=("bo",))
    async with following(reader, f"?since={start}&store=team&agent_id=bo") as feed:
        assert (await feed.event())["records"][0]["id"] == open_to_all
        assert await feed.silent(0.2)
    async with following(reader, f"?since={start}") as feed:
        assert await feed.silent(0.2)


@requirement("memorywire:rest.changes-end")
async def test_a_revoked_credential_hears_no_further_event(house: Wired) -> None:
    ada = await house.caller("ada")
    reader = await house.caller("reader", READ)
    async with following(reader) as feed:
        await ada.kept("one")
        assert (await feed.event())["op"] == "remembered"
        await house.running.service.tokens.revoke(local(), reader.token_id)
        await ada.kept("two")
        assert await feed.ended()


@requirement("memorywire:rest.changes-end")
async def test_an_idle_feed_ends_with_its_credential_too(clock: FixedClock) -> None:
    async with served(clock, idle_s=0.2) as house:
        reader = await house.caller("reader", READ)
        async with following(reader) as feed:
            await house.running.service.tokens.revoke(local(), reader.token_id)
            assert await feed.ended(2)
        brief = await house.caller("brief", READ, expires_at=clock() + 300)
        async with following(brief) as feed:
            assert await feed.silent(0.1)
            clock.move(301)
            assert await feed.ended(2)


@requirement("memorywire:rest.changes-end")
async def test_following_is_one_request_however_much_is_heard(house: Wired) -> None:
    ada = await house.caller("ada")
    reader = await house.caller("reader", READ, rate=1)
    async with following(reader) as feed:
        for number in range(6):
            await ada.kept(f"n {number}")
        assert len(await feed.some(6)) == 6


@requirement("memorywire:rest.changes-end")
@pytest.mark.parametrize("path", ["/changes?since=0", "/export"])
async def test_who_asks_only_for_the_head_gets_it_at_once(house: Wired, path: str) -> None:
    ada = await house.caller("ada")
    await ada.kept("tea")
    answer = await asyncio.wait_for(ada.ask("HEAD", path), 5)
    assert (answer.status_code, answer.content) == (200, b"")
    assert not house.running.service.changes._tails


@requirement("memorywire:rest.changes-end")
async def test_a_comment_keeps_a_quiet_feed_open(clock: FixedClock) -> None:
    async with served(clock, idle_s=0.1) as house:
        ada = await house.caller("ada")
        async with following(ada) as feed:
            assert await feed.silent(0.55)
            assert 3 <= len(feed.comments) <= 8
            await ada.kept("still here")
        async with following(ada) as feed:
            assert await feed.silent(0.05)


@requirement("memorywire:rest.changes-end")
async def test_feeds_end_when_the_server_does(clock: FixedClock) -> None:
    async with served(clock) as house:
        ada = await house.caller("ada")
        async with following(ada) as feed:
            house.lifecycle.drain()
            assert await feed.ended()


@requirement("memorywire:rest.changes-end")
async def test_a_reader_that_takes_nothing_is_shown_out(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "_STALL_S", 0.3)
    async with served(clock, send_buffer=8192) as house:
        await _shown_out(house)


async def _shown_out(house: Wired) -> None:
    ada = await house.caller("ada")
    service, me = house.running.service, local()
    for _ in range(4):
        requests = [
            RememberRequest(agent_id=f"a{n}", type=MemoryType.SEMANTIC, content=f"n {n}")
            for n in range(1_000)
        ]
        await service.remember_many(me, requests)
    host, _, port = house.url.removeprefix("http://").partition(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, (host, int(port)))
        head = f"GET {V0}/changes?since=0 HTTP/1.1\r\nHost: q\r\nAuthorization: Bearer {ada.token}\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(slow, head.encode())
        async with asyncio.timeout(10):
            while not service.changes._tails:  # noqa: ASYNC110  nobody tells when somebody follows
                await asyncio.sleep(0.02)
            while service.changes._tails:  # noqa: ASYNC110  or when nobody does any more
                await asyncio.sleep(0.02)


@requirement("memorywire:rest.changes-many")
async def test_hundreds_of_readers_share_one_look_at_the_journal(server: Wired, ada: Caller) -> None:
    service, me = server.running.service, local()
    ledger: Any = server.running.parts.ledger
    looks = {"head": 0, "entries": 0}
    kept_head, kept_entries = ledger.head, ledger.entries

    async def head(tenant: str) -> Any:
        looks["head"] += 1
        return await kept_head(tenant)

    async def entries(*asked: Any) -> Any:
        looks["entries"] += 1
        return await kept_entries(*asked)

    async def renewed() -> Principal:
        return me

    feeds = [await service.changes.follow(me, FeedRequest(), renewed) for _ in range(300)]
    waiting = [asyncio.create_task(anext(feed)) for feed in feeds]
    await asyncio.sleep(0.3)
    ledger.head, ledger.entries = head, entries
    await ada.kept("tea")
    heard = await asyncio.gather(*waiting)
    ledger.head, ledger.entries = kept_head, kept_entries
    assert {event[0].op.value for event in heard} == {"remembered"}
    assert looks["entries"] <= 2
    assert looks["head"] <= 4
    for feed in feeds:
        await feed.aclose()
    assert not service.changes._tails
