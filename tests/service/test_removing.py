"""Forget, merge, expire, and what each leaves behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu import ConflictError, InvalidError, Memory, MergeStrategy, NotFoundError, RememberRequest
from quipu.model.record import MemoryType, State
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, ids, kept, standing, verifies

DAY = 86_400_000


# -- forget -------------------------------------------------------------------------------------------------------


async def test_forgetting_is_told_row_by_row_and_can_be_undone(memory: Memory) -> None:
    gone, stays = await kept(memory, "tea one"), await kept(memory, "tea two")
    answer = await memory.forget(ids=[gone, "mem_unknown"], reason="asked")
    assert (answer.forgotten_ids, answer.hard_delete) == ((gone,), False)
    assert [(row.store, row.count, row.error) for row in answer.stores] == [("sqlite", 1, None)]
    assert answer.extensions["not_found"] == ["mem_unknown"]
    assert await found(memory, "tea") == [stays]
    assert await ids(memory) == {stays}
    assert await ids(memory, states=["forgotten"]) == {gone}
    await memory.restore(gone, reason="a mistake")
    assert set(await found(memory, "tea")) == {gone, stays}
    assert [version.reason for version in await memory.history(gone)] == ["asked", "a mistake"]
    assert await verifies(memory)


async def test_forgetting_again_changes_nothing(memory: Memory) -> None:
    gone = await kept(memory, "tea")
    await memory.forget(ids=[gone])
    before = await standing(memory)
    again = await memory.forget(ids=[gone])
    assert (again.forgotten_ids, again.stores[0].count) == ((), 0)
    assert await standing(memory) == before


@pytest.mark.parametrize("hard_delete", [False, True])
async def test_a_dry_run_says_what_would_go_and_does_nothing(memory: Memory, hard_delete: bool) -> None:
    one = await kept(memory, "tea", metadata={"old": True})
    before = await standing(memory)
    answer = await memory.forget(filter={"old": True}, dry_run=True, hard_delete=hard_delete)
    assert (answer.forgotten_ids, answer.stores[0].count) == ((), 0)
    assert answer.extensions["ids"] == [one]
    assert await standing(memory) == before


async def test_ids_and_filter_are_a_union_inside_user_and_store(memory: Memory) -> None:
    await memory.create_store("attic")
    named = await kept(memory, "a", user_id="mara")
    matching = await kept(memory, "b", user_id="mara", tags=["old"])
    elsewhere = await kept(memory, "c", user_id="mara", tags=["old"], store="attic")
    theirs = await kept(memory, "d", user_id="bo", tags=["old"])
    answer = await memory.forget(ids=[named, theirs], filter={"tags": "old"}, user_id="mara", store="main")
    assert set(answer.forgotten_ids) == {named, matching}
    assert await ids(memory) == {elsewhere, theirs}


async def test_archived_records_can_be_forgotten(memory: Memory) -> None:
    one = await kept(memory, "tea")
    await memory.expire({"type": "semantic"}, action="archive")
    assert (await memory.forget(ids=[one])).forgotten_ids == (one,)
    assert await ids(memory, states=["live", "archived"]) == set()


async def test_erasure_takes_every_version_and_leaves_a_tombstone(memory: Memory, clock: FixedClock) -> None:
    one = await kept(memory, "tea", user_id="mara", tags=["t"])
    await memory.remember("more tea", id=one)
    await memory.forget(ids=[one], reason="why not")
    answer = await memory.forget(ids=[one], hard_delete=True)
    assert (answer.forgotten_ids, answer.hard_delete) == ((one,), True)
    assert answer.extensions["receipt"] == {"seq": answer.extensions["seq"], "erased": 1, "at": clock()}
    versions = await memory.history(one)
    assert [version.record.standing for version in versions] == [State.ERASED, State.ERASED]
    assert {version.record.content for version in versions} == {""}
    assert [version.reason for version in versions] == [None, None]
    assert await ids(memory, states=["forgotten"]) == set()
    for call in (memory.restore(one), memory.get(one), memory.get(one, as_of=2)):
        with pytest.raises(NotFoundError):
            await call
    assert await verifies(memory)


async def test_erasure_by_filter_reaches_the_forgotten_and_the_expired(
    memory: Memory, clock: FixedClock
) -> None:
    one = await kept(memory, "a", tags=["x"])
    await memory.forget(ids=[one])
    two = await kept(memory, "b", tags=["x"], expires_at=clock() + 1)
    clock.move(1)
    assert (await memory.forget(filter={"tags": "x"})).forgotten_ids == ()
    answer = await memory.forget(filter={"tags": "x"}, hard_delete=True)
    assert set(answer.forgotten_ids) == {one, two}


async def test_erasing_a_record_takes_a_staged_change_of_it_along(memory: Memory) -> None:
    one = await kept(memory, "tea")
    await memory.remember("tea, changed", id=one, approval_required=True)
    await memory.forget(ids=[one], hard_delete=True)
    assert await memory.proposals() == ()


async def test_erasing_by_filter_takes_a_batch_along_that_would_change_a_record(memory: Memory) -> None:
    one = await kept(memory, "tea", tags=["x"])
    other = await kept(memory, "coffee")
    for record_id in (one, other):
        change = {"content": f"{record_id} is changed", "id": record_id, "approval_required": True}
        await memory.remember_many([change, "cake"], atomic=True)
    await memory.forget(filter={"tags": "x"}, hard_delete=True)
    (waiting,) = await memory.proposals()
    assert waiting.request["record_ids"][0] == other


async def test_erasing_a_record_takes_along_what_is_said_where_its_removal_waits(memory: Memory) -> None:
    one, two, three = [await kept(memory, f"tea {n}") for n in range(3)]
    await memory.forget(ids=[one], reason="Mara asked", approval_required=True)
    await memory.merge(two, [one], approval_required=True)
    await memory.forget(ids=[one, three], reason="they are old", approval_required=True)
    filtered = await memory.forget(
        ids=[one], filter={"old": True}, reason="as these are", approval_required=True
    )
    await memory.forget(ids=[one], hard_delete=True)
    waiting = {one.id: one.request["reason"] for one in await memory.proposals()}
    assert sorted(waiting.values()) == ["as these are", "they are old"]
    assert filtered.extensions["proposal_id"] in waiting
    assert await verifies(memory)


@pytest.mark.parametrize("dry_run", [False, True])
async def test_who_erases_a_duplicate_is_told_where_a_merge_took_its_words(
    memory: Memory, dry_run: bool
) -> None:
    last = await kept(memory, "tea for all")
    one, two, best = await kept(memory, "tea"), await kept(memory, "cake"), await kept(memory, "jam")
    await memory.merge(one, [two], strategy="merge_content")
    await memory.remember("tea", id=one)
    await memory.merge(last, [one], strategy="merge_content")
    weak = await kept(memory, "a jam", confidence=0.1)
    await memory.merge(weak, [best], strategy="keep_highest_confidence")
    told = await memory.forget(ids=[two, best], hard_delete=True, dry_run=dry_run)
    assert told.extensions["warnings"] == [
        f"What {into} took from {source} when they were merged stays there: erase {into} too, if it is to go."
        for into, source in ((one, two), (weak, best))
    ]
    both = await memory.forget(ids=[one, two, weak, best], hard_delete=True, dry_run=True)
    assert "warnings" not in both.extensions


async def test_nobody_is_warned_where_a_merge_took_nothing(memory: Memory) -> None:
    one, two, three = await kept(memory, "tea"), await kept(memory, "old tea"), await kept(memory, "tea")
    await memory.merge(one, [two])
    await memory.merge(one, [three], strategy="merge_content")
    await kept(memory, "tea and cake", id=one)
    told = await memory.forget(ids=[two, three], hard_delete=True)
    assert set(told.forgotten_ids) == {two, three}
    assert "warnings" not in told.extensions


async def test_only_the_own_agent_user_and_store_reach_a_staged_write(memory: Memory) -> None:
    await memory.create_store("attic")
    held = await memory.remember("tea", user_id="mara", store="attic", approval_required=True)
    theirs = await memory.remember(
        RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="x", approval_required=True)
    )
    for given in ({"user_id": "bo"}, {"store": "main"}):
        answer = await memory.forget(ids=[held.id, theirs.id], hard_delete=True, **given)
        assert answer.forgotten_ids == ()
    answer = await memory.forget(ids=[held.id, theirs.id], hard_delete=True, user_id="mara", store="attic")
    assert answer.forgotten_ids == (held.id,)


@pytest.mark.parametrize("operation", ["forget", "merge", "expire"])
async def test_a_repeated_key_gives_the_first_answer_again(memory: Memory, operation: str) -> None:
    one, two = await kept(memory, "tea"), await kept(memory, "tea too")

    async def call(**changed: Any) -> Any:
        match operation:
            case "forget":
                return await memory.forget(ids=[one], idempotency_key="k", **changed)
            case "merge":
                return await memory.merge(one, [two], idempotency_key="k", **changed)
            case _:
                return await memory.expire({"type": "semantic"}, idempotency_key="k", **changed)

    first = await call()
    before = await standing(memory)
    assert await call() == first
    assert await standing(memory) == before
    changed = {
        "forget": {"hard_delete": True},
        "merge": {"strategy": "merge_content"},
        "expire": {"user_id": "x"},
    }
    with pytest.raises(ConflictError) as other:
        await call(**changed[operation])
    assert other.value.reason == "idempotency_key_mismatch"


class Recollecting(WordEmbedder):
    """An embedder that keeps what it has seen, until it is told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.seen.extend(texts)
        return await super().embed(texts)

    def clear(self) -> None:
        self.seen.clear()


