"""Remembering and updating."""

from typing import Any

import pytest

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, SecretLeakageError
from quipu.memory.drafts import Limits
from quipu.memory.operations import GET, HISTORY, RECALL, REMEMBER, REMEMBER_MANY, UPDATE
from quipu.memory.pipeline import Verdict
from tests.fixtures.memories import START, TestMemory, open_memory

DAY = 86_400_000


async def texts(memory: TestMemory, query: str, **fields: Any) -> list[str]:
    answer = await memory(RECALL, query=query, min_relevance="off", **fields)
    return [hit.content for hit in answer]


async def test_what_was_remembered_is_found_by_the_next_recall(memory: TestMemory) -> None:
    kept = await memory(REMEMBER, content="Ana lives in Lisbon", tags=["home"], metadata={"city": "Lisbon"})
    assert (kept.version, kept.outcome, kept.stores, kept.seq) == (1, "created", ("sqlite",), 2)
    assert kept.store.name == "main"
    found = await memory(RECALL, query="where does Ana live?", min_relevance="off")
    assert found[0].id == kept.id
    assert found[0].metadata == {"city": "Lisbon"}
    assert found[0].provenance.written_by == "local"
    assert found.stores_queried == ("sqlite",)


async def test_an_update_keeps_what_is_left_out(memory: TestMemory) -> None:
    kept = await memory(
        REMEMBER,
        content="Ana lives in Lisbon",
        tags=["home"],
        metadata={"a": 1, "b": 2},
        importance=0.5,
        source="user",
        confidence=0.75,
    )
    memory.clock.now += 5
    changed = await memory(UPDATE, id=kept.id, content="Ana lives in Porto", metadata={"b": 3})
    assert (changed.version, changed.outcome) == (2, "updated")
    shown = await memory(GET, id=kept.id)
    assert (shown.content, shown.tags, shown.metadata) == ("Ana lives in Porto", ("home",), {"a": 1, "b": 3})
    assert (shown.importance, shown.source, shown.confidence) == (0.5, "user", 0.75)
    assert (shown.created_at, shown.updated_at) == (START, START + 5)
    await memory(REMEMBER, id=kept.id, content="Ana lives in Faro", replace=True)
    shown = await memory(GET, id=kept.id)
    assert (shown.tags, shown.metadata, shown.importance, shown.source) == ((), {}, None, None)
    await memory(UPDATE, id=kept.id, content="with her dog", update_strategy="append")
    assert (await memory(GET, id=kept.id)).content == "Ana lives in Faro\nwith her dog"
    assert len((await memory(HISTORY, id=kept.id)).versions) == 4


async def test_a_type_is_fixed_at_the_first_write(memory: TestMemory) -> None:
    kept = await memory(REMEMBER, content="Ana is glad", type="emotional", valence=0.5)
    with pytest.raises(ConflictError) as refused:
        await memory(REMEMBER, id=kept.id, content="Ana is sad", type="semantic")
    assert refused.value.reason == "type_mismatch"
    await memory(REMEMBER, id=kept.id, content="Ana is sad", valence=-0.5)
    assert (await memory(GET, id=kept.id)).details == {"valence": -0.5}
    with pytest.raises(InvalidError):
        await memory(UPDATE, id=kept.id, event_time=5)


async def test_whoever_gives_a_version_is_told_that_it_has_passed(memory: TestMemory) -> None:
    kept = await memory(REMEMBER, content="one")
    await memory(UPDATE, id=kept.id, content="two", if_version=1)
    with pytest.raises(ConflictError) as refused:
        await memory(UPDATE, id=kept.id, content="three", if_version=1)
    assert refused.value.reason == "version_mismatch"


