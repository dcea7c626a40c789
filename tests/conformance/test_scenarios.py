"""Every conformance scenario on Quipu's own memory: async and blocking, on a file and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quipu import Memory, sync
from quipu.embed.onnx import OnnxEmbedder
from quipu.errors import NotFoundError
from quipu.faces.memorywire.schemas import schema, v0_form
from quipu.faces.memorywire.wire import ExpireReply, ForgetReply, MergeReply, RecallReply, RememberReply
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.ports.memory_store import MemoryStore
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import (
    MODEST,
    SCENARIOS,
    Awaited,
    MemorySubject,
    Opening,
    Result,
    Scenario,
    Subject,
    played,
    run,
)
from quipu.testing.scenarios_subject import AGENT, Check, Lacking
from tests.faces.memorywire.shapes import registry

REPLIES: dict[type, tuple[str, Any]] = {
    RememberResponse: ("remember", RememberReply),
    RecallResponse: ("recall", RecallReply),
    ForgetResponse: ("forget", ForgetReply),
    MergeResponse: ("merge", MergeReply),
    ExpireResponse: ("expire", ExpireReply),
}


def reply(response: object, extensions: bool) -> dict[str, Any]:
    """The JSON answer, which the published schema and v0's own accept."""
    operation, kind = REPLIES[type(response)]
    body = kind.from_model(response, extensions).body()
    published = schema(f"operations/{operation}.response")
    Draft202012Validator(published, registry=registry()).validate(body)
    if operation in ("remember", "recall", "forget"):
        bare = {name: value for name, value in body.items() if name != "extensions"}
        Draft202012Validator(v0_form(f"operations/{operation}.response")).validate(bare)
    return body


class Lent:
    """The one real embedder of this process, lent to a memory that must not close it."""

    def __init__(self, inner: OnnxEmbedder) -> None:
        self.inner = inner
        self.model, self.dimensions = inner.model, inner.dimensions

    async def embed(self, texts: list[str]) -> Any:
        return await self.inner.embed(texts)

    async def close(self) -> None: ...


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lent]:
    """Builds the graph once; later loads only read it."""
    embedder = OnnxEmbedder(tmp_path_factory.mktemp("embedder"), download=False)
    yield Lent(embedder)
    embedder._pool.shutdown()


def opening(make: Callable[..., Any], real: Lent, file: Path | None) -> Opening:
    def memory(scenario: Scenario, clock: FixedClock) -> Any:
        embedder = real if scenario.embedder == "real" else WordEmbedder()
        url = "sqlite://:memory:" if file is None else f"sqlite://{file}"
        return make(agent_id=AGENT, stores=url, embedder=embedder, clock=clock)

    def files() -> list[Path]:
        return [] if file is None else sorted(file.parent.glob(f"{file.name}*"))

    return Opening(memory, reply, files)


@pytest.fixture(params=["async-file", "async-memory", "sync-file", "sync-memory"])
def subject(request: pytest.FixtureRequest, real: Lent, tmp_path: Path) -> MemorySubject:
    colour, _, place = request.param.partition("-")
    make = Memory if colour == "async" else lambda **given: Awaited(sync.Memory(**given))
    subject = MemorySubject(opening(make, real, tmp_path / "memory.db" if place == "file" else None))
    if request.param != "async-file":  # the full crowd once, a smaller one for the other three
        subject.size = MODEST
    return subject


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_memory_plays_the_scenario(subject: MemorySubject, scenario: Scenario) -> None:
    result = await played(subject, scenario)
    assert result.passed, result.detail
    assert result.assertions > 0


# -- the kit itself ---------------------------------------------------------------------------------------------


class Mute:
    """A store that accepts everything and keeps nothing: what a careless suite would let pass."""

    capabilities: frozenset[str] = frozenset({"semantic"})

    async def remember(self, request: Any, /) -> RememberResponse:
        return RememberResponse(id="mem_1", stored_at=0, stores=("mute",))

    async def recall(self, request: Any, /) -> RecallResponse:
        return RecallResponse(results=(), fusion_used=request.fusion, stores_queried=(), latency_ms=0)

    async def forget(self, request: Any, /) -> ForgetResponse:
        return ForgetResponse(forgotten_ids=request.ids, hard_delete=False, stores=())

    async def merge(self, request: Any, /) -> MergeResponse:
        raise OSError("the disk is gone")

    async def expire(self, request: Any, /) -> ExpireResponse:
        return ExpireResponse(matched_count=1, action_taken=request.action, stores=())

    async def health(self) -> dict[str, Any]:
        return {"status": "ok"}