async def test_the_embedder_forgets_what_is_erased_though_nobody_waits_for_it(
    opened: Any, tmp_path: Path
) -> None:
    embedder = Recollecting()
    memory = opened(tmp_path / "memory.db", embedder=embedder)
    gone = await kept(memory, "tea with mara")
    assert embedder.seen
    busy = apsw.Connection(str(tmp_path / "memory.db"))
    busy.execute("BEGIN IMMEDIATE")  # so that the erasure has to wait
    erasing = asyncio.create_task(memory.forget(ids=[gone], hard_delete=True))
    await asyncio.sleep(0.1)
    erasing.cancel()
    await asyncio.gather(erasing, return_exceptions=True)
    busy.execute("ROLLBACK")
    busy.close()
    assert embedder.seen == []
    async with asyncio.timeout(20):
        while await ids(memory, states=["live", "forgotten"]):
            pass


# -- merge --------------------------------------------------------------------------------------------------------


async def test_keep_canonical_leaves_the_canonical_as_it_is(memory: Memory) -> None:
    one = await kept(memory, "tea at noon", metadata={"a": 1}, confidence=0.3)
    two = await kept(memory, "tea at twelve", metadata={"a": 2}, confidence=0.9)
    answer = await memory.merge(one, [two])
    assert (answer.canonical, answer.merged_count, answer.stores) == (one, 1, ("sqlite",))
    assert answer.strategy_used is MergeStrategy.KEEP_CANONICAL
    assert (answer.extensions["canonical_id"], answer.extensions["merged_ids"]) == (one, [two])
    record = await memory.get(one)
    assert (record.version, record.content, record.confidence) == (1, "tea at noon", 0.3)
    with pytest.raises(NotFoundError) as gone:
        await memory.get(two)
    assert gone.value.hint == f"It was merged into {one}."
    assert (await memory.history(two))[0].record.merged_into == one
    await memory.restore(two)
    assert set(await found(memory, "tea")) == {one, two}
    assert await verifies(memory)


