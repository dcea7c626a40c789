"""Reading by id, by page and by history; bringing back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from quipu import ConflictError, InvalidError, Memory, NotFoundError, RememberRequest
from quipu.model.record import Ending, MemoryType, State
from quipu.testing.builders import FixedClock
from tests.service.looks import found, ids, kept, standing, verifies


async def test_a_record_is_read_as_it_stands_and_as_it_stood(memory: Memory, clock: FixedClock) -> None:
    first = await memory.remember("one")
    moment = datetime.fromtimestamp(clock() / 1_000, UTC).isoformat()
    clock.move(1_000)
    await memory.remember("two", id=first.id)
    await memory.forget(ids=[first.id])
    seq = int(first.extensions["seq"])
    assert (await memory.get(first.id, as_of=seq)).content == "one"
    assert (await memory.get(first.id, as_of=moment)).content == "one"
    assert (await memory.get(first.id, as_of=seq + 1)).content == "two"
    for late in (None, seq + 2, seq - 1):
        with pytest.raises(NotFoundError):
            await memory.get(first.id, as_of=late)


async def test_another_agents_record_cannot_be_read(memory: Memory) -> None:
    theirs = RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="x")
    record_id = (await memory.remember(theirs)).id
    for call in (memory.get(record_id), memory.history(record_id), memory.restore(record_id)):
        with pytest.raises(NotFoundError) as refused:
            await call
        assert (refused.value.reason, refused.value.hint) == ("record", None)


async def test_an_archived_record_can_be_read(memory: Memory) -> None:
    record_id = await kept(memory, "x")
    await memory.expire({"type": "semantic"}, action="archive")
    assert (await memory.get(record_id)).state is State.ARCHIVED


async def test_an_archived_record_is_gone_from_every_list_when_it_expires(
    memory: Memory, clock: FixedClock
) -> None:
    stays = await kept(memory, "tea")
    ends = await kept(memory, "cake", expires_at=clock() + 1_000)
    await memory.expire({"type": "semantic"}, action="archive")
    seq = int(str((await memory.health())["seq"]))
    for passed, expected in ((999, {stays, ends}), (1, {stays})):
        clock.move(passed)
        assert await ids(memory, states=["archived"]) == expected
        assert await ids(memory, states=["archived"], as_of=seq) == expected
        assert {record["id"] async for record in memory.export()} == expected
    await memory.sweep()
    assert await ids(memory, states=["archived"]) == {stays}
    assert await ids(memory, states=["forgotten"]) == {ends}


async def test_reads_by_id_are_noted_in_the_journal(memory: Memory) -> None:
    record_id = await kept(memory, "x")
    await memory.get(record_id)
    await memory.flush()
    entry = (await memory.journal())[-1]
    assert (entry.op, entry.agent, [mention.id for mention in entry.records]) == ("read", "ana", [record_id])


# -- pages --------------------------------------------------------------------------------------------------------


async def test_pages_follow_each_other_without_gap_or_repetition(memory: Memory) -> None:
    answers = await memory.remember_many([f"n {number}" for number in range(25)])
    seen: list[str] = []
    cursor = None
    while True:
        page = await memory.list(limit=10, cursor=cursor)
        seen.extend(record.id for record in page.records)
        assert set(page.store_names.values()) >= {"main"}
        if (cursor := page.next_cursor) is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {answer.id for answer in answers}


async def test_pages_stay_in_step_when_records_go_in_between(memory: Memory) -> None:
    await memory.remember_many([f"n {number}" for number in range(12)])
    everything = [record.id for record in (await memory.list(limit=12)).records]
    first = await memory.list(limit=4)
    await memory.forget(ids=[everything[3], everything[5]])
    await memory.remember("newer")
    second = await memory.list(limit=4, cursor=first.next_cursor)
    assert [record.id for record in second.records] == [everything[n] for n in (4, 6, 7, 8)]


async def test_a_full_last_page_has_no_cursor(memory: Memory) -> None:
    await memory.remember_many(["a", "b"])
    assert (await memory.list(limit=2)).next_cursor is None
    assert (await memory.list(limit=1)).next_cursor is not None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"plain", "mara", "event"}),
        ({"user_id": "mara"}, {"mara"}),
        ({"session_id": "s"}, {"event"}),
        ({"types": ["episodic", "emotional"]}, {"event"}),
        ({"states": ["archived"]}, {"archived"}),
        ({"states": ["forgotten"]}, {"forgotten"}),
        ({"states": ["live", "archived", "forgotten"]}, {"plain", "mara", "event", "archived", "forgotten"}),
        ({"filter": {"tags": "t"}}, {"mara"}),
        ({"store": "main"}, {"plain", "mara", "event"}),
        ({"as_of": 4}, {"plain", "mara", "event"}),
        ({"as_of": 3}, {"plain", "mara"}),
        ({"as_of": 1}, set()),
    ],
)
async def test_what_narrows_a_list(memory: Memory, asked: dict[str, Any], expected: set[str]) -> None:
    named = {
        "plain": await kept(memory, "plain"),
        "mara": await kept(memory, "mara", user_id="mara", tags=["t"]),
        "event": await kept(memory, "event", type="episodic", session_id="s"),
        "archived": await kept(memory, "archived", type="emotional"),
    }
    await memory.expire({"type": "emotional"}, action="archive")
    named["forgotten"] = await kept(memory, "forgotten")
    await memory.forget(ids=[named["forgotten"]])
    assert await ids(memory, **asked) == {named[name] for name in expected}


async def test_all_agents_can_be_listed_by_who_may_see_them(memory: Memory) -> None:
    mine = await kept(memory, "x")
    theirs = (await memory.remember(RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="y"))).id
    assert await ids(memory) == {mine}
    assert await ids(memory, all_agents=True) == {mine, theirs}
    assert await ids(memory, all_agents=True, store="main", user_id="nobody") == set()


async def test_a_cursor_of_somebody_else_is_refused(memory: Memory) -> None:
    for cursor in ("ééé", "a", "_w", "bWVtAA"):
        with pytest.raises(InvalidError) as refused:
            await memory.list(cursor=cursor)
        assert refused.value.faults[0].pointer == "/cursor"


# -- history and restoring ----------------------------------------------------------------------------------------


async def test_history_tells_every_version_and_why(memory: Memory, clock: FixedClock) -> None:
    record_id = await kept(memory, "one")
    await memory.remember("two", id=record_id)
    await memory.forget(ids=[record_id], reason="old news")
    await memory.restore(record_id, reason="news again")
    await memory.expire({"type": "semantic"}, action="archive", reason="spring cleaning")
    versions = await memory.history(record_id)
    told = [(v.record.version, v.record.content, v.record.state.value, v.record.ending) for v in versions]
    assert told == [
        (1, "one", "live", Ending.REPLACED),
        (2, "two", "live", Ending.FORGOTTEN),
        (3, "two", "live", Ending.REPLACED),
        (4, "two", "archived", None),
    ]
    assert [version.reason for version in versions] == [None, "old news", "news again", "spring cleaning"]


async def test_history_of_nothing_is_not_found(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        await memory.history("mem_unknown")


@pytest.mark.parametrize("ending", ["forgotten", "merged", "expired by policy", "archived", "demoted"])
async def test_whatever_was_taken_out_of_use_comes_back(memory: Memory, ending: str) -> None:
    record_id = await kept(memory, "tea at noon", tags=["t"], metadata={"n": 1})
    match ending:
        case "forgotten":
            await memory.forget(ids=[record_id])
        case "merged":
            await memory.merge(await kept(memory, "other"), [record_id])
        case _:
            action = {"expired by policy": "forget", "archived": "archive", "demoted": "demote"}[ending]
            await memory.expire({"type": "semantic"}, action=action, filter={"tags": "t"})
    answer = await memory.restore(record_id)
    assert (answer.id, answer.extensions["outcome"]) == (record_id, "restored")
    record = await memory.get(record_id)
    assert (record.content, record.tags, dict(record.metadata)) == ("tea at noon", ("t",), {"n": 1})
    assert (await found(memory, "tea noon"))[0] == record_id
    assert not (await memory.recall("tea noon", min_relevance=0))[0].demoted
    assert await verifies(memory)
    with pytest.raises(ConflictError) as live:
        await memory.restore(record_id)
    assert live.value.reason == "not_forgotten"


@pytest.mark.parametrize("ending", ["forgotten", "archived", "demoted", "swept", "unswept"])
async def test_what_has_expired_is_not_brought_back_to_be_seen_by_nobody(
    memory: Memory, clock: FixedClock, ending: str
) -> None:
    record_id = await kept(memory, "tea", expires_at=clock() + 1_000)
    if ending == "forgotten":
        await memory.forget(ids=[record_id])
    elif ending in ("archived", "demoted"):
        await memory.expire({"type": "semantic"}, action="archive" if ending == "archived" else "demote")
    clock.move(1_000)
    if ending == "swept":
        await memory.sweep()
    before = await standing(memory)
    with pytest.raises(NotFoundError) as refused:
        await memory.restore(record_id)
    assert (refused.value.reason, refused.value.hint) == ("record", "Its time is over: it has expired.")
    assert await standing(memory) == before


async def test_nothing_unknown_can_be_restored(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        await memory.restore("mem_unknown")
