"""`Memory` in this process: lazy, opened once, closed for good; requests of every make."""

import asyncio
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from quipu.api import Memory
from quipu.config import Settings
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.memory.memory_store import MemoryStore
from quipu.memory.model import (
    ExpirePolicy,
    ForgetRequest,
    ListStoresResponse,
    RecallRequest,
    RememberRequest,
    RememberResponse,
)
from quipu.opening import EmbeddedConnection
from tests.fixtures.memories import TestMemory, open_memory
from tests.rendering.recorder import Recorder


class Opening:
    """Opens a real memory in this process, and counts how often."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self.path = path
        self.opened: list[TestMemory] = []

    async def __call__(self) -> EmbeddedConnection:
        await asyncio.sleep(0)  # others come in between
        self.opened.append(open_memory(path=self.path))
        return EmbeddedConnection(self.opened[-1], self.opened[-1].principal)


# -- open and close -----------------------------------------------------------------------------------------------


async def test_a_memory_is_opened_by_the_first_calls_and_once() -> None:
    opening = Opening()
    memory = Memory.over(opening, agent_id="ana")
    assert opening.opened == []
    await asyncio.gather(*(memory.remember(f"fact {number}") for number in range(5)))
    assert len(opening.opened) == 1
    assert len((await memory.list()).records) == 5
    await memory.close()
    await memory.close()
    with pytest.raises(BackendUnavailableError) as closed:
        await memory.list()
    assert closed.value.reason == "closed"


async def test_what_is_just_being_opened_is_closed_too() -> None:
    opening = Opening()
    memory = Memory.over(opening, agent_id="ana")
    before = asyncio.all_tasks()
    calls = [asyncio.create_task(memory.list_stores()) for _ in range(3)]
    await asyncio.sleep(0)
    await memory.close()
    for found in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(found, ListStoresResponse | BackendUnavailableError)
    assert asyncio.all_tasks() == before


async def test_a_memory_that_cannot_be_opened_says_why_each_time_and_can_be_opened_later() -> None:
    opening, is_down = Opening(), True

    async def opened() -> EmbeddedConnection:
        if is_down:
            raise BackendUnavailableError("The disk is full.", reason="disk_full")
        return await opening()

    memory = Memory.over(opened, agent_id="ana")
    with pytest.raises(BackendUnavailableError):
        async with memory:
            pass
    memory = Memory.over(opened, agent_id="ana")
    with pytest.raises(BackendUnavailableError):
        await memory.list()
    is_down = False
    assert (await memory.list()).records == ()
    await memory.close()


def test_a_memory_may_be_used_on_one_event_loop_after_the_other(tmp_path: Path) -> None:
    memory = Memory.over(Opening(tmp_path / "memory.db"), agent_id="ana")
    before = threading.active_count()
    kept = asyncio.run(memory.remember("Deploys happen on Tuesdays"))

    async def first_change() -> str:
        stream = memory.changes(since=0)
        async for event in stream:
            if event.record_ids:
                await stream.aclose()
                return event.record_ids[0]
        return ""

    for _ in range(2):
        assert asyncio.run(first_change()) == kept.id
    asyncio.run(memory.close())
    assert threading.active_count() <= before + 1, "asyncio's own executor at most"


async def test_a_feed_ends_when_the_memory_is_closed_by_another_task() -> None:
    memory = Memory.over(Opening(), agent_id="ana")
    await memory.remember("tea")
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in memory.changes(since=0):
            seen.set()

    before = asyncio.all_tasks()
    follower = asyncio.create_task(follow())
    await asyncio.wait_for(seen.wait(), 20)
    await memory.close()
    await asyncio.wait_for(follower, 20)
    assert asyncio.all_tasks() == before


async def test_a_reader_that_leaves_a_feed_leaves_nothing_running() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        await memory.remember("tea")
        before = asyncio.all_tasks()
        stream = memory.changes(since=0)
        await anext(stream)
        await stream.aclose()
        assert asyncio.all_tasks() == before


async def test_a_feed_that_is_refused_raises_its_error() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        with pytest.raises(InvalidError) as refused:
            await anext(memory.changes(since=-1))
        assert refused.value.faults[0].pointer == "/since"


# -- the constructor ----------------------------------------------------------------------------------------------


async def test_the_constructor_hands_what_it_is_given_to_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []

    async def open_container(config: Any, **given: Any) -> TestMemory:
        asked.append((config, given))
        return open_memory(agent_id=None)

    bootstrap = ModuleType("quipu.bootstrap")
    bootstrap.open_container = open_container  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "quipu.bootstrap", bootstrap)
    peer = Memory.over(Recorder().opened)
    async with Memory("ana", ["memory.db", peer], write_policy="primary_only", embedder="none") as memory:
        assert (await memory.remember("tea")).outcome == "created"
        assert [record.agent_id for record in (await memory.list()).records] == ["ana"]
        assert memory.capabilities == {*memory.capabilities} - {"vector"}
    config, given = asked[0]
    assert isinstance(config, Settings)
    assert given == {"stores": ["memory.db", peer], "write_policy": "primary_only", "embedder": "none"}
    monkeypatch.setenv("QUIPU_AGENT", "ben")
    async with Memory() as memory:
        assert memory.agent_id == "ben"
        assert len(memory.capabilities) == 9
    assert asked[1][1] == {}


def test_arguments_that_make_no_sense_are_refused_at_once() -> None:
    for given, pointer in (
        ({"agent_id": ""}, "/agent_id"),
        ({"fusion": "average"}, "/fusion"),
        ({"write_policy": "some"}, "/write_policy"),
        ({"governance": object()}, "/governance"),
        ({"stores": [7]}, "/stores"),
    ):
        with pytest.raises(InvalidError) as refused:
            Memory(**given)  # type: ignore[arg-type]
        assert refused.value.faults[0].pointer == pointer


# -- calls --------------------------------------------------------------------------------------------------------


async def test_an_argument_that_has_its_default_was_not_given() -> None:
    """A change by id keeps the type that the memory has, though the argument's default is another."""
    async with Memory.over(Opening(), agent_id="ana") as memory:
        kept = await memory.remember("We met", type="episodic", location="Rome")
        changed = await memory.remember("We met twice", id=kept.id)
        found = await memory.get(changed.id)
        assert (found.type, found.content, found.details["location"]) == ("episodic", "We met twice", "Rome")


