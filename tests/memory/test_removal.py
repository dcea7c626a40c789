"""Forgetting, erasing, restoring, merging, expiring."""

import asyncio
from typing import Any

import pytest

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from quipu.memory.operations import (
    CREATE_STORE,
    DELETE_STORE,
    EXPIRE,
    FORGET,
    GET,
    HISTORY,
    LIST,
    LIST_STORES,
    MERGE,
    RECALL,
    REMEMBER,
    RESTORE,
    UPDATE,
)
from quipu.model.principal import Permission
from tests.fixtures.memories import START, TestMemory
from tests.ledger.builders import faults

DAY = 86_400_000


async def kept(memory: TestMemory, content: str, **fields: Any) -> str:
    return (await memory(REMEMBER, content=content, **fields)).id


async def there(memory: TestMemory) -> list[str]:
    return [record.content for record in (await memory(LIST, limit=1000)).records]


async def test_what_is_forgotten_can_be_restored(memory: TestMemory) -> None:
    one = await kept(memory, "Ana lives in Lisbon")
    gone = await memory(FORGET, ids=[one, "mem_nowhere"], reason="asked for it")
    assert (gone.forgotten_ids, gone.not_found, gone.hard_delete) == ((one,), ("mem_nowhere",), False)
    assert gone.stores[0].model_dump() == {"store": "sqlite", "count": 1, "error": None}
    assert await there(memory) == []
    history = await memory(HISTORY, id=one)
    assert (history.versions[0].state, history.versions[0].reason) == ("forgotten", "asked for it")
    await memory(RESTORE, id=one)
    assert await there(memory) == ["Ana lives in Lisbon"]
    assert (await memory(RECALL, query="Ana lives in Lisbon", min_relevance="off"))[0].id == one
    with pytest.raises(ConflictError):
        await memory(RESTORE, id=one)


async def test_nothing_is_forgotten_without_a_scope(memory: TestMemory) -> None:
    for fields in ({}, {"ids": []}, {"filter": {}}, {"ids": [], "filter": {}}):
        with pytest.raises(InvalidError) as refused:
            await memory(FORGET, **fields)
        assert refused.value.reason == "no_scope"


async def test_a_filter_forgets_all_that_fit_and_an_unknown_name_is_refused(memory: TestMemory) -> None:
    for number in range(6):
        await kept(memory, f"fact {number}", tags=["old"] if number % 2 else [], metadata={"n": number})
    tried = await memory(FORGET, filter={"tags": "old"}, dry_run=True)
    assert (len(tried.forgotten_ids), tried.seq) == (3, None)
    await memory(FORGET, filter={"$and": [{"tags": "old"}, {"metadata.n": {"$gt": 1}}]})
    assert sorted(await there(memory)) == ["fact 0", "fact 1", "fact 2", "fact 4"]
    with pytest.raises(InvalidError) as refused:
        await memory(FORGET, filter={"colour": "red"})
    assert refused.value.reason == "unknown_field"


async def test_an_erasure_reaches_every_version_and_what_was_made_of_it(memory: TestMemory) -> None:
    one = await kept(memory, "secret plan A")
    await memory(UPDATE, id=one, content="secret plan B")
    await kept(
        memory, "summary of the plan", source="consolidation", links=[{"to": one, "rel": "derived_from"}]
    )
    written = await kept(memory, "my own words", links=[{"to": one, "rel": "derived_from"}])
    gone = await memory(FORGET, ids=[one], hard_delete=True)
    assert len(gone.forgotten_ids) == 2
    assert gone.receipt.erased == 2
    assert await there(memory) == ["my own words"]
    assert (await memory(GET, id=written)).content == "my own words"
    history = await memory(HISTORY, id=one)
    assert [(one.state, one.content) for one in history.versions] == [("erased", ""), ("erased", "")]
    with pytest.raises(NotFoundError):
        await memory(RESTORE, id=one)
    assert await faults(memory.ledger, "default") == []


async def test_an_erasure_warns_of_words_that_a_merge_has_taken_elsewhere(memory: TestMemory) -> None:
    one, two = await kept(memory, "Ana lives in Lisbon"), await kept(memory, "Ana has a dog")
    await memory(MERGE, canonical=one, duplicates=[two], strategy="merge_content")
    gone = await memory(FORGET, ids=[two], hard_delete=True)
    assert len(gone.warnings) == 1
    assert one in gone.warnings[0]


async def test_erasing_needs_an_admin(memory: TestMemory) -> None:
    one = await kept(memory, "x")
    deleter = memory.named(permissions=frozenset({Permission.DELETE}))
    with pytest.raises(ForbiddenError):
        await memory(FORGET, deleter, ids=[one], hard_delete=True)
    assert (await memory(FORGET, deleter, ids=[one])).forgotten_ids == (one,)


# -- merge ---------------------------------------------------------------------------------------------------------------


