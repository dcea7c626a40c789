"""What a writer asks for is done: privacy, how long it is kept, which fact it states and since when."""

from typing import Any

import pytest

from quipu.errors import InvalidError
from quipu.memory.drafts import Limits
from quipu.memory.operations import CREATE_STORE, EXPIRE, FORGET, GET, LIST, MERGE, RECALL, REMEMBER, UPDATE
from tests.fixtures.memories import START, TestMemory, open_memory

DAY = 86_400_000


async def kept(memory: TestMemory, content: str, **fields: Any) -> str:
    return (await memory(REMEMBER, content=content, **fields)).id


async def found(memory: TestMemory, query: str, **fields: Any) -> list[str]:
    answer = await memory(RECALL, query=query, **{"min_relevance": "off", **fields})
    return [hit.content for hit in answer]


async def ends(memory: TestMemory, record_id: str) -> int | None:
    return (await memory(GET, id=record_id)).expires_at


# -- how long -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retain", "expires_at", "end"),
    [
        ("30d", None, 30 * DAY),
        ("30d", 90 * DAY, 30 * DAY),
        ("P30D", 10 * DAY, 10 * DAY),
        ("session", None, DAY),
        ("session", 3 * DAY, DAY),
        ("forever", None, None),
        ("forever", 10 * DAY, 10 * DAY),
        (None, 10 * DAY, 10 * DAY),
        (None, "12h", DAY // 2),
    ],
)
async def test_a_retention_shortens_and_never_lengthens(
    memory: TestMemory, retain: str | None, expires_at: int | str | None, end: int | None
) -> None:
    asked = START + expires_at if isinstance(expires_at, int) else expires_at
    one = await kept(memory, "tea", privacy_intent={"retain": retain}, expires_at=asked)
    assert await ends(memory, one) == (None if end is None else START + end)


async def test_what_is_kept_for_a_session_lasts_a_day_however_old_the_memory_is(memory: TestMemory) -> None:
    old, renewed, kept_on = (
        await kept(memory, "coffee"),
        await kept(memory, "tea"),
        await kept(memory, "milk"),
    )
    session = {"privacy_intent": {"retain": "session"}}
    for one in (renewed, kept_on):
        await memory(UPDATE, id=one, **session)
    memory.clock.now += DAY // 2
    await memory(UPDATE, id=old, **session)
    await memory(UPDATE, id=renewed, content="green tea", replace=True, **session)
    await memory(UPDATE, id=kept_on, content="warm milk")
    now = memory.clock.now
    assert [await ends(memory, one) for one in (old, renewed, kept_on)] == [now + DAY, now + DAY, START + DAY]
    memory.clock.now = START + DAY
    assert set(await found(memory, "coffee tea milk")) == {"coffee", "green tea"}


async def test_nothing_is_kept_longer_than_the_operator_says() -> None:
    memory = open_memory(limits=Limits(max_retain_ms=7 * DAY))
    one = await kept(memory, "tea")
    two = await kept(memory, "coffee", expires_at=START + 30 * DAY, privacy_intent={"retain": "forever"})
    soon = await kept(memory, "milk", expires_at=START + DAY)
    assert [await ends(memory, record) for record in (one, two, soon)] == [
        START + 7 * DAY,
        START + 7 * DAY,
        START + DAY,
    ]
    memory.clock.now += DAY // 2
    await memory(UPDATE, id=one, content="green tea")
    assert await ends(memory, one) == START + 7 * DAY
    await memory.close()


async def test_what_has_expired_is_gone_on_every_path_swept_or_not(memory: TestMemory) -> None:
    one = await kept(memory, "tea", expires_at=START + 5)
    seq = (await memory.ledger.head("default")).seq
    memory.clock.now += 5
    for _ in range(2):
        assert await found(memory, "tea") == await found(memory, "tea", as_of=str(seq)) == []
        assert (await memory(LIST)).records == ()
        assert (await memory(FORGET, ids=[one], dry_run=True)).not_found in ((), (one,))
        await memory.service.expire.sweep("default", memory.clock())
    assert (await memory(FORGET, ids=[one], hard_delete=True)).forgotten_ids == (one,)


# -- for whom, and how carefully ------------------------------------------------------------------------------------


async def test_a_shared_store_is_read_as_far_as_its_writers_allow(memory: TestMemory) -> None:
    await memory(CREATE_STORE, name="board", scope="team")
    lists = {"all": None, "everybody": ["*"], "ana": ["ana"], "nobody": []}
    for name, share_with in lists.items():
        privacy = None if share_with is None else {"share_with": share_with}
        await kept(memory, f"note for {name}", store="board", privacy_intent=privacy)
    for reader, allowed in (
        ("ana", {"all", "everybody", "ana"}),
        ("bob", {"all", "everybody"}),
        ("agent", set(lists)),
    ):
        seen = await found(memory, "note", agent_id=reader, store="board", k=10)
        assert {text.removeprefix("note for ") for text in seen} == allowed
        listed = (await memory(LIST, agent_id=reader, store="board")).records
        assert {str(one.content).removeprefix("note for ") for one in listed} == allowed
        gone = await memory(FORGET, agent_id=reader, store="board", filter={"store": "board"}, dry_run=True)
        assert len(gone.forgotten_ids) == len(allowed)
    assert await found(memory, "note", agent_id="bob") == []