async def test_times_may_be_given_as_python_has_them() -> None:
    recorder = Recorder()
    memory = Memory.over(recorder.opened)
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    for given in (noon, timedelta(days=30), "30d", 1_900_000_000_000):
        await memory.remember("tea", expires_at=given)
    await memory.remember("tea", valid_from=noon)
    requests: list[Any] = [request for _, request in recorder.asked]
    assert [request.expires_at for request in requests[:4]] == [
        int(noon.timestamp() * 1000),
        "2592000s",
        "30d",
        1_900_000_000_000,
    ]
    assert requests[4].valid_from == int(noon.timestamp() * 1000)


async def test_any_operation_can_be_called_by_its_name() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        kept: RememberResponse = await memory.call("remember", content="tea")
        assert (await memory.call("get", id=kept.id)).agent_id == "ana"
        with pytest.raises(InvalidError) as refused:
            await memory.call("remmember", content="tea")
        assert refused.value.hint == "Did you mean remember?"
        with pytest.raises(InvalidError) as unknown:
            await memory.call("remember", content="tea", colour="green")
        assert unknown.value.reason == "unknown_field"
        lenient = await memory.call("remember", content="tea", colour="green", strict=False)
        assert "colour" in lenient.warnings[-1]
        with pytest.raises(InvalidError):
            await memory.call("changes")


async def test_the_memory_s_own_agent_and_fusion_stand_in_for_those_a_call_leaves_out() -> None:
    recorder = Recorder()
    memory = Memory.over(recorder.opened, agent_id="ana", fusion="max")
    await memory.recall("tea")
    await memory.recall("tea", agent_id="ben", fusion="weighted")
    await memory.recall({"query": "tea", "agent_id": "carla"})
    requests: list[Any] = [request for _, request in recorder.asked]
    assert [(request.agent_id, request.fusion) for request in requests] == [
        ("ana", "max"),
        ("ben", "weighted"),
        ("carla", "max"),
    ]


