"""Writing: new memories, changes by id, batches."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from quipu import ConflictError, InvalidError, Link, Memory, NotFoundError, RememberRequest
from quipu.model.record import MemoryType, Trust
from quipu.testing.builders import FixedClock
from tests.service.looks import found, ids, kept, standing, verifies

MACHINE = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "labelled"],
    "transitions": [{"trigger": "print_label", "source": "asked", "dest": "labelled"}],
    "metadata": {"description": "how to send something back"},
}


async def test_a_new_memory_is_answered_with_id_time_place_and_version(
    memory: Memory, clock: FixedClock
) -> None:
    answer = await memory.remember("Mara is vegetarian", user_id="mara")
    assert answer.id.startswith("mem_")
    assert (answer.stored_at, answer.stores) == (clock(), ("sqlite",))
    assert (answer.pending_approval, answer.approval_url) == (False, None)
    assert answer.extensions == {"seq": 2, "version": 1, "outcome": "created"}
    assert await found(memory, "vegetarian") == [answer.id]


async def test_everything_given_is_kept_with_the_record(memory: Memory, clock: FixedClock) -> None:
    target = await kept(memory, "the kitchen")
    record_id = await kept(
        memory,
        "Mara cooks",
        type="episodic",
        user_id="mara",
        session_id="s1",
        metadata={"entity_name": "Mara", "n": [1, {"x": None}]},
        confidence=0.25,
        importance=0.75,
        source="web_page",
        expires_at=clock() + 1_000,
        tags=["food"],
        links=[{"to": target, "rel": "at"}, Link(target, "near")],
        event_time=clock() - 5,
        location="Lima",
        participants=["Mara"],
        privacy_intent={"sensitivity": "confidential", "share_with": ["bo"], "consent_id": "c1"},
    )
    record = await memory.get(record_id)
    assert (record.type, record.user_id, record.session_id) == (MemoryType.EPISODIC, "mara", "s1")
    assert json.loads(json.dumps(record.metadata)) == {"entity_name": "Mara", "n": [1, {"x": None}]}
    assert (record.confidence, record.importance, record.source) == (0.25, 0.75, "web_page")
    assert (record.tags, record.links) == (("food",), (Link(target, "at"), Link(target, "near")))
    assert dict(record.details) == {"event_time": clock() - 5, "location": "Lima", "participants": ["Mara"]}
    assert record.expires_at == clock() + 1_000
    assert record.provenance.subject == "Mara"
    assert record.provenance.trust is Trust.EXTERNAL  # a web page is nobody's own words
    assert record.privacy is not None
    assert (record.privacy.share_with, record.privacy.consent_id) == (("bo",), "c1")


async def test_what_is_not_said_has_the_defaults(memory: Memory) -> None:
    record = await memory.get(await kept(memory, "plain"))
    assert (record.confidence, record.importance, record.source, record.expires_at) == (1.0, None, None, None)
    assert (record.user_id, record.session_id, record.tags, record.links) == (None, None, (), ())
    assert record.provenance.trust is Trust.USER


@pytest.mark.parametrize("form", ["object", "text"])
async def test_a_procedure_is_kept_verbatim_and_found_by_its_words(memory: Memory, form: str) -> None:
    content: Any = MACHINE if form == "object" else json.dumps(MACHINE)
    record_id = await kept(memory, content, type="procedural")
    for query in ("return parcel", "print label", "labelled", "send something back"):
        hits = await memory.recall(query, min_relevance=0)
        assert [(hit.id, hit.content) for hit in hits] == [
            (record_id, {**MACHINE, "current": MACHINE["initial"]})
        ]
    assert await verifies(memory)


async def test_tags_in_the_metadata_are_the_tags_of_the_record(memory: Memory) -> None:
    record = await memory.get(await kept(memory, "x", metadata={"tags": ["a", "b", "a"]}))
    assert record.tags == ("a", "b")
    assert dict(record.metadata) == {"tags": ["a", "b", "a"]}
    both = await memory.get(await kept(memory, "x", metadata={"tags": ["a"]}, tags=["a"]))
    assert both.tags == ("a",)
    other = await memory.get(await kept(memory, "x", metadata={"tags": [1, "a"]}))
    assert other.tags == ()


async def test_an_expired_write_is_accepted_and_never_seen(memory: Memory, clock: FixedClock) -> None:
    record_id = await kept(memory, "too late", expires_at=clock())
    assert await found(memory, "late") == []
    with pytest.raises(NotFoundError):
        await memory.get(record_id)


async def test_retain_ends_a_memory_at_the_earlier_of_both(memory: Memory, clock: FixedClock) -> None:
    for retain, expires_at, expected in (
        ("P1D", None, clock() + 86_400_000),
        ("12h", clock() + 5, clock() + 5),
        ("session", None, clock() + 86_400_000),
        ("forever", None, None),
    ):
        record = await memory.get(
            await kept(memory, "x", privacy_intent={"retain": retain}, expires_at=expires_at)
        )
        assert record.expires_at == expected


# -- changing by id -----------------------------------------------------------------------------------------------


async def full(memory: Memory) -> str:
    return await kept(
        memory,
        "tea at noon",
        metadata={"a": 1, "b": 2},
        tags=["t"],
        confidence=0.5,
        importance=0.5,
        source="user",
        session_id="s1",
        user_id="mara",
    )


async def test_overwrite_replaces_everything_but_scope_type_and_birth(
    memory: Memory, clock: FixedClock
) -> None:
    record_id = await full(memory)
    born = clock()
    clock.move(5)
    answer = await memory.remember("coffee at dawn", id=record_id, metadata={"c": 3})
    assert answer.id == record_id
    assert (answer.extensions["version"], answer.extensions["outcome"]) == (2, "updated")
    record = await memory.get(record_id)
    assert (record.content, dict(record.metadata), record.tags) == ("coffee at dawn", {"c": 3}, ())
    assert (record.confidence, record.importance, record.source) == (1.0, None, None)
    assert (record.user_id, record.session_id, record.created_at, record.updated_at) == (
        "mara",
        "s1",
        born,
        clock(),
    )
    assert (await memory.recall("coffee dawn", min_relevance=0))[0].content == "coffee at dawn"
    assert await verifies(memory)


async def test_merge_changes_the_text_and_keeps_what_is_not_given(memory: Memory) -> None:
    record_id = await full(memory)
    await memory.remember("coffee", id=record_id, update_strategy="merge", metadata={"b": 9, "c": 3})
    record = await memory.get(record_id)
    assert record.content == "coffee"
    assert dict(record.metadata) == {"a": 1, "b": 9, "c": 3}
    assert (record.tags, record.confidence, record.importance, record.source) == (("t",), 0.5, 0.5, "user")


@pytest.mark.parametrize("strategy", ["append", "merge"])
async def test_what_is_added_makes_nothing_that_could_not_be_written_at_once(
    memory: Memory, strategy: str
) -> None:
    half = {"a": "x" * 200_000} if strategy == "merge" else {}
    text = "y" * 700_000 if strategy == "append" else "y"
    record_id = (await memory.remember(text, metadata=half)).id
    with pytest.raises(InvalidError) as refused:
        await memory.remember(
            text, id=record_id, update_strategy=strategy, metadata={"b": half["a"]} if half else None
        )
    assert refused.value.faults[0].reason == "too_large"
    assert refused.value.faults[0].pointer == ("/content" if strategy == "append" else "/metadata")
    assert (await memory.get(record_id)).version == 1


async def test_append_joins_with_one_newline_and_keeps_what_is_not_given(memory: Memory) -> None:
    record_id = await full(memory)
    await memory.remember("and cake", id=record_id, update_strategy="append", tags=["u"], confidence=0.6)
    record = await memory.get(record_id)
    assert record.content == "tea at noon\nand cake"
    assert (dict(record.metadata), record.tags, record.confidence) == ({"a": 1, "b": 2}, ("u",), 0.6)
    assert await found(memory, "cake") == [record_id]


async def test_a_change_of_tags_alone_keeps_text_and_vector_searchable(memory: Memory) -> None:
    record_id = await kept(memory, "tea at noon", metadata={"n": 1})
    await memory.remember("tea at noon", id=record_id, metadata={"n": 2})
    assert await found(memory, "tea noon", filter={"n": 2}) == [record_id]
    await memory.remember("tea at noon", id=record_id, tags=["drinks"])
    assert await found(memory, "drinks") == [record_id]
    assert await verifies(memory)


async def test_if_version_lets_only_one_of_two_changes_through(memory: Memory) -> None:
    record_id = await full(memory)
    await memory.remember("first", id=record_id, if_version=1)
    with pytest.raises(ConflictError) as late:
        await memory.remember("second", id=record_id, if_version=1)
    assert late.value.reason == "version_mismatch"
    assert (await memory.get(record_id)).content == "first"


async def test_a_guarded_change_that_is_repeated_by_its_key_is_answered_again(memory: Memory) -> None:
    record_id = await full(memory)
    for _ in range(2):
        answer = await memory.remember("first", id=record_id, if_version=1, idempotency_key="k")
        assert answer.extensions["version"] == 2
    with pytest.raises(ConflictError) as late:
        await memory.remember("first", id=record_id, if_version=1, idempotency_key="another")
    assert late.value.reason == "version_mismatch"
    assert len(await memory.history(record_id)) == 2


async def test_the_type_of_a_record_cannot_be_changed(memory: Memory) -> None:
    record_id = await full(memory)
    with pytest.raises(ConflictError) as refused:
        await memory.remember("x", id=record_id, type="episodic")
    assert refused.value.reason == "type_mismatch"


@pytest.mark.parametrize("ending", ["unknown", "forgotten", "expired", "other user"])
async def test_what_is_not_there_cannot_be_changed(memory: Memory, clock: FixedClock, ending: str) -> None:
    record_id = await kept(
        memory, "x", user_id="mara", expires_at=clock() + 10 if ending == "expired" else None
    )
    if ending == "forgotten":
        await memory.forget(ids=[record_id])
    clock.move(10)
    with pytest.raises(NotFoundError) as gone:
        await memory.remember(
            "y",
            id="mem_unknown" if ending == "unknown" else record_id,
            user_id="bo" if ending == "other user" else None,
        )
    assert gone.value.reason == "record"


async def test_a_change_brings_an_archived_record_back_to_life(memory: Memory) -> None:
    record_id = await kept(memory, "old hat")
    await memory.expire({"type": "semantic"}, action="archive")
    await memory.remember("old hat", id=record_id)
    assert await found(memory, "hat") == [record_id]
    assert await verifies(memory)


async def test_changes_of_one_record_at_once_all_arrive(memory: Memory) -> None:
    record_id = await kept(memory, "start")
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(memory.remember(f"line {number}", id=record_id, update_strategy="append"))
    record = await memory.get(record_id)
    assert record.version == 41
    assert set(record.content.split("\n")) == {"start", *(f"line {number}" for number in range(40))}


# -- links, likeness, idempotency ---------------------------------------------------------------------------------


async def test_a_link_out_of_reach_is_refused(memory: Memory, opened: Any) -> None:
    theirs = (await memory.remember(RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="x"))).id
    before = await standing(memory)
    for target in (theirs, "mem_unknown"):
        with pytest.raises(InvalidError) as refused:
            await memory.remember("y", links=[Link(target, "about")])
        assert refused.value.faults[0].pointer == "/links/0/to"
    assert await standing(memory) == before


async def test_near_duplicates_are_named_when_asked_for(memory: Memory, opened: Any) -> None:
    first = await kept(memory, "Mara likes green tea")
    assert "similar" not in (await memory.remember("Mara likes green tea")).extensions
    answer = await memory.remember("Mara likes green tea", find_similar=True)
    similar = answer.extensions["similar"]
    assert {item["id"] for item in similar} >= {first}
    assert all(item["similarity"] >= 0.85 for item in similar)
    assert "similar" not in (await memory.remember("trains run late", find_similar=True)).extensions
    blind = opened(embedder="none")
    await blind.remember("Mara likes green tea")
    assert "similar" not in (await blind.remember("Mara likes green tea", find_similar=True)).extensions


async def test_a_key_works_once_and_for_a_day(memory: Memory, clock: FixedClock) -> None:
    first = await memory.remember("pay the bill", idempotency_key="k")
    again = await memory.remember("pay the bill", idempotency_key="k")
    assert again == replace(first, is_replayed=True)
    with pytest.raises(ConflictError) as other:
        await memory.remember("pay another bill", idempotency_key="k")
    assert other.value.reason == "idempotency_key_mismatch"
    clock.move(86_400_001)
    assert (await memory.remember("pay the bill", idempotency_key="k")).id != first.id


# -- many at once -------------------------------------------------------------------------------------------------


async def test_a_batch_answers_in_order_with_errors_in_their_place(memory: Memory) -> None:
    target = await kept(memory, "target")
    answers = await memory.remember_many(
        [
            "plain text",
            {"content": ""},
            {"content": "with a key", "idempotency_key": "k"},
            {"content": "change", "id": target},
            {"content": "nowhere", "store": "attic"},
            {"content": "linked", "links": [{"to": target, "rel": "about"}]},
            {"content": "lost", "id": "mem_unknown"},
            RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="a request", confidence=7.0),
            RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="the last"),
        ]
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == [
        "RememberResponse",
        "InvalidError",
        "RememberResponse",
        "RememberResponse",
        "NotFoundError",
        "RememberResponse",
        "NotFoundError",
        "InvalidError",
        "RememberResponse",
    ]
    contents = {record.content for record in (await memory.list()).records}
    assert contents == {"plain text", "with a key", "change", "linked", "the last"}
    assert await verifies(memory)


async def test_a_batch_is_one_entry_per_agent_and_store(memory: Memory) -> None:
    await memory.create_store("attic")
    before = (await standing(memory))[0]
    await memory.remember_many(
        [{"content": f"n {number}", "store": "attic" if number % 2 else "main"} for number in range(40)]
    )
    assert (await standing(memory))[0] == before + 2
    assert len(await ids(memory)) == 40


async def test_an_empty_batch_writes_nothing(memory: Memory) -> None:
    before = await standing(memory)
    assert await memory.remember_many([]) == []
    assert await memory.remember_many([], atomic=True) == []
    assert await standing(memory) == before


@pytest.mark.parametrize(
    ("item", "error", "pointer"),
    [
        ({"content": ""}, InvalidError, "/items/1/content"),
        ({"content": "x", "confidence": 2}, InvalidError, "/items/1/confidence"),
        (
            RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=""),
            InvalidError,
            "/items/1/content",
        ),
        ({"content": "x", "store": "attic"}, NotFoundError, "/items/1"),
        ({"content": "x", "id": "mem_1"}, NotFoundError, "/items/1"),
        ({"content": "x", "links": [{"to": "mem_1", "rel": "r"}]}, InvalidError, "/items/1/links/0/to"),
    ],
)
async def test_an_atomic_batch_is_all_or_nothing(
    memory: Memory, item: Any, error: type[Exception], pointer: str | None
) -> None:
    await memory.remember("already there")
    before = await standing(memory)
    with pytest.raises(error) as refused:
        await memory.remember_many(["good", item, "better"], atomic=True)
    if pointer is not None:
        assert refused.value.faults[0].pointer == pointer  # type: ignore[attr-defined]  InvalidError has faults
    assert await standing(memory) == before
    answers = await memory.remember_many(["good", "better"], atomic=True)
    assert len({answer.id for answer in answers if not isinstance(answer, Exception)}) == 2


async def test_a_batch_may_bring_its_vectors(memory: Memory) -> None:
    from quipu.testing.embedders import WordEmbedder

    words = WordEmbedder()
    vector = words.vector("sunflower")
    answers = await memory.remember_many(
        [{"content": "a field", "embedding": {"model": words.model, "vector": vector}}, "a barn"]
    )
    assert (await found(memory, "sunflower"))[0] == answers[0].id


async def test_the_paper_s_words_are_accepted_as_json(memory: Memory) -> None:
    answer = await memory.submit("remember", {"type": "semantic", "content": "a fact"})
    hits = await memory.submit("recall", {"query": "fact", "min_relevance": 0})
    assert [hit.id for hit in hits] == [answer.id]
    other = await memory.submit("remember", {"type": "semantic", "content": "a fact."})
    merged = await memory.submit("merge", {"canonical": answer.id, "duplicates": [other.id]})
    assert merged.merged_count == 1
    assert (await memory.submit("expire", {"policy": {"older_than_days": 1}})).matched_count == 0
    assert (await memory.submit("forget", {"ids": [answer.id]})).forgotten_ids == (answer.id,)
    with pytest.raises(InvalidError) as unknown:
        await memory.submit("remember_batch", {"items": []})
    assert unknown.value.faults[0].pointer == "/operation"
