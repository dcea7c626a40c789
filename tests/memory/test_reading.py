"""Recall, get, list, history, related, the read log and the change feed."""

import asyncio
from typing import Any

import pytest

from quipu.errors import DeadlineError, ForbiddenError, InvalidError, NotFoundError
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import (
    CHANGES,
    EXPIRE,
    FORGET,
    GET,
    HISTORY,
    LIST,
    NOTE_RECALLED,
    RECALL,
    RELATED,
    REMEMBER,
    UPDATE,
)
from quipu.model.principal import Permission
from quipu.operation import dispatch_stream
from tests.fixtures.memories import START, TestMemory

DAY = 86_400_000


async def kept(memory: TestMemory, content: str, **fields: Any) -> str:
    return (await memory(REMEMBER, content=content, **fields)).id


async def found(memory: TestMemory, query: str, **fields: Any) -> list[str]:
    answer = await memory(RECALL, query=query, **{"min_relevance": "off", **fields})
    return [hit.content for hit in answer]


async def test_every_restriction_is_applied_before_the_best_are_chosen(memory: TestMemory) -> None:
    for number in range(300):
        await memory(REMEMBER, content=f"green tea number {number}", user_id="others", metadata={"n": number})
    mine = await kept(memory, "a word about tea", user_id="ana", session_id="s", tags=["t"], type="episodic")
    for fields in (
        {"user_id": "ana"},
        {"session_id": "s"},
        {"types": ["episodic"]},
        {"filter": {"tags": "t"}},
        {"filter": {"user_id": {"$ne": "others"}}},
    ):
        hits = await memory(RECALL, query="green tea number", k=1, min_relevance="off", **fields)
        assert [hit.id for hit in hits] == [mine], fields
    fresh = await memory(RECALL, query="tea", fresher_than_days=0, k=1000, min_relevance="off")
    assert len(fresh) == 301
    memory.clock.now += DAY
    assert await found(memory, "tea", fresher_than_days=0) == []


async def test_as_of_shows_and_ranks_what_was_then(memory: TestMemory) -> None:
    one = await kept(memory, "Ana lives in Lisbon")
    then = (await memory.ledger.head("default")).seq
    memory.clock.now += 1000
    await memory(UPDATE, id=one, content="Ana lives in Porto")
    await kept(memory, "Ana lives with Bob")
    assert await found(memory, "Ana lives", as_of=str(then)) == ["Ana lives in Lisbon"]
    assert (await memory(GET, id=one, as_of=str(then))).content == "Ana lives in Lisbon"
    moment = "2025-06-15T15:06:40.500Z"
    assert [record.content for record in (await memory(LIST, as_of=moment)).records] == [
        "Ana lives in Lisbon"
    ]
    for bad in ("tomorrow", "2999-01-01T00:00:00Z", "99999", "2025-01-01T00:00:00"):
        with pytest.raises(InvalidError):
            await memory(RECALL, query="Ana", as_of=bad)
    with pytest.raises(NotFoundError):
        await memory(RECALL, query="Ana", as_of="run_nowhere")


async def test_a_filter_cannot_be_used_to_guess_what_the_mask_hides(memory: TestMemory) -> None:
    private = {"sensitivity": "secret"}
    one = await kept(memory, "the pin is 4711", metadata={"pin": 4711}, privacy_intent=private)
    hit = (await memory(RECALL, query="the pin", min_relevance="off"))[0]
    assert (hit.content, hit.metadata, hit.redacted) == ("[redacted]", {}, True)
    assert await found(memory, "the pin", filter={"metadata.pin": 4711}) == []
    assert await found(memory, "the pin", redact="omit") == []
    assert await found(memory, "the pin", redact="none") == ["the pin is 4711"]
    reader = memory.named(permissions=frozenset({Permission.READ}))
    with pytest.raises(ForbiddenError):
        await memory(RECALL, reader, query="the pin", redact="none")
    assert (await memory(GET, reader, id=one)).content == "[redacted]"