async def test_links_to_a_duplicate_lead_to_the_canonical(memory: Memory) -> None:
    one, two = await kept(memory, "harbour one"), await kept(memory, "harbour two")
    linked = await kept(memory, "harbour three", links=[{"to": two, "rel": "about"}])
    await memory.merge(one, [two])
    hits = {hit.id: hit for hit in await memory.recall("harbour", hops=1, min_relevance=0)}
    assert hits[linked].supporting == (one,)


async def test_merge_content_keeps_the_promises_of_every_text(memory: Memory, clock: FixedClock) -> None:
    one = await kept(memory, "tea", importance=0.2, expires_at=clock() + 2 * DAY, user_id="mara")
    clock.move(1)
    two = await kept(
        memory,
        "cake",
        importance=0.8,
        expires_at=clock() + DAY,
        source="web_page",
        user_id="mara",
        privacy_intent={"sensitivity": "secret"},
    )
    ends = clock() + DAY
    await memory.merge(one, [two], strategy="merge_content")
    record = await memory.get(one)
    assert (record.content, record.importance, record.expires_at) == ("tea\ncake", 0.8, ends)
    assert record.provenance.trust.value == "external"
    assert record.privacy is not None
    assert record.privacy.sensitivity is not None
    assert record.privacy.sensitivity.value == "secret"
    assert await found(memory, "cake", redact="none") == [one]