async def test_a_new_value_of_a_key_supersedes_the_old_one_which_keeps_its_time(memory: TestMemory) -> None:
    old = await memory(REMEMBER, content="Ana lives in Lisbon", key="ana.city")
    memory.clock.now += DAY
    new = await memory(REMEMBER, content="Ana lives in Porto", key="ana.city")
    assert new.superseded == (old.id,)
    assert await texts(memory, "Ana lives") == ["Ana lives in Porto"]
    both = await texts(memory, "Ana lives", include_superseded=True)
    assert sorted(both) == ["Ana lives in Lisbon", "Ana lives in Porto"]
    shown = await memory(GET, id=old.id)
    assert (shown.valid_from, shown.valid_until) == (START, START + DAY)
    by_hand = await memory(REMEMBER, content="Ana lives in Faro", supersedes=[new.id])
    assert by_hand.superseded == (new.id,)
    assert await texts(memory, "Ana lives") == ["Ana lives in Faro"]
    with pytest.raises(InvalidError):
        await memory(REMEMBER, content="x", supersedes=["mem_nowhere"])


async def test_links_lead_to_records_in_reach(memory: TestMemory) -> None:
    target = await memory(REMEMBER, content="target")
    await memory(REMEMBER, content="linked", links=[{"to": target.id, "rel": "about"}])
    foreign = await memory(REMEMBER, agent_id="other", content="theirs")
    for name in ("mem_nowhere", foreign.id):
        with pytest.raises(InvalidError) as refused:
            await memory(REMEMBER, content="x", links=[{"to": name, "rel": "about"}])
        assert refused.value.faults[0].pointer == "/links/0/to"


async def test_secrets_never_get_in(memory: TestMemory) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    kept = await memory(REMEMBER, content=f"the token is {token}", metadata={"t": [token]}, tags=["t"])
    shown = await memory(GET, id=kept.id)
    assert token not in shown.model_dump_json()
    with pytest.raises(SecretLeakageError) as refused:
        await memory(REMEMBER, content="x", session_id=token)
    assert token not in str(refused.value) + repr(refused.value.faults)


async def test_expiry_is_a_moment_a_duration_or_what_retention_leaves(memory: TestMemory) -> None:
    async def expiry(**fields: Any) -> int | None:
        kept = await memory(REMEMBER, content="x", **fields)
        return (await memory(GET, id=kept.id)).expires_at

    assert await expiry() is None
    assert await expiry(expires_at=START + 7) == START + 7
    assert await expiry(expires_at="2d") == START + 2 * DAY
    assert await expiry(privacy_intent={"retain": "P1D"}, expires_at="2d") == START + DAY
    assert await expiry(privacy_intent={"retain": "session"}) == START + DAY
    assert await expiry(privacy_intent={"retain": "forever"}, expires_at="2d") == START + 2 * DAY
    bounded = open_memory(limits=Limits(max_retain_ms=DAY))
    kept = await bounded(REMEMBER, content="x", privacy_intent={"retain": "forever"})
    assert (await bounded(GET, id=kept.id)).expires_at == START + DAY
    await bounded.close()


async def test_what_has_expired_is_gone_from_that_very_millisecond(memory: TestMemory) -> None:
    kept = await memory(REMEMBER, content="Ana is on holiday", expires_at=START + 10)
    memory.clock.now = START + 9
    assert await texts(memory, "holiday") == ["Ana is on holiday"]
    memory.clock.now = START + 10
    assert await texts(memory, "holiday") == []
    with pytest.raises(NotFoundError):
        await memory(GET, id=kept.id)
    with pytest.raises(NotFoundError):
        await memory(UPDATE, id=kept.id, content="x")


async def test_a_dry_run_writes_nothing(memory: TestMemory) -> None:
    planned = await memory(REMEMBER, content="x", dry_run=True)
    assert (planned.outcome, planned.stores, planned.seq) == ("planned", (), None)
    assert await texts(memory, "x") == []


async def test_near_duplicates_are_named(memory: TestMemory) -> None:
    first = await memory(REMEMBER, content="Ana likes green tea")
    second = await memory(REMEMBER, content="Ana likes green tea", find_similar=True)
    assert second.similar == (first.id,)