async def test_a_filter_that_names_a_key_nobody_has_says_so(memory: TestMemory) -> None:
    await kept(memory, "Ana lives in Lisbon", metadata={"city": "Lisbon", "deep": {"n": 1}})
    await kept(memory, "the pin is 4711", metadata={"pin": 4711}, privacy_intent={"sensitivity": "secret"})
    for wanted, named in (
        ({"metadata.city": "Porto"}, []),
        ({"metadata.cty": "Lisbon"}, ["metadata.cty"]),
        ({"$or": [{"metadata.deep.n": 2}, {"metadata.deep.m": 1}]}, ["metadata.deep.m"]),
        ({"metadata.pin": 1}, ["metadata.pin"]),
    ):
        recalled = await memory(RECALL, query="Ana pin", filter=wanted, min_relevance="off")
        forgotten = await memory(FORGET, filter=wanted)
        for answer in (recalled, forgotten):
            said = [f"No memory in reach has {name}, which the filter asks for." for name in named]
            assert list(answer.warnings) == said
    found_some = await memory(RECALL, query="Ana", filter={"metadata.cty": None}, min_relevance="off")
    assert (len(found_some), found_some.warnings) == (1, ())


async def test_hits_fit_a_token_budget(memory: TestMemory) -> None:
    await kept(memory, "tea " * 20)
    await kept(memory, "tea and more tea")
    whole = await memory(RECALL, query="tea", max_tokens=100, min_relevance="off")
    assert (len(whole), whole.truncated) == (2, False)
    cut = await memory(RECALL, query="tea", max_tokens=2, min_relevance="off")
    assert (len(cut), len(cut[0].text), cut[0].truncated, cut.truncated) == (1, 8, True, True)


async def test_a_recall_explains_itself(memory: TestMemory) -> None:
    await kept(memory, "Ana lives in Lisbon")
    answer = await memory(RECALL, query="Ana Lisbon", explain=True, min_relevance="off")
    assert {"cosine", "keyword", "coverage", "blend"} <= answer[0].why.keys()
    assert {"cosine", "coverage", "compared"} <= answer.evidence.keys()


async def test_min_trust_leaves_out_what_others_said(memory: TestMemory) -> None:
    await kept(memory, "tea from the web", source="web_page")
    await kept(memory, "tea from Ana")
    assert await found(memory, "tea", min_trust="agent") == ["tea from Ana"]


async def test_linked_hits_are_raised_and_name_each_other(memory: TestMemory) -> None:
    first = await kept(memory, "tea one")
    second = await kept(memory, "tea two", links=[{"to": first, "rel": "about"}])
    answer = await memory(RECALL, query="tea", hops=1, min_relevance="off")
    assert {hit.id: hit.supporting for hit in answer} == {first: (second,), second: (first,)}


async def test_a_deadline_is_kept(memory: TestMemory) -> None:
    class Slow:
        model, dimensions = "slow", 8

        async def embed(self, texts: Any, role: Any = "document") -> Any:
            await asyncio.sleep(60)

        def clear(self) -> None:
            return

        async def close(self) -> None:
            return

    from tests.fixtures.memories import open_memory

    slow = open_memory(embedder=Slow())
    with pytest.raises(DeadlineError):
        await slow(RECALL, query="tea", deadline_ms=10)
    await slow.close()


# -- get, list, history, related -------------------------------------------------------------------------------------------


async def test_a_list_goes_page_by_page_newest_first(memory: TestMemory) -> None:
    ids = [await kept(memory, f"fact {number}") for number in range(7)]
    seen: list[str] = []
    cursor = None
    while True:
        page = await memory(LIST, limit=3, **({} if cursor is None else {"cursor": cursor}))
        seen += [record.id for record in page.records]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ids[::-1]
    with pytest.raises(InvalidError):
        await memory(LIST, cursor="not ours!")
    await memory(FORGET, ids=[ids[0]])
    assert [one.id for one in (await memory(LIST, states=["forgotten"])).records] == [ids[0]]


async def test_all_agents_are_listed_to_a_whole_admin_only(memory: TestMemory) -> None:
    await kept(memory, "one")
    await kept(memory, "two", agent_id="other")
    assert len((await memory(LIST, all_agents=True)).records) == 2
    limited = memory.named(agents=("agent",))
    with pytest.raises(ForbiddenError):
        await memory(LIST, limited, all_agents=True)