async def test_the_most_confident_text_moves_in_under_the_canonical_id(memory: Memory) -> None:
    one = await kept(memory, "tea", confidence=0.2)
    two = await kept(memory, "cake", confidence=0.9, tags=["sweet"])
    await memory.merge(one, [two], strategy="keep_highest_confidence")
    record = await memory.get(one)
    assert (record.content, record.confidence, record.tags) == ("cake", 0.9, ("sweet",))
    assert await found(memory, "cake") == [one]


async def test_names_of_entities_stand_for_records(memory: Memory) -> None:
    one = await kept(memory, "Mara", metadata={"entity_name": "Mara"})
    others = [await kept(memory, f"Mara {n}", metadata={"entity_name": "Mara B."}) for n in range(2)]
    answer = await memory.merge("Mara", ["Mara B.", "Mara C."])
    assert (answer.canonical, answer.merged_count) == ("Mara", 2)
    assert answer.extensions["canonical_id"] == one
    assert set(answer.extensions["merged_ids"]) == set(others)
    assert answer.extensions["not_found"] == ["Mara C."]


@pytest.mark.parametrize(
    "case", ["unknown", "empty", "forgotten", "archived", "expired", "pending", "foreign", "another agent's"]
)
async def test_a_canonical_that_is_not_there_changes_nothing(
    memory: Memory, clock: FixedClock, case: str
) -> None:
    duplicate = await kept(memory, "tea")
    canonical = {"unknown": "mem_unknown", "empty": "", "foreign": "mem0:abc"}.get(case)
    if case == "pending":
        canonical = (await memory.remember("x", approval_required=True)).id
    elif case == "another agent's":
        theirs = RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="x")
        canonical = (await memory.remember(theirs)).id
    elif canonical is None:
        canonical = await kept(memory, "x", tags=["c"], expires_at=clock() + 1 if case == "expired" else None)
        if case == "forgotten":
            await memory.forget(ids=[canonical])
        if case == "archived":
            await memory.expire({"type": "semantic"}, action="archive", filter={"tags": "c"})
        clock.move(1)
    before = await standing(memory)
    with pytest.raises(NotFoundError) as refused:
        await memory.merge(canonical, [duplicate])
    assert refused.value.reason == "canonical"
    assert await standing(memory) == before
    assert duplicate in await ids(memory)


async def test_an_ambiguous_name_is_refused(memory: Memory) -> None:
    for _ in range(2):
        await memory.remember("Mara", metadata={"entity_name": "Mara"})
    other = await kept(memory, "tea")
    with pytest.raises(ConflictError) as refused:
        await memory.merge("Mara", [other])
    assert refused.value.reason == "ambiguous_name"