async def test_merge_content_keeps_the_promises_of_every_text(memory: TestMemory) -> None:
    first = await kept(
        memory,
        "Ana lives in Lisbon",
        tags=["a"],
        metadata={"x": 1},
        confidence=0.5,
        expires_at=START + 5 * DAY,
    )
    memory.clock.now += 10
    second = await kept(
        memory,
        "Ana has a dog",
        tags=["b"],
        metadata={"x": 2, "y": 3},
        confidence=0.75,
        source="web_page",
        privacy_intent={"sensitivity": "confidential", "share_with": ["b"]},
        expires_at=START + 3 * DAY,
    )
    done = await memory(MERGE, canonical=first, duplicates=[second, "mem_nowhere"], strategy="merge_content")
    assert (done.merged_count, done.merged_ids, done.not_found) == (1, (second,), ("mem_nowhere",))
    shown = await memory(GET, id=first)
    assert shown.content == "Ana lives in Lisbon\nAna has a dog"
    assert (shown.tags, shown.metadata, shown.confidence) == (("a", "b"), {"x": 2, "y": 3}, 0.75)
    assert shown.expires_at == START + 3 * DAY
    assert (shown.privacy_intent.sensitivity, shown.privacy_intent.share_with) == ("confidential", ("b",))
    assert shown.provenance.trust == "external"
    with pytest.raises(NotFoundError) as refused:
        await memory(GET, id=second)
    assert first in (refused.value.hint or "")
    await memory(RESTORE, id=second)
    assert len(await there(memory)) == 2


async def test_what_a_text_says_already_is_not_added_and_a_part_of_a_word_says_nothing(
    memory: TestMemory,
) -> None:
    base = await kept(memory, "Bo likes Anastasia")
    others = [await kept(memory, text) for text in ("Bo likes Ana", "likes Anastasia", "Bo likes Anastasia")]
    await memory(MERGE, canonical=base, duplicates=others, strategy="merge_content")
    assert (await memory(GET, id=base)).content == "Bo likes Anastasia\nBo likes Ana"


async def test_the_order_of_duplicates_never_matters(memory: TestMemory) -> None:
    results: list[str] = []
    for order in ([1, 2, 3], [3, 1, 2]):
        base = await kept(memory, "base")
        others = [await kept(memory, f"other {number}") for number in (1, 2, 3)]
        await memory(
            MERGE, canonical=base, duplicates=[others[n - 1] for n in order], strategy="merge_content"
        )
        results.append((await memory(GET, id=base)).content)
    assert results[0] == results[1]


async def test_the_most_confident_text_wins_under_the_canonical_id(memory: TestMemory) -> None:
    """Under the promises that were made for either: to whom it is shown, how long it lasts; and as trusted as it is."""
    for promises in ((DAY, "confidential", 2 * DAY, "internal"), (2 * DAY, "internal", DAY, "confidential")):
        first = await kept(
            memory,
            "weak",
            confidence=0.25,
            expires_at=START + promises[0],
            privacy_intent={"sensitivity": promises[1]},
        )
        second = await kept(
            memory,
            "strong",
            source="web_page",
            expires_at=START + promises[2],
            privacy_intent={"sensitivity": promises[3]},
        )
        await memory(MERGE, canonical=first, duplicates=[second], strategy="keep_highest_confidence")
        shown = await memory(GET, id=first)
        assert (shown.content, shown.provenance.trust) == ("strong", "external")
        assert (shown.expires_at, shown.privacy_intent.sensitivity) == (START + DAY, "confidential")


async def test_names_stand_for_ids_and_several_of_a_name_are_ambiguous(memory: TestMemory) -> None:
    one = await kept(memory, "Ana", metadata={"entity_name": "ana"})
    two = await kept(memory, "Anna", metadata={"entity_name": "anna"})
    done = await memory(MERGE, canonical="ana", duplicates=["anna"])
    assert (done.canonical, done.canonical_id, done.merged_ids) == ("ana", one, (two,))
    await kept(memory, "Ana again", metadata={"entity_name": "ana"})
    with pytest.raises(ConflictError) as refused:
        await memory(MERGE, canonical="ana", duplicates=[two])
    assert refused.value.reason == "ambiguous_name"
    with pytest.raises(NotFoundError):
        await memory(MERGE, canonical="nobody", duplicates=[one])


async def test_users_and_types_are_not_mixed(memory: TestMemory) -> None:
    base = await kept(memory, "base", user_id="ana")
    other = await kept(memory, "other", user_id="bob")
    with pytest.raises(ConflictError) as refused:
        await memory(MERGE, canonical=base, duplicates=[other])
    assert refused.value.reason == "scope_mismatch"
    event = await kept(memory, "event", user_id="ana", type="episodic")
    with pytest.raises(ConflictError) as refused:
        await memory(MERGE, canonical=base, duplicates=[event], strategy="merge_content")
    assert refused.value.reason == "type_mismatch"
    assert (await memory(MERGE, canonical=base, duplicates=[event])).merged_count == 1