async def test_a_secret_is_explained_to_nobody(memory: TestMemory) -> None:
    await kept(memory, "the safe is under the stairs", tags=["x"], privacy_intent={"sensitivity": "secret"})
    (hit,) = await memory(RECALL, query="safe stairs", explain=True, min_relevance="off")
    assert (hit.content, hit.tags, hit.details, hit.why, hit.provenance.subject) == (
        *("[redacted]", (), {}, None),
        None,
    )


# -- facts ------------------------------------------------------------------------------------------------------------


async def test_a_new_fact_of_a_key_outdates_the_old_one_of_the_same_owner(memory: TestMemory) -> None:
    old = await kept(memory, "Ana lives in Lisbon", key="home", user_id="ana")
    bobs = await kept(memory, "Bob lives in Faro", key="home", user_id="bob")
    nobodys = await kept(memory, "somebody lives in Beja", key="home")
    memory.clock.now += 1000
    before = (await memory.ledger.head("default")).seq
    new = await memory(REMEMBER, content="Ana lives in Porto", key="home", user_id="ana")
    assert new.superseded == (old,)
    shown = await memory(GET, id=old)
    assert (shown.valid_from, shown.valid_until, shown.version) == (START, START + 1000, 2)
    assert (await memory(GET, id=new.id)).valid_from == START + 1000
    lives = await found(memory, "lives in", k=10)
    assert set(lives) == {"Ana lives in Porto", "Bob lives in Faro", "somebody lives in Beja"}
    assert "Ana lives in Lisbon" in await found(memory, "lives in", k=10, include_superseded=True)
    assert "Ana lives in Lisbon" in await found(memory, "lives in", k=10, as_of=str(before))
    for other in (bobs, nobodys):
        assert (await memory(GET, id=other)).valid_until is None


async def test_a_chain_of_facts_each_ends_where_the_next_begins(memory: TestMemory) -> None:
    ids: list[str] = []
    for number, city in enumerate(("Lisbon", "Porto", "Braga")):
        since = START + number * DAY
        ids.append(await kept(memory, f"Ana lives in {city}", key="home", valid_from=since))
    spans = [(one.valid_from, one.valid_until) for one in [await memory(GET, id=name) for name in ids]]
    assert spans == [(START, START + DAY), (START + DAY, START + 2 * DAY), (START + 2 * DAY, None)]
    memory.clock.now = START + 3 * DAY
    assert await found(memory, "Ana lives") == ["Ana lives in Braga"]


async def test_facts_are_outdated_by_hand_and_only_those_in_reach(memory: TestMemory) -> None:
    one, two = await kept(memory, "the shop opens at nine"), await kept(memory, "the shop closes at five")
    theirs = await kept(memory, "the shop is theirs", agent_id="other")
    new = await memory(REMEMBER, content="the shop is closed for good", supersedes=[one, two])
    assert set(new.superseded) == {one, two}
    memory.clock.now += 1
    assert await found(memory, "shop") == ["the shop is closed for good"]
    for bad in (theirs, "mem_nowhere"):
        with pytest.raises(InvalidError) as refused:
            await memory(REMEMBER, content="x", supersedes=[bad])
        assert refused.value.faults[0].pointer == "/supersedes"
    again = await memory(UPDATE, id=one, supersedes=[new.id])
    assert again.superseded == (new.id,)


async def test_a_fact_of_the_future_is_no_fact_of_the_past(memory: TestMemory) -> None:
    with pytest.raises(InvalidError):
        await memory(REMEMBER, content="x", valid_from=START, valid_until=START - 1)
    over = await kept(memory, "the offer held until May", valid_until=START - 1)
    assert await found(memory, "offer") == []
    assert await found(memory, "offer", include_superseded=True) == ["the offer held until May"]
    assert (await memory(EXPIRE, policy={"type": "semantic"}, dry_run=True)).ids == (over,)


# -- joined texts -----------------------------------------------------------------------------------------------------


async def test_what_is_joined_is_measured_again() -> None:
    memory = open_memory(limits=Limits(content_bytes=40, metadata_bytes=40))
    one = await kept(memory, "a" * 30, metadata={"a": "x" * 20})
    two = await kept(memory, "b" * 30, metadata={"b": "y" * 20})
    for operation, fields in (
        (MERGE, {"canonical": one, "duplicates": [two], "strategy": "merge_content"}),
        (UPDATE, {"id": one, "content": "c" * 20, "update_strategy": "append"}),
        (UPDATE, {"id": one, "metadata": {"c": "z" * 30}}),
    ):
        with pytest.raises(InvalidError) as refused:
            await memory(operation, **fields)
        assert refused.value.reason == "too_large"
    assert [(await memory(GET, id=name)).version for name in (one, two)] == [1, 1]
    await memory.close()