async def test_duplicates_that_are_gone_are_skipped_and_named(memory: Memory) -> None:
    one, two, three = [await kept(memory, f"tea {n}") for n in range(3)]
    await memory.forget(ids=[two])
    answer = await memory.merge(one, [two, three, "mem_unknown", one, three])
    assert (answer.merged_count, answer.extensions["merged_ids"]) == (1, [three])
    assert answer.extensions["not_found"] == [two, "mem_unknown"]
    before = await standing(memory)
    assert (await memory.merge(one, [two, three])).merged_count == 0
    assert await standing(memory) == before


async def test_an_archived_duplicate_is_merged_too(memory: Memory) -> None:
    one = await kept(memory, "tea")
    two = await kept(memory, "old tea", tags=["old"])
    await memory.expire({"type": "semantic"}, action="archive", filter={"tags": "old"})
    assert (await memory.merge(one, [two], strategy="merge_content")).merged_count == 1
    assert (await memory.get(one)).content == "tea\nold tea"


@pytest.mark.parametrize(
    ("canonical", "duplicate", "strategy", "reason"),
    [
        ({"user_id": "mara"}, {"user_id": "bo"}, "keep_canonical", "scope_mismatch"),
        ({"user_id": "mara"}, {}, "merge_content", "scope_mismatch"),
        ({}, {"store": "attic"}, "keep_canonical", "scope_mismatch"),
        ({}, {"type": "episodic"}, "merge_content", "type_mismatch"),
        ({}, {"type": "emotional"}, "keep_highest_confidence", "type_mismatch"),
        ({"type": "procedural"}, {"type": "procedural"}, "merge_content", "type_mismatch"),
        ({}, {"type": "episodic"}, "keep_canonical", None),
        ({"type": "procedural"}, {"type": "procedural"}, "keep_canonical", None),
        ({"type": "procedural"}, {"type": "procedural", "confidence": 0.5}, "keep_highest_confidence", None),
    ],
)
async def test_what_may_be_merged_with_what(
    memory: Memory, canonical: dict[str, Any], duplicate: dict[str, Any], strategy: str, reason: str | None
) -> None:
    await memory.create_store("attic")
    content = json.dumps({"name": "m", "initial": "a", "states": ["a"], "transitions": []})
    one = await kept(memory, content, **canonical)
    two = await kept(memory, content, **duplicate)
    before = await standing(memory)
    if reason is None:
        assert (await memory.merge(one, [two], strategy=strategy)).merged_count == 1
        return
    with pytest.raises(ConflictError) as refused:
        await memory.merge(one, [two], strategy=strategy)
    assert refused.value.reason == reason
    assert await standing(memory) == before


async def test_a_merge_that_would_be_too_large_is_refused(memory: Memory) -> None:
    one, two = await kept(memory, "a" * 600_000), await kept(memory, "b" * 600_000)
    before = await standing(memory)
    with pytest.raises(InvalidError) as refused:
        await memory.merge(one, [two], strategy="merge_content")
    assert refused.value.reason == "too_large"
    many = [await kept(memory, f"t{n}", tags=[f"{n}-{i}" for i in range(40)]) for n in range(2)]
    with pytest.raises(InvalidError):
        await memory.merge(many[0], many[1:], strategy="merge_content")
    assert (await standing(memory))[2] == before[2] + 2


async def test_a_merge_can_be_tried_first(memory: Memory) -> None:
    one, two = await kept(memory, "tea"), await kept(memory, "cake")
    before = await standing(memory)
    answer = await memory.merge(one, [two], strategy="merge_content", dry_run=True)
    assert (answer.merged_count, answer.extensions["merged_ids"]) == (0, [two])
    assert await standing(memory) == before


async def test_a_merge_keeps_a_demotion(memory: Memory) -> None:
    one = await kept(memory, "tea", metadata={"n": 1})
    await memory.expire({"type": "semantic"}, action="demote")
    two = await kept(memory, "tea", metadata={"n": 2})
    await memory.merge(one, [two], strategy="merge_content")
    (hit,) = await memory.recall("tea", min_relevance=0)
    assert (hit.id, hit.demoted, dict(hit.metadata)) == (one, True, {"n": 2})
    assert await verifies(memory)


