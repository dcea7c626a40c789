"""Import and export: what goes out comes back in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu import InvalidError, Memory, Record
from quipu.model.record import Trust
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, ids, kept, standing, verifies

DAY = 86_400_000


def essence(record: Record) -> dict[str, Any]:
    """What a reader sees of a record, whoever wrote it and whenever it was imported."""
    return {
        "id": record.id,
        "content": record.content,
        "type": record.type,
        "state": record.state,
        "agent": record.agent_id,
        "scope": (record.user_id, record.session_id),
        "metadata": json.dumps(record.metadata, sort_keys=True),
        "tags": record.tags,
        "links": record.links,
        "worth": (record.confidence, record.importance, record.source),
        "details": json.dumps(record.details, sort_keys=True),
        "privacy": record.privacy,
        "times": (record.created_at, record.updated_at, record.expires_at),
        "subject": record.provenance.subject,
    }


@pytest.fixture
async def varied(memory: Memory, clock: FixedClock) -> Memory:
    """A memory with something of everything."""
    first = await kept(memory, "tea at noon", user_id="mara", session_id="s", tags=["t"], importance=0.5)
    clock.move(DAY)
    await memory.remember("tea at one", id=first, metadata={"subject": "Mara", "deep": {"n": [1, 2.5, None]}})
    await memory.remember(
        "lunch — ☕", type="episodic", event_time=5, location="Lima", participants=["Bo"], source="web_page"
    )
    await memory.remember("joy", type="emotional", valence=0.5, links=[{"to": first, "rel": "about"}])
    machine = {"name": "m", "initial": "a", "states": ["a"], "transitions": []}
    await memory.remember(machine, type="procedural", confidence=0.25)
    intent = {"retain": "P30D", "share_with": ["bo"], "sensitivity": "secret", "consent_id": "c"}
    await memory.remember("secret", privacy_intent=intent, expires_at=clock() + 9 * DAY)
    old = await kept(memory, "old hat", tags=["old"])
    await memory.expire({"type": "semantic"}, action="archive", filter={"tags": "old"})
    gone = await kept(memory, "forgotten")
    await memory.forget(ids=[gone])
    assert old != gone
    return memory


async def test_an_export_brought_into_an_empty_memory_gives_equal_records(
    varied: Memory, opened: Any, clock: FixedClock
) -> None:
    lines = [json.dumps(line) async for line in varied.export()]
    clock.move(1)
    other: Memory = opened()
    summary = await other.import_records(lines)
    assert (summary.read, summary.stored, summary.held, summary.failed) == (6, 6, 0, 0)
    everything = {"states": ["live", "archived"], "limit": 100}
    before = {record.id: essence(record) for record in (await varied.list(**everything)).records}
    after = {record.id: essence(record) for record in (await other.list(**everything)).records}
    assert after == before
    archived = await ids(varied, states=["archived"])
    assert await ids(other, states=["archived"]) == archived
    assert not archived & set(await found(other, "hat"))
    assert await verifies(other)
    again = [json.dumps(line) async for line in other.export()]
    assert {json.loads(line)["id"] for line in again} == {json.loads(line)["id"] for line in lines}


async def test_what_is_imported_is_trusted_no_more_than_the_outside(opened: Any) -> None:
    memory: Memory = opened()
    summary = await memory.import_records(
        [{"content": "x", "provenance": {"written_by": "y", "trust": "operator"}}]
    )
    (record,) = (await memory.list()).records
    assert record.provenance.trust is Trust.EXTERNAL
    assert record.provenance.import_id == summary.import_id
    assert (await memory.journal())[-1].detail == {"import_id": summary.import_id}


async def test_an_id_is_kept_where_it_is_free(memory: Memory, clock: FixedClock) -> None:
    taken = await kept(memory, "already here")
    lines = [
        {"content": "a", "id": "mem_A"},
        {"content": "b", "id": taken},
        {"content": "c", "id": "mem_A"},
        {"content": "d"},
    ]
    assert (await memory.import_records(lines)).stored == 4
    records = (await memory.list()).records
    assert {record.content: record.id for record in records}["a"] == "mem_A"
    assert len({record.id for record in records}) == 5
    assert (await memory.get(taken)).content == "already here"


async def test_lines_may_say_when_they_were_made(memory: Memory, clock: FixedClock) -> None:
    old = clock() - 100 * DAY
    lines = [
        {"content": "a", "id": "mem_A", "created_at": old, "updated_at": old + 5},
        {"content": "b", "id": "mem_B", "created_at": old, "updated_at": old - 5},
        {"content": "c", "id": "mem_C", "updated_at": clock() + 5},
        {"content": "d", "id": "mem_D", "created_at": old, "privacy_intent": {"retain": "P30D"}},
    ]
    await memory.import_records(lines)
    times = {record.id: (record.created_at, record.updated_at) for record in (await memory.list()).records}
    assert times == {
        "mem_A": (old, old + 5),
        "mem_B": (old, old),
        "mem_C": (clock(), clock() + 5),
    }  # the last one's time was up before it came
    assert await found(memory, "a b c", fresher_than_days=30) == ["mem_C"]


async def test_a_bad_line_is_told_by_its_number_and_the_others_stand(memory: Memory) -> None:
    lines = [
        "{not json",
        '{"content": "good"}',
        '{"content": ""}',
        "[1]",
        '{"content": "x", "colour": 1}',
        {"content": "nowhere", "store": "attic"},
        {"content": "y", "update_strategy": "append", "id": "mem_A"},
        {"content": "z", "state": "forgotten"},
        {"content": "also good"},
    ]
    summary = await memory.import_records(lines)
    assert (summary.read, summary.stored, summary.failed) == (9, 2, 7)
    assert [number for number, _ in summary.errors] == [1, 3, 4, 5, 6, 7, 8]
    assert all(message.startswith(("validation_error: ", "not_found: ")) for _, message in summary.errors)
    assert summary.errors[3][1].endswith("Unknown field. At /colour.")
    assert {record.content for record in (await memory.list()).records} == {"good", "also good"}


async def test_an_import_can_stop_at_the_first_bad_line(memory: Memory) -> None:
    lines = [{"content": "a"}, {"content": ""}, {"content": "c"}]
    summary = await memory.import_records(lines, stop_on_error=True)
    assert (summary.read, summary.stored, summary.failed) == (2, 1, 1)


async def test_a_dry_run_counts_and_writes_nothing(memory: Memory) -> None:
    before = await standing(memory)
    lines = [{"content": "a"}, {"content": ""}, {"content": "c", "approval_required": True}]
    summary = await memory.import_records(lines, dry_run=True)
    assert (summary.read, summary.stored, summary.held, summary.failed) == (3, 1, 1, 1)
    assert await standing(memory) == before
    assert await memory.proposals() == ()


async def test_a_line_that_asks_for_approval_waits_for_it(memory: Memory) -> None:
    lines = [
        {"content": "risky", "approval_required": True},
        {"content": "nowhere", "approval_required": True, "store": "attic"},
        {"content": "plain"},
    ]
    summary = await memory.import_records(lines)
    assert (summary.stored, summary.held, summary.failed) == (1, 1, 1)
    assert [record.content for record in (await memory.list()).records] == ["plain"]
    (proposal,) = await memory.proposals()
    await memory.decide(proposal.id, approved=True)
    assert len(await ids(memory)) == 2


async def test_repeating_a_file_is_harmless_when_lines_carry_keys(memory: Memory) -> None:
    lines = [{"content": f"n {number}", "idempotency_key": f"k{number}"} for number in range(5)]
    for _ in range(2):
        assert (await memory.import_records([*lines, lines[0]])).stored == 6
    assert len(await ids(memory)) == 5
    changed = await memory.import_records([{**lines[0], "content": "other"}, {"content": "fine"}])
    assert (changed.stored, changed.failed) == (1, 1)
    assert await verifies(memory)


async def test_a_long_import_goes_in_chunks_and_tells_how_far_it_is(memory: Memory) -> None:
    async def lines() -> AsyncIterator[dict[str, Any]]:
        for number in range(1_100):
            yield {"content": f"n {number}"}

    told: list[int] = []
    summary = await memory.import_records(lines(), progress=told.append)
    assert (summary.stored, told) == (1_100, [500, 1_000, 1_100])
    assert [entry.op for entry in await memory.journal()] == ["genesis", "import", "import", "import"]
    assert len(await ids(memory)) == 1_000  # a page


async def test_of_many_bad_lines_the_first_thousand_are_told(memory: Memory) -> None:
    lines = [{"content": "good" if number < 600 else ""} for number in range(1_700)]
    summary = await memory.import_records(lines)
    assert (summary.stored, summary.failed, len(summary.errors)) == (600, 1_100, 1_000)


async def test_one_bad_record_in_a_chunk_does_not_take_the_others_along(memory: Memory) -> None:
    """The vector of the third line is of another space, which is only seen when it is written."""
    lines = [{"content": f"n {number}"} for number in range(4)]
    lines[2]["embedding"] = {"model": "other", "vector": [1.0]}  # type: ignore[assignment]  it is meant to be wrong
    summary = await memory.import_records(lines)
    assert (summary.stored, summary.failed) == (3, 1)
    assert summary.errors[0][0] == 3


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"tea at one", "lunch — ☕", "joy", "secret", "old hat"}),
        ({"states": ["live"]}, {"tea at one", "lunch — ☕", "joy", "secret"}),
        ({"filter": {"type": "episodic"}}, {"lunch — ☕"}),
        ({"store": "main", "states": ["archived"]}, {"old hat"}),
        ({"as_of": 2}, {"tea at noon"}),
    ],
)
async def test_an_export_can_be_narrowed(varied: Memory, asked: dict[str, Any], expected: set[str]) -> None:
    lines = [line async for line in varied.export(**asked)]
    assert {line["content"] for line in lines if isinstance(line["content"], str)} == expected


async def test_what_was_forgotten_says_so_and_does_not_come_back_by_import(
    varied: Memory, opened: Any
) -> None:
    (line,) = [line async for line in varied.export(states=["forgotten"])]
    assert (line["content"], line["state"]) == ("forgotten", "forgotten")
    other: Memory = opened()
    assert (await other.import_records([line])).failed == 1
    before = int(str((await varied.health())["seq"])) - 1
    then = [line async for line in varied.export(as_of=before)]
    assert {line["id"]: line["state"] for line in then}[line["id"]] == "live"


async def test_an_export_is_noted_in_the_journal(varied: Memory) -> None:
    count = len([line async for line in varied.export(all_agents=True)])
    await varied.flush()
    entry = (await varied.journal())[-1]
    assert (entry.op, entry.agent, entry.detail) == ("export", None, {"records": count})


async def test_other_agents_are_exported_when_asked_for(memory: Memory, tmp_path: Path) -> None:
    await memory.import_records([{"content": "mine"}, {"content": "theirs", "agent_id": "bo"}])
    assert [line["content"] async for line in memory.export()] == ["mine"]
    assert {line["content"] async for line in memory.export(all_agents=True)} == {"mine", "theirs"}


async def test_an_import_that_is_no_object_is_refused_by_line(memory: Memory) -> None:
    summary = await memory.import_records(['"text"'])
    assert summary.errors == ((1, "validation_error: This is not an object."),)
    assert InvalidError.code == "validation_error"


async def test_an_id_used_twice_in_one_import_is_kept_once_however_far_apart(memory: Memory) -> None:
    name = "mem_01J00000000000000000000000"
    lines: list[dict[str, Any]] = [{"content": f"fact {number}"} for number in range(600)]
    lines[0] = {"content": "first", "id": name}
    lines[599] = {"content": "second", "id": name}
    summary = await memory.import_records(lines)
    assert (summary.stored, summary.failed) == (600, 0)
    assert (await memory.get(name)).content == "first"


async def test_a_source_that_breaks_off_leaves_what_was_read_in_and_no_work_behind(memory: Memory) -> None:
    async def broken() -> AsyncIterator[dict[str, Any]]:
        for number in range(700):
            yield {"content": f"fact {number}"}
        raise OSError("the file ended here")

    with pytest.raises(OSError, match="ended here"):
        await memory.import_records(broken())
    assert (await memory.statistics())["live"] == 500


class Waiting(WordEmbedder):
    """Embeds what it was asked for first only once it is asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.again = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.asked += 1
        if self.asked == 1:
            async with asyncio.timeout(30):
                await self.again.wait()
        self.again.set()
        return await super().embed(texts)