async def test_a_store_that_keeps_nothing_passes_only_the_look_at_its_shape() -> None:
    results = {result.name: result for result in await run(Subject(Mute()))}
    assert list(results) == [scenario.name for scenario in SCENARIOS]
    assert {name for name, result in results.items() if result.passed} == {"isinstance_protocol"}
    assert isinstance(Mute(), MemoryStore)


async def test_a_store_without_a_hook_is_told_so_and_does_not_pass() -> None:
    (result,) = await run(
        Subject(Mute()), [scenario for scenario in SCENARIOS if scenario.name == "expire_by_age"]
    )
    assert result == Result(
        "expire_by_age", False, "not run, the store lacks a way to read the store's clock", 0
    )


async def test_an_error_of_the_store_is_the_result_of_its_scenario() -> None:
    async def merging(at: Subject, check: Check) -> None:
        await at.merge("a", "b")

    result = await played(Subject(Mute()), Scenario("merging", "it merges", merging))
    assert (result.passed, result.detail) == (False, "OSError: the disk is gone")


async def test_a_scenario_that_asserts_nothing_does_not_pass() -> None:
    async def idle(at: Subject, check: Check) -> None: ...

    assert not (await played(Subject(Mute()), Scenario("idle", "nothing", idle))).passed


async def test_a_call_that_should_have_been_refused_is_named() -> None:
    async def lax(at: Subject, check: Check) -> None:
        await check.refused(at.forget(), "validation_error")

    result = await played(Subject(Mute()), Scenario("lax", "it refuses", lax))
    assert (result.passed, result.detail) == (False, "expected validation_error, and nothing was refused")


HOOKS: dict[str, tuple[Any, ...]] = {
    "travel": (1,),
    "backdate": ("a", 1),
    "kept_since": (1, "text"),
    "submit": ("recall", {}),
    "get": ("a",),
    "history": ("a",),
    "restore": ("a",),
    "exported": (),
    "pending": (),
    "decide": ("a",),
    "create_store": ("a",),
    "flush": (),
    "journal": (),
    "stays_sound": (),
    "file_bytes": (),
    "stop": (),
}


@pytest.mark.parametrize("name", HOOKS)
async def test_each_hook_is_lacking_until_it_is_written(name: str) -> None:
    named = {"approved": True} if name == "decide" else {}
    with pytest.raises(Lacking):
        await getattr(Subject(Mute()), name)(*HOOKS[name], **named)


async def test_a_store_may_be_backdated_by_its_own_hook() -> None:
    class Dated(Subject):
        async def backdate(self, record_id: str, created_at: int) -> None:
            self.dated = (record_id, created_at)

    subject = Dated(Mute())
    assert await subject.kept_since(5, "old") == "mem_1"
    assert subject.dated == ("mem_1", 5)
    assert await subject.remember_all([subject.request("a"), subject.request("b")]) == ["mem_1", "mem_1"]


async def test_a_refusal_of_the_store_is_told_with_its_code() -> None:
    async def refusing(at: Subject, check: Check) -> None:
        raise NotFoundError("Not there.", reason="record")

    result = await played(Subject(Mute()), Scenario("refusing", "", refusing))
    assert (result.passed, result.detail) == (False, "not_found (record): Not there.")


async def test_scenarios_on_one_store_do_not_meet_each_other() -> None:
    subject = Subject(Mute())
    agents: list[str] = []

    async def noting(at: Subject, check: Check) -> None:
        agents.append(at.agent)

    await run(subject, [Scenario(name, "", noting) for name in ("one", "two")])
    assert agents == [f"{AGENT}:one", f"{AGENT}:two"]
    assert subject.agent == AGENT


def test_every_scenario_has_a_name_of_its_own_and_says_what_holds() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all(scenario.says for scenario in SCENARIOS)
    assert len(SCENARIOS) == 16 + 28


async def test_an_answer_that_cannot_be_used_is_told_with_its_place() -> None:
    (scenario,) = [one for one in SCENARIOS if one.name == "health_returns_status"]
    result = await played(Subject(Mute()), scenario)
    assert result.detail.startswith("KeyError: 'backend', in scenarios_sixteen.py, line ")
    assert 'health["backend"]' in result.detail


async def test_an_operation_that_never_answers_is_named_and_the_next_scenario_is_played() -> None:
    class Hung(Mute):
        async def recall(self, request: Any, /) -> RecallResponse:
            await asyncio.Event().wait()
            raise AssertionError

    subject = Subject(Hung())
    subject.patience_s = 0.05
    names = ("basic_remember_recall", "isinstance_protocol")
    results = await run(subject, [scenario for scenario in SCENARIOS if scenario.name in names])
    assert [(result.name, result.passed) for result in results] == [(names[0], False), (names[1], True)]
    assert results[0].detail == "recall did not answer within 0.05 s"