async def test_a_secret_cut_in_two_is_found_when_the_texts_are_joined(memory: TestMemory) -> None:
    from quipu.secrets.operations import ADD_SECRET

    await memory(ADD_SECRET, label="code", value="correct-horse-battery")
    one, two = await kept(memory, "it begins correct-horse"), await kept(memory, "-battery and ends")
    await memory(MERGE, canonical=one, duplicates=[two], strategy="merge_content")
    joined = (await memory(GET, id=one)).content
    assert "correct-horse-battery" not in joined.replace("\n", "")


# -- expire --------------------------------------------------------------------------------------------------------------


async def test_a_policy_matches_by_age_type_confidence_and_use(memory: TestMemory) -> None:
    old = await kept(memory, "old", confidence=0.25)
    used = await kept(memory, "used", type="episodic")
    memory.clock.now += 40 * DAY
    await kept(memory, "new")
    await memory(RECALL, query="used", min_relevance="off", k=1, types=["episodic"])
    matched = [
        (await memory(EXPIRE, policy=policy, dry_run=True)).ids
        for policy in (
            {"older_than_days": 30},
            {"confidence_below": 0.5},
            {"type": "episodic"},
            {"no_recall_in_days": 30},
            {"older_than_days": 30, "type": "semantic"},
            {"older_than_days": 50},
        )
    ]
    assert [set(one) for one in matched] == [{old, used}, {old}, {used}, {old}, {old}, set()]


async def test_archived_and_demoted_memories_can_be_restored(memory: TestMemory) -> None:
    one = await kept(memory, "Ana lives in Lisbon")
    done = await memory(EXPIRE, policy={"type": "semantic"}, action="archive")
    assert (done.matched_count, done.action_taken) == (1, "archive")
    assert not (await memory(RECALL, query="Ana", min_relevance="off")).results
    assert (await memory(GET, id=one)).state == "archived"
    await memory(RESTORE, id=one)
    assert (await memory(EXPIRE, policy={"type": "semantic"}, action="demote")).matched_count == 1
    assert (await memory(EXPIRE, policy={"type": "semantic"}, action="demote")).matched_count == 0
    assert (await memory(RECALL, query="Ana", min_relevance="off"))[0].demoted
    await memory(RESTORE, id=one)
    assert not (await memory(RECALL, query="Ana", min_relevance="off"))[0].demoted


async def test_what_matches_nothing_changes_nothing_and_waits_for_nobody(memory: TestMemory) -> None:
    from quipu.memory.pipeline import Verdict

    memory.rules.verdict = Verdict(effect="hold", rules=("careful",))
    done = await memory(EXPIRE, policy={"type": "emotional"}, approval_required=True)
    assert (done.matched_count, done.pending_approval, done.seq) == (0, False, None)


async def test_the_sweep_closes_what_has_expired(memory: TestMemory) -> None:
    one = await kept(memory, "x", expires_at=START + 5)
    await kept(memory, "y")
    assert await memory.service.expire.sweep("default", START + 5) == 1
    assert (await memory.ledger.versions("default", one))[0].ending == "expired"


# -- meanwhile -----------------------------------------------------------------------------------------------------------


async def test_what_goes_while_it_is_being_changed_stays_gone(memory: TestMemory) -> None:
    one = await kept(memory, "x")
    done = await asyncio.gather(
        memory(FORGET, ids=[one]),
        *(memory(UPDATE, id=one, content=f"change {n}") for n in range(5)),
        return_exceptions=True,
    )
    assert any(isinstance(one, NotFoundError) for one in done) or await there(memory) == []
    assert await there(memory) == []


async def test_those_who_contend_for_a_record_all_win_in_turn(memory: TestMemory) -> None:
    one = await kept(memory, "start")
    await asyncio.gather(
        *(memory(UPDATE, id=one, content=f"line {n}", update_strategy="append") for n in range(20))
    )
    lines = (await memory(GET, id=one)).content.splitlines()
    assert sorted(lines) == sorted(["start", *(f"line {n}" for n in range(20))])
    assert await faults(memory.ledger, "default") == []


# -- stores --------------------------------------------------------------------------------------------------------------


async def test_a_store_goes_with_what_is_in_it_and_main_stays(memory: TestMemory) -> None:
    await memory(CREATE_STORE, name="team", scope="team", description="ours")
    with pytest.raises(ConflictError):
        await memory(CREATE_STORE, name="team")
    await kept(memory, "shared", store="team")
    await kept(memory, "own")
    assert [one.name for one in (await memory(LIST_STORES)).stores] == ["main", "team"]
    shared = await memory(RECALL, agent_id="other", store="team", query="shared", min_relevance="off")
    assert [hit.content for hit in shared] == ["shared"]
    with pytest.raises(InvalidError):
        await memory(DELETE_STORE, name="team", confirm="main")
    with pytest.raises(ConflictError):
        await memory(DELETE_STORE, name="main", confirm="main")
    gone = await memory(DELETE_STORE, name="team", confirm="team", hard_delete=True)
    assert (gone.name, gone.removed) == ("team", 1)
    assert await there(memory) == ["own"]
    with pytest.raises(NotFoundError):
        await memory(REMEMBER, content="x", store="team")
    assert await faults(memory.ledger, "default") == []