# -- requests of every make ---------------------------------------------------------------------------------------


async def test_the_first_argument_of_the_five_may_be_a_request_of_ours_or_a_mapping() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        kept = await memory.remember(RememberRequest(content="tea", tags=("drink",)))
        other = await memory.remember({"content": "tea too"})
        assert len(await memory.recall(RecallRequest(query="tea", min_relevance=0))) == 2
        assert (await memory.merge({"canonical": kept.id, "duplicates": [other.id]})).merged_count == 1
        policy = ExpirePolicy(type="emotional")
        for given in (policy, {"type": "emotional"}, {"policy": {"type": "emotional"}, "dry_run": True}):
            assert (await memory.expire(given)).matched_count == 0
        assert (await memory.forget(ForgetRequest(ids=(kept.id,)))).forgotten_ids == (kept.id,)
        with pytest.raises(InvalidError) as empty:
            await memory.expire({"agent_id": "ana"})
        assert empty.value.reason == "empty_policy"


async def test_a_procedure_s_machine_is_content_and_no_request() -> None:
    machine = {
        "name": "door",
        "initial": "shut",
        "states": ["shut", "open"],
        "transitions": [{"trigger": "push", "source": "shut", "dest": "open"}],
    }
    async with Memory.over(Opening(), agent_id="ana") as memory:
        kept = await memory.remember(machine, type="procedural")
        assert (await memory.get(kept.id)).type == "procedural"


async def test_a_request_and_other_arguments_do_not_go_together() -> None:
    memory = Memory.over(Recorder().opened)
    for call in (
        memory.remember({"content": "tea"}, tags=["drink"]),
        memory.forget({"ids": ["mem_1"]}, hard_delete=True),
    ):
        with pytest.raises(InvalidError) as refused:
            await call
        assert "into the request" in (refused.value.hint or "")
    with pytest.raises(InvalidError):
        await memory.forget("mem_1")  # type: ignore[arg-type]


class _Foreign(BaseModel):
    """As another package's models are: closed, and with nulls for what is absent."""

    model_config = ConfigDict(extra="forbid")


class ForeignHit(_Foreign):
    model_config = ConfigDict(extra="allow")
    id: str
    type: str
    content: Any
    score: float
    metadata: dict[str, Any]
    supporting: list[str]


# The answer's class is looked up by the request's name, in the request's own module.
class RecallForeignRequest(_Foreign):
    agent_id: str
    query: str
    k: int = 5
    user_id: str | None = None
    filter: dict[str, Any] | None = None
    fusion: Literal["rrf", "max", "weighted"] = "rrf"
    fresher_than_days: int | None = None


class RecallForeignResponse(_Foreign):
    results: list[ForeignHit]
    fusion_used: str
    stores_queried: list[str]
    latency_ms: int | None = None


class ForgetForeignRequest(_Foreign):
    """Its package has no answer of that name."""

    agent_id: str
    ids: list[str] | None = None
    hard_delete: bool = False


async def test_a_request_of_another_package_is_answered_in_its_own_class() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        await memory.remember("tea in Rome", metadata={"city": "Rome"})
        kept = await memory.remember("tea in Oslo", metadata={"city": "Oslo"})
        request = RecallForeignRequest(agent_id="ana", query="tea", filter={"city": "Oslo"})
        found: Any = await memory.recall(request)
        assert isinstance(found, RecallForeignResponse)
        assert [hit.id for hit in found.results] == [kept.id], (
            "a plain filter name is a metadata key, as v0 has it"
        )
        assert found.results[0].model_extra, "an open hit keeps what stands beside"
        gone = await memory.forget(ForgetForeignRequest(agent_id="ana", ids=[kept.id]))
        assert gone.forgotten_ids == (kept.id,), "ours, where theirs is not there"


async def test_our_own_filters_name_fields() -> None:
    async with Memory.over(Opening(), agent_id="ana") as memory:
        with pytest.raises(InvalidError) as refused:
            await memory.recall("tea", filter={"city": "Oslo"})
        assert refused.value.reason == "unknown_field"


def test_what_lacks_an_operation_is_no_memory_store() -> None:
    assert not isinstance(object(), MemoryStore)