async def test_a_chunk_is_embedded_while_the_one_before_is_written_and_stands_behind_it(opened: Any) -> None:
    memory: Memory = opened(embedder=Waiting())
    summary = await memory.import_records([{"content": f"fact {number}"} for number in range(1_000)])
    assert summary.stored == 1_000
    first, second = [entry for entry in await memory.journal() if entry.op == "import"]
    contents = {record.id: str(record.content) for record in (await memory.list(limit=1_000)).records}
    numbers = [[int(contents[one.id].split()[1]) for one in entry.records] for entry in (first, second)]
    assert [sorted(these) for these in numbers] == [list(range(500)), list(range(500, 1_000))]


async def test_a_line_that_waits_for_approval_may_lead_to_one_of_the_chunk_before(memory: Memory) -> None:
    lines: list[dict[str, Any]] = [{"content": f"fact {number}"} for number in range(600)]
    lines[0]["id"] = "mem_01J00000000000000000000000"
    lines[599] |= {"approval_required": True, "links": [{"to": lines[0]["id"], "rel": "about"}]}
    summary = await memory.import_records(lines)
    assert (summary.stored, summary.held, summary.errors) == (599, 1, ())


class Failing(WordEmbedder):
    """Fails with the first chunk as no embedder should, when the next has been asked for."""

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if "fact 0" in texts:
            await asyncio.sleep(0.05)
            raise ZeroDivisionError
        return await super().embed(texts)


async def test_behind_a_chunk_that_broke_nothing_is_kept(opened: Any) -> None:
    memory: Memory = opened(embedder=Failing())
    with pytest.raises(ZeroDivisionError):
        await memory.import_records([{"content": f"fact {number}"} for number in range(1_200)])
    assert (await memory.statistics())["live"] == 0
