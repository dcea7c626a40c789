"""Recall: what narrows it, what ranks it, what it says and what it keeps to itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from quipu import (
    BackendUnavailableError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    Memory,
    NotFoundError,
    RecallRequest,
)
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, kept

DAY = 86_400_000


@pytest.fixture
async def harbour(memory: Memory, clock: FixedClock) -> dict[str, str]:
    """Some memories that all speak of the harbour."""
    await memory.create_store("attic")
    named = {
        "mara": {"user_id": "mara", "metadata": {"n": 1, "place": {"x": "quay"}}},
        "bo": {"user_id": "bo", "session_id": "s1", "tags": ["boat"]},
        "event": {"type": "episodic", "session_id": "s1"},
        "attic": {"store": "attic"},
    }
    ids = {name: await kept(memory, f"harbour note of {name}", **given) for name, given in named.items()}
    clock.move(10 * DAY)
    ids["late"] = await kept(memory, "harbour note of late", confidence=0.5)
    return ids


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"mara", "bo", "event", "attic", "late"}),
        ({"user_id": "mara"}, {"mara"}),
        ({"user_id": ""}, set()),
        ({"user_id": "x" * 5_000}, set()),
        ({"session_id": "s1"}, {"bo", "event"}),
        ({"store": "attic"}, {"attic"}),
        ({"store": "main"}, {"mara", "bo", "event", "late"}),
        ({"types": ["episodic"]}, {"event"}),
        ({"types": []}, {"mara", "bo", "event", "attic", "late"}),
        ({"types": ["semantic", "emotional"], "session_id": "s1"}, {"bo"}),
        ({"fresher_than_days": 5}, {"late"}),
        ({"fresher_than_days": 10}, {"mara", "bo", "event", "attic", "late"}),
        ({"fresher_than_days": 0}, {"late"}),
        ({"fresher_than_days": (1 << 63) - 1}, {"mara", "bo", "event", "attic", "late"}),
        ({"filter": {"n": {"$gte": 1}}}, {"mara"}),
        ({"filter": {"place.x": "quay"}}, {"mara"}),
        ({"filter": {"tags": "boat"}}, {"bo"}),
        ({"filter": {"store": "attic"}}, {"attic"}),
        ({"filter": {"confidence": {"$lt": 0.9}}}, {"late"}),
        ({"filter": {"$not": {"type": "semantic"}}}, {"event"}),
        ({"filter": {}}, {"mara", "bo", "event", "attic", "late"}),
        ({"filter": {"user_id": "bo"}, "user_id": "mara"}, set()),
    ],
)
async def test_what_narrows_a_recall(
    memory: Memory, harbour: dict[str, str], asked: dict[str, Any], expected: set[str]
) -> None:
    assert set(await found(memory, "harbour note", **asked)) == {harbour[name] for name in expected}


async def test_a_store_that_is_not_there_is_said_so(memory: Memory) -> None:
    with pytest.raises(NotFoundError) as gone:
        await memory.recall("x", store="cellar")
    assert gone.value.reason == "store"
    assert gone.value.hint


async def test_a_hit_tells_all_about_its_record(memory: Memory, clock: FixedClock) -> None:
    record_id = await kept(
        memory,
        "harbour",
        type="emotional",
        user_id="mara",
        session_id="s",
        metadata={"n": 1},
        tags=["t"],
        confidence=0.5,
        importance=0.25,
        source="user",
        expires_at=clock() + 9,
        sentiment="mixed",
    )
    response = await memory.recall("harbour", min_relevance=0)
    hit = response[0]
    assert (hit.id, hit.type, hit.content, hit.rank) == (record_id, MemoryType.EMOTIONAL, "harbour", 1)
    assert (hit.user_id, hit.session_id, hit.agent_id, hit.store) == ("mara", "s", "ana", "main")
    assert (dict(hit.metadata), hit.tags, dict(hit.details)) == ({"n": 1}, ("t",), {"sentiment": "mixed"})
    assert (hit.confidence, hit.importance, hit.source, hit.version) == (0.5, 0.25, "user", 1)
    assert (hit.created_at, hit.updated_at, hit.expires_at) == (clock(), clock(), clock() + 9)
    assert (hit.source_store, hit.stores, hit.supporting, hit.why) == ("sqlite", ("sqlite",), (), None)
    assert 0 <= hit.relevance <= 1
    assert (response.stores_queried, len(response), list(response), response[0:1]) == (
        ("sqlite",),
        1,
        [hit],
        (hit,),
    )
    assert response.extensions["below_floor"] == 0


async def test_all_that_is_below_the_floor_is_counted_however_little_was_asked_for(memory: Memory) -> None:
    for number in range(30):
        await memory.remember(f"harbour {number}")
    for k in (1, 5):
        told = await memory.recall("harbour", k=k, min_relevance=1.0)
        assert (len(told), told.extensions["below_floor"]) == (0, 30)
        told = await memory.recall("harbour", k=k, min_relevance="off")
        assert (len(told), told.extensions["below_floor"]) == (k, 0)


async def test_a_word_that_is_also_somebodys_id_hides_no_answer(memory: Memory) -> None:
    for note in ("bees sting", "nails rust", "pupils read crime novels", "the choir sings on Tuesday"):
        await memory.remember(note, user_id="garden")
    party = await kept(memory, "the party of the department is in our garden", user_id="ana")
    for note in ("a party dress hangs there", "her garden faces south"):
        await memory.remember(note, user_id="ana")
    told = await memory.recall("Where is the party, in which garden?", explain=True)
    assert told.extensions["evidence"]["users"] == ["garden"]
    assert told[0].id == party


async def test_explain_says_what_each_leg_found(memory: Memory) -> None:
    await memory.remember("harbour lights", metadata={"speaker": "Mara"})
    await memory.remember("garden walls")
    hit = (await memory.recall("Mara harbour", min_relevance=0, explain=True))[0]
    assert hit.why is not None
    assert {"cosine", "keyword", "coverage", "blend", "confidence", "demoted"} <= hit.why.keys()
    assert hit.why["keyword"] > 0


@pytest.mark.parametrize("fusion", ["rrf", "max", "weighted"])
async def test_every_fusion_ranks_the_nearest_first(memory: Memory, fusion: str) -> None:
    near = await kept(memory, "harbour lights at night")
    await memory.remember("garden walls in spring")
    response = await memory.recall("harbour lights", min_relevance=0, fusion=fusion)
    assert (response[0].id, response.fusion_used.value) == (near, fusion)
    assert response[0].score >= response[-1].score


# -- the floor ----------------------------------------------------------------------------------------------------


async def test_a_higher_floor_never_lets_more_through(memory: Memory) -> None:
    for number in range(12):
        await memory.remember(f"note {number} of the harbour master on cargo")
    sizes: list[int] = []
    for floor in ("off", 0, 0.2, 0.5, 0.9, 1.0):
        response = await memory.recall("cargo of the harbour master", min_relevance=floor, k=20)
        assert all(hit.relevance >= response.extensions["min_relevance"] for hit in response)
        sizes.append(len(response))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 12


async def test_auto_is_never_stricter_than_strict(memory: Memory) -> None:
    await memory.remember("harbour lights")
    floors = [
        (await memory.recall("harbour", min_relevance=floor)).extensions["min_relevance"]
        for floor in ("off", "auto", "strict")
    ]
    assert floors == sorted(floors)
    assert floors[0] == 0


async def test_nothing_in_reach_is_an_empty_answer(memory: Memory) -> None:
    assert len(await memory.recall("anything")) == 0
    await memory.remember("something")
    assert len(await memory.recall("anything", user_id="nobody", min_relevance=0)) == 0


# -- how much -----------------------------------------------------------------------------------------------------


async def test_k_bounds_the_hits(memory: Memory) -> None:
    await memory.remember_many([f"harbour {number}" for number in range(30)])
    assert len(await memory.recall("harbour", k=1, min_relevance=0)) == 1
    assert len(await memory.recall("harbour", k=30, min_relevance=0)) == 30
    assert len(await memory.recall("harbour", k=1_000, min_relevance=0)) == 30


async def test_a_token_budget_keeps_whole_hits_in_order(memory: Memory) -> None:
    for number in range(4):
        await memory.remember(f"harbour {number} " + "x" * 30)
    whole = await memory.recall("harbour", min_relevance=0)
    some = await memory.recall("harbour", min_relevance=0, max_tokens=25)
    assert [hit.content for hit in some] == [hit.content for hit in whole[:2]]
    assert (some.extensions["truncated"], whole.extensions["truncated"]) == (True, False)


async def test_a_first_hit_that_is_too_long_is_cut_and_says_so(memory: Memory) -> None:
    await memory.remember("harbour " + "x" * 400)
    (hit,) = await memory.recall("harbour", min_relevance=0, max_tokens=5)
    assert (hit.content, hit.truncated) == ("harbour xxxxxxxxxxxx", True)


async def test_a_procedure_is_left_out_rather_than_cut(memory: Memory) -> None:
    machine = {
        "name": "harbour",
        "initial": "a",
        "states": ["a"],
        "transitions": [],
        "metadata": {"description": "y" * 400},
    }
    await memory.remember(machine, type="procedural")
    response = await memory.recall("harbour", min_relevance=0, max_tokens=5)
    assert (len(response), response.extensions["truncated"]) == (0, True)


# -- secrets ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def secret(memory: Memory) -> str:
    await memory.remember("the harbour gate is open")
    return await kept(
        memory,
        "the harbour gate code is 4711",
        metadata={"code": 4711},
        tags=["gate"],
        privacy_intent={"sensitivity": "secret"},
    )


async def test_a_secret_is_masked_unless_said_otherwise(memory: Memory, secret: str) -> None:
    hits = {hit.id: hit for hit in await memory.recall("harbour gate", min_relevance=0)}
    masked = hits[secret]
    assert (masked.content, dict(masked.metadata), masked.tags, dict(masked.details)) == (
        "[redacted]",
        {},
        (),
        {},
    )
    assert masked.redacted
    assert sum(hit.redacted for hit in hits.values()) == 1


async def test_of_a_masked_secret_it_is_not_explained_which_words_it_has(memory: Memory, secret: str) -> None:
    hits = {hit.id: hit for hit in await memory.recall("harbour gate", min_relevance=0, explain=True)}
    assert hits.pop(secret).why is None
    assert all(hit.why for hit in hits.values())


async def test_a_secret_can_be_left_out_or_shown_to_an_admin(memory: Memory, secret: str) -> None:
    assert secret not in await found(memory, "harbour gate", redact="omit")
    shown = {hit.id: hit for hit in await memory.recall("harbour gate", min_relevance=0, redact="none")}
    assert (shown[secret].content, shown[secret].redacted) == ("the harbour gate code is 4711", False)


async def test_a_filter_cannot_be_used_to_guess_what_the_mask_hides(memory: Memory, secret: str) -> None:
    assert await found(memory, "harbour gate", filter={"code": 4711}) == []
    assert await found(memory, "harbour gate", filter={"code": 4711}, redact="none") == [secret]


# -- as of --------------------------------------------------------------------------------------------------------


async def test_recall_as_of_a_position_sees_what_was_then(memory: Memory, clock: FixedClock) -> None:
    first = await memory.remember("harbour is closed")
    then = int(first.extensions["seq"])
    clock.move(1_000)
    await memory.remember("harbour is open", id=first.id)
    second = await kept(memory, "harbour is new")
    await memory.forget(ids=[first.id])
    assert await found(memory, "harbour") == [second]
    past = await memory.recall("harbour", as_of=then, min_relevance=0)
    assert [(hit.content, hit.version) for hit in past] == [("harbour is closed", 1)]
    assert past.extensions["as_of"] == past.extensions["seq"] == then
    changed = await memory.recall("harbour", as_of=then + 1, min_relevance=0)
    assert [hit.content for hit in changed] == ["harbour is open"]
    assert await found(memory, "harbour", as_of=1) == []


async def test_recall_as_of_a_moment_sees_what_was_then(memory: Memory, clock: FixedClock) -> None:
    early = await kept(memory, "harbour one")
    moment = datetime.fromtimestamp(clock() / 1_000, UTC).isoformat()
    clock.move(5_000)
    await memory.remember("harbour two")
    assert await found(memory, "harbour", as_of=moment) == [early]
    before = datetime.fromtimestamp(clock() / 1_000 - 3_600, UTC).isoformat()
    assert await found(memory, "harbour", as_of=before) == []


@pytest.mark.parametrize(
    ("as_of", "error", "reason"),
    [
        ("999", InvalidError, "bad_value"),
        ("2999-01-01T00:00:00Z", InvalidError, "bad_value"),
        ("2020-01-01T00:00:00", InvalidError, "bad_value"),
        ("yesterday", InvalidError, "bad_value"),
        ("-1", InvalidError, "bad_value"),
        ("run_01J", NotFoundError, "snapshot_unavailable"),
    ],
)
async def test_a_snapshot_that_is_none_is_refused(
    memory: Memory, as_of: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error) as refused:
        await memory.recall("x", as_of=as_of)
    assert refused.value.reason == reason  # type: ignore[attr-defined]  both have one


# -- hops ---------------------------------------------------------------------------------------------------------


async def test_turns_beside_each_other_and_one_subject_support_each_other(
    memory: Memory, clock: FixedClock
) -> None:
    turns: list[str] = []
    for number in range(3):
        clock.move(1)
        turns.append(await kept(memory, f"harbour turn {number}", session_id="s1"))
    about = [await kept(memory, f"harbour fact {n}", metadata={"subject": "Mara"}) for n in range(2)]
    hits = {hit.id: hit for hit in await memory.recall("harbour", hops=1, min_relevance=0)}
    assert hits[turns[1]].supporting == tuple(sorted((turns[0], turns[2])))
    assert hits[turns[0]].supporting == (turns[1],)
    assert hits[about[0]].supporting == (about[1],)


async def test_the_best_turn_leads_to_what_another_session_says_of_the_same(
    memory: Memory, clock: FixedClock
) -> None:
    for number in range(50):
        await kept(memory, f"note {number} of nothing", session_id=f"n{number}")
    clock.move(1)
    best = await kept(memory, "harbour day with the kayak", session_id="s1")
    plain = await kept(memory, "harbour walks feel rather slow", session_id="s2")
    led = await kept(memory, "harbour tours by kayak cost much", session_id="s3")

    async def asked(hops: int) -> dict[str, Any]:
        answer = await memory.recall("harbour day", hops=hops, k=50, min_relevance=0, explain=True)
        return {hit.id: hit for hit in answer}

    without, after = await asked(0), await asked(1)
    assert without.keys() == after.keys()
    assert all("hops" not in hit.why["blend"] for hit in without.values())
    assert after[led].why["blend"]["hops"] > 0 > after[plain].why["blend"]["hops"]
    assert list(after)[:2] == [best, led]


async def test_hops_over_nothing_found_are_harmless(memory: Memory) -> None:
    assert len(await memory.recall("harbour", hops=3)) == 0


# -- vectors ------------------------------------------------------------------------------------------------------


async def test_a_query_may_bring_its_vector(memory: Memory) -> None:
    words = WordEmbedder()
    near = await kept(memory, "sunflower seeds")
    await memory.remember("garden walls")
    given = {"model": words.model, "vector": words.vector("sunflower seeds")}
    assert (await found(memory, "zzz", embedding=given))[0] == near


async def test_without_an_embedder_recall_goes_by_words(opened: Any) -> None:
    memory: Memory = opened(embedder="none")
    record_id = await kept(memory, "the harbour pilot keeps a whistle")
    await memory.remember("garden walls")
    assert [hit.id for hit in await memory.recall("harbour whistle")] == [record_id]
    assert (await memory.statistics())["vectors"] == 0
    assert (await memory.verify()).holds


class Down(WordEmbedder):
    """An embedder that can be switched off."""

    is_down = True

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if self.is_down:
            raise BackendUnavailableError("The model is away.", reason="no_weights", hint="Fetch it.")
        return await super().embed(texts)


async def test_an_embedder_that_fails_leaves_keywords_and_warns_once(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Down()
    memory: Memory = opened(embedder=embedder)
    with caplog.at_level(logging.WARNING, "quipu"):
        first = await kept(memory, "the harbour pilot keeps a whistle")
        await memory.remember("garden walls")
        assert [hit.id for hit in await memory.recall("harbour whistle")] == [first]
    (warning,) = [record for record in caplog.records if record.name == "quipu.embedding"]
    assert "The model is away." in warning.getMessage()
    assert "Fetch it." in warning.getMessage()
    assert "harbour" not in warning.getMessage()
    assert (await memory.statistics())["vectors"] == 0
    embedder.is_down = False
    assert await memory.reembed() == 2
    assert (await memory.statistics())["vectors"] == 2


# -- what this ledger alone cannot do -----------------------------------------------------------------------------


async def test_a_quorum_of_more_backends_than_there_are_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidError) as refused:
        await memory.recall(RecallRequest(agent_id="ana", query="x", quorum_k=2))
    assert refused.value.reason == "quorum_unreachable"


async def test_a_recall_that_asks_for_approval_waits_for_it(memory: Memory) -> None:
    with pytest.raises(ForbiddenError) as refused:
        await memory.recall(RecallRequest(agent_id="ana", query="x", approval_required=True))
    assert refused.value.reason == "approval_pending"


class Stuck(WordEmbedder):
    """An embedder that never answers."""

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        await asyncio.Event().wait()
        return []


async def test_a_deadline_that_passes_is_an_error_not_an_empty_answer(opened: Any) -> None:
    memory: Memory = opened(embedder=Stuck())
    with pytest.raises(DeadlineError):
        await memory.recall(RecallRequest(agent_id="ana", query="x", deadline_ms=10))


async def test_a_deadline_that_is_kept_changes_nothing(memory: Memory) -> None:
    record_id = await kept(memory, "harbour")
    request = RecallRequest(agent_id="ana", query="harbour", deadline_ms=60_000, min_relevance=0)
    assert [hit.id for hit in await memory.recall(request)] == [record_id]