async def test_what_is_out_of_reach_is_as_if_it_were_not_there(memory: TestMemory) -> None:
    one = await kept(memory, "tea", user_id="ana")
    strangers = (memory.named(agents=("other",), default_agent="other"), memory.named(user_id="bob"))
    for stranger in strangers:
        for operation, fields in ((GET, {}), (HISTORY, {}), (RELATED, {})):
            with pytest.raises(NotFoundError) as refused:
                await memory(operation, stranger, id=one, **fields)
            with pytest.raises(NotFoundError) as unknown:
                await memory(operation, stranger, id="mem_nowhere", **fields)
            assert (refused.value.message, refused.value.hint) == (unknown.value.message, unknown.value.hint)
        assert await found(memory, "tea", user_id=None) == ["tea"]
        answer = await memory(RECALL, stranger, query="tea", min_relevance="off")
        assert answer.results == ()
    assert (await memory(NOTE_RECALLED, strangers[0], ids=[one])).counted == 0


async def test_the_memories_around_one_are_shown_with_their_links(memory: TestMemory) -> None:
    first = await kept(memory, "one")
    second = await kept(memory, "two", links=[{"to": first, "rel": "about"}])
    third = await kept(memory, "three", links=[{"to": second, "rel": "follows"}])
    near = await memory(RELATED, id=first)
    assert {node.id for node in near.nodes} == {first, second}
    far = await memory(RELATED, id=first, hops=2)
    assert {node.id for node in far.nodes} == {first, second, third}
    assert {(edge.source, edge.target, edge.rel) for edge in far.edges} == {
        (second, first, "about"),
        (third, second, "follows"),
    }
    assert (await memory(RELATED, id=first, hops=2, limit=2)).truncated


# -- read log and marks ------------------------------------------------------------------------------------------------------


async def entries(memory: TestMemory, op: str) -> list[Any]:
    await memory.service.read_log.flush()
    return list(await memory.ledger.entries("default", JournalQuery(op=op)))


async def test_reads_are_journaled_in_batches_and_mark_what_they_returned(memory: TestMemory) -> None:
    one = await kept(memory, "tea")
    await memory(RECALL, query="tea", min_relevance="off")
    await memory(RECALL, query="tea", min_relevance="off", count_recall=False)
    await memory(GET, id=one)
    recalls = await entries(memory, "recall")
    assert [entry.detail["returned"] for entry in recalls] == [1, 1]
    assert [mention.id for mention in recalls[0].records] == [one]
    assert len(await entries(memory, "read")) == 1
    mark = (await memory.ledger.marks("default", [one]))[one]
    assert (mark.recall_count, mark.last_recalled_at) == (1, START)
    await memory(NOTE_RECALLED, ids=[one, "mem_nowhere"])
    await memory.service.read_log.flush()
    assert (await memory(GET, id=one)).recall_count == 2


async def test_expiry_writes_waiting_marks_first(memory: TestMemory) -> None:
    await kept(memory, "tea")
    memory.clock.now += 40 * DAY
    await memory(RECALL, query="tea", min_relevance="off")
    done = await memory(EXPIRE, policy={"no_recall_in_days": 30})
    assert done.matched_count == 0


async def test_an_agent_name_that_holds_a_secret_does_not_reach_the_journal(memory: TestMemory) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    await memory(RECALL, agent_id=token, query="tea")
    (entry,) = await entries(memory, "recall")
    assert entry.agent is None


# -- change feed -------------------------------------------------------------------------------------------------------------


async def test_the_feed_shows_what_happens_to_who_may_see_it(memory: TestMemory) -> None:
    async def follow(count: int, principal: Any = None, **fields: Any) -> list[tuple[str, tuple[str, ...]]]:
        seen: list[tuple[str, tuple[str, ...]]] = []
        async for event in dispatch_stream(memory.context(principal), CHANGES, fields):
            seen.append((event.type, event.record_ids))
            if len(seen) == count:
                break
        return seen

    async with asyncio.timeout(30):
        followers = [
            asyncio.create_task(follow(2, since=0, types=["memory.remembered", "memory.forgotten"])),
            asyncio.create_task(follow(1, memory.named(agents=("other",)), since=0)),
        ]
        await asyncio.sleep(0)
        one = await kept(memory, "tea")
        await memory(FORGET, ids=[one])
        two = await kept(memory, "coffee", agent_id="other")
        mine, theirs = await asyncio.gather(*followers)
    assert mine == [("memory.remembered", (one,)), ("memory.forgotten", (one,))]
    assert theirs == [("memory.remembered", (two,))]