# -- expire -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def aged(memory: Memory, clock: FixedClock) -> dict[str, str]:
    named: dict[str, str] = {}
    named["old"] = await kept(memory, "tea old", user_id="mara")
    named["old event"] = await kept(memory, "tea old event", type="episodic")
    clock.move(40 * DAY)
    named["doubtful"] = await kept(memory, "tea doubtful", confidence=0.2, tags=["x"])
    await memory.recall("old", types=["semantic"], k=1, min_relevance=0)
    clock.move(DAY)
    named["fresh"] = await kept(memory, "tea fresh")
    return named


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        ({"older_than_days": 41}, {}, {"old", "old event"}),
        ({"older_than_days": 42}, {}, set()),
        ({"older_than_days": 1}, {}, {"old", "old event", "doubtful"}),
        ({"type": "episodic"}, {}, {"old event"}),
        ({"confidence_below": 0.5}, {}, {"doubtful"}),
        ({"confidence_below": 0.2}, {}, set()),
        ({"no_recall_in_days": 30}, {}, {"old event"}),
        ({"older_than_days": 30, "type": "semantic"}, {}, {"old"}),
        ({"older_than_days": 30}, {"user_id": "mara"}, {"old"}),
        ({"older_than_days": 1}, {"filter": {"tags": "x"}}, {"doubtful"}),
        ({"older_than_days": 1}, {"store": "main"}, {"old", "old event", "doubtful"}),
    ],
)
async def test_what_a_policy_matches(
    memory: Memory, aged: dict[str, str], policy: Any, given: dict[str, Any], expected: set[str]
) -> None:
    answer = await memory.expire(policy, dry_run=True, **given)
    assert answer.matched_count == 0
    assert set(answer.extensions["ids"]) == {aged[name] for name in expected}
    done = await memory.expire(policy, reason="too old", **given)
    assert done.matched_count == len(expected)
    assert await ids(memory) == {record_id for name, record_id in aged.items() if name not in expected}
    assert await verifies(memory)


@pytest.mark.parametrize("action", ["forget", "archive", "demote"])
async def test_each_action_can_be_undone(memory: Memory, action: str) -> None:
    one = await kept(memory, "tea")
    before = (await memory.recall("tea", min_relevance=0))[0]
    answer = await memory.expire({"type": "semantic"}, action=action, reason="spring cleaning")
    assert (answer.matched_count, answer.action_taken.value, answer.stores) == (1, action, ("sqlite",))
    assert await ids(memory, states=["forgotten" if action == "forget" else "archived"]) == (
        set() if action == "demote" else {one}
    )
    again = await memory.expire({"type": "semantic"}, action=action)
    assert again.matched_count == 0
    hits = await memory.recall("tea", min_relevance=0)
    if action == "demote":
        assert (hits[0].demoted, round(hits[0].score / before.score, 6)) == (True, 0.25)
    else:
        assert len(hits) == 0
    answer = await memory.restore(one)
    assert answer.extensions["outcome"] == "restored"
    back = (await memory.recall("tea", min_relevance=0))[0]
    assert (back.id, back.demoted, back.score) == (one, False, before.score)
    assert await verifies(memory)


async def test_an_update_lifts_a_demotion(memory: Memory) -> None:
    one = await kept(memory, "tea")
    await memory.expire({"type": "semantic"}, action="demote")
    await memory.remember("tea again", id=one)
    assert not (await memory.recall("tea", min_relevance=0))[0].demoted


async def test_sweeping_closes_what_has_expired(memory: Memory, clock: FixedClock) -> None:
    ends = [await kept(memory, f"tea {n}", expires_at=clock() + 10) for n in range(3)]
    stays = await kept(memory, "tea")
    assert await memory.sweep() == 0
    clock.move(10)
    assert await memory.sweep() == 3
    assert await memory.sweep() == 0
    assert await ids(memory) == {stays}
    assert (await memory.history(ends[0]))[0].record.ending == "expired"
    assert await verifies(memory)