async def test_a_procedure_is_a_valid_machine_or_nothing(memory: TestMemory) -> None:
    machine = {
        "name": "door",
        "initial": "closed",
        "states": ["closed", "open"],
        "transitions": [{"trigger": "push", "source": "closed", "dest": "open"}],
    }
    kept = await memory(REMEMBER, content=machine, type="procedural")
    assert (await memory(GET, id=kept.id)).content == {**machine, "current": "closed"}
    with pytest.raises(InvalidError) as refused:
        await memory(REMEMBER, content={**machine, "before": "os.system"}, type="procedural")
    assert refused.value.reason == "invalid_procedure"
    assert len(await texts(memory, "door")) == 1


async def test_sizes_that_operators_set_are_held() -> None:
    memory = open_memory(limits=Limits(content_bytes=10, metadata_bytes=20))
    with pytest.raises(InvalidError) as refused:
        await memory(REMEMBER, content="äääääääää")
    assert refused.value.reason == "too_large"
    kept = await memory(REMEMBER, content="12345")
    with pytest.raises(InvalidError):
        await memory(UPDATE, id=kept.id, content="123456", update_strategy="append")
    await memory.close()


async def test_a_held_write_is_in_no_read_path_and_has_its_id_already(memory: TestMemory) -> None:
    memory.rules.verdict = Verdict(effect="hold", rules=("careful",), because="look at it")
    held = await memory(REMEMBER, content="Ana lives in Lisbon")
    assert (held.pending_approval, held.stores, held.held_by, held.seq) == (True, (), ("careful",), None)
    assert held.id.startswith("mem_")
    memory.rules.verdict = Verdict()
    assert await texts(memory, "Ana") == []
    with pytest.raises(NotFoundError):
        await memory(GET, id=held.id)


async def test_a_denied_write_is_refused_with_the_rule(memory: TestMemory) -> None:
    memory.rules.verdict = Verdict(effect="deny", rules=("never",))
    with pytest.raises(ForbiddenError) as refused:
        await memory(REMEMBER, content="Ana lives in Lisbon")
    assert refused.value.reason == "denied"


# -- many at once --------------------------------------------------------------------------------------------------------


async def test_of_many_each_is_written_or_refused_for_itself(memory: TestMemory) -> None:
    known = await memory(REMEMBER, content="known")
    answer = await memory(
        REMEMBER_MANY,
        items=[
            {"content": "one"},
            {"content": "two", "store": "nowhere"},
            {"content": "three", "id": known.id},
            {"content": "four", "id": "mem_nowhere"},
            {"content": "five", "idempotency_key": "k"},
        ],
    )
    errors = [None if item.error is None else item.error.code for item in answer.results]
    assert errors == [None, "not_found", None, "not_found", None]
    assert [item.index for item in answer.results] == list(range(5))
    assert (await memory(GET, id=known.id)).content == "three"


async def test_all_or_none_of_many_are_written(memory: TestMemory) -> None:
    with pytest.raises(NotFoundError):
        await memory(
            REMEMBER_MANY, atomic=True, items=[{"content": "one"}, {"content": "two", "id": "mem_nowhere"}]
        )
    assert await texts(memory, "one") == []
    answer = await memory(
        REMEMBER_MANY, atomic=True, items=[{"content": "one"}, {"content": "two", "key": "k"}]
    )
    assert all(item.response is not None and item.response.seq for item in answer.results)


async def test_many_that_are_repeated_by_their_key_are_written_once(memory: TestMemory) -> None:
    items = [{"content": f"fact {number}"} for number in range(3)]
    first = await memory(REMEMBER_MANY, items=items, idempotency_key="k")
    again = await memory(REMEMBER_MANY, items=items, idempotency_key="k")
    ids = [[item.response.id for item in answer.results] for answer in (first, again)]
    assert ids[0] == ids[1]
    assert len(await texts(memory, "fact", k=10)) == 3


async def test_a_batch_is_refused_where_one_item_is_malformed(memory: TestMemory) -> None:
    with pytest.raises(InvalidError) as refused:
        await memory(REMEMBER_MANY, items=[{"content": "one"}, {"content": 2}])
    assert refused.value.faults[0].pointer.startswith("/items/1/content")
