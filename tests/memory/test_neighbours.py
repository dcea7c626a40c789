"""`neighbours`: the turns around a hit in its conversation."""

from contextlib import asynccontextmanager
from typing import Any

from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import FORGET, RECALL, REMEMBER, UPDATE
from tests.fixtures.memories import Allowance, TestMemory, open_memory

TALK = (
    "Where shall we go on Sunday?",
    "The lighthouse would be nice.",
    "It opens at ten.",
    "Then we take the early ferry.",
    "I bring the sandwiches.",
)


async def talk(memory: TestMemory, **fields: Any) -> list[str]:
    ids: list[str] = []
    for number, text in enumerate(TALK):
        memory.clock.now += 1000
        done = await memory(
            REMEMBER, content=text, type="episodic", session_id="s", tags=[str(number)], **fields
        )
        ids.append(done.id)
    return ids


async def around(memory: TestMemory, query: str = "lighthouse", **fields: Any) -> list[tuple[str, list[str]]]:
    fields = {"k": 1, "min_relevance": "off", "neighbours": 1, **fields}
    answer = await memory(RECALL, query=query, **fields)
    return [(hit.text, [turn.text for turn in hit.neighbours]) for hit in answer]


async def test_the_turns_before_and_after_stand_beside_a_hit_in_their_order(memory: TestMemory) -> None:
    await talk(memory)
    await memory(REMEMBER, content="The lighthouse keeper is called Ole.", session_id="another")
    assert await around(memory, "nice lighthouse", neighbours=0) == [(TALK[1], [])]
    assert await around(memory, "nice lighthouse") == [(TALK[1], [TALK[0], TALK[2]])]
    assert await around(memory, "nice lighthouse", neighbours=5) == [(TALK[1], [TALK[0], *TALK[2:]])]
    assert await around(memory, "sandwiches") == [(TALK[4], [TALK[3]])], "where the conversation ends"


async def test_each_turn_is_shown_once(memory: TestMemory) -> None:
    await talk(memory)
    shown = await around(memory, "nice lighthouse ten", k=2, neighbours=2)
    texts = [text for hit, turns in shown for text in (hit, *turns)]
    assert sorted(texts) == sorted(TALK)


async def test_a_turn_that_may_not_be_seen_is_none(memory: TestMemory) -> None:
    ids = await talk(memory)
    await memory(FORGET, ids=[ids[0]])
    await memory(UPDATE, id=ids[2], privacy_intent={"sensitivity": "secret"})
    assert await around(memory, "nice lighthouse", neighbours=2) == [(TALK[1], ["[redacted]", TALK[3]])]
    assert await around(memory, "nice lighthouse", neighbours=2, redact="omit") == [(TALK[1], [TALK[3]])]
    shown = await around(memory, "nice lighthouse", filter={"tags": "1"})
    assert shown == [(TALK[1], ["[redacted]"])], "a filter is for what is looked for"
    assert await around(memory, "nice lighthouse", user_id="somebody") == []


async def test_turns_are_of_the_position_that_is_read(memory: TestMemory) -> None:
    ids = await talk(memory)
    then = (await memory.ledger.head("default")).seq
    await memory(FORGET, ids=[ids[2]])
    assert await around(memory, "nice lighthouse") == [(TALK[1], [TALK[0], TALK[3]])]
    assert await around(memory, "nice lighthouse", as_of=str(then)) == [(TALK[1], [TALK[0], TALK[2]])]


async def test_turns_take_what_hits_leave_of_the_tokens(memory: TestMemory) -> None:
    await talk(memory)
    answer = await memory(
        RECALL, query="nice lighthouse", k=1, min_relevance="off", neighbours=1, max_tokens=14
    )
    assert [turn.text for turn in answer[0].neighbours] == [TALK[2]], "the first one does not fit any more"
    assert answer.truncated


async def test_turns_count_in_the_budget_and_are_journaled() -> None:
    spent: list[int] = []

    class Few:
        def charge(self, principal: Any, operation: str, now: int) -> None:
            return

        @asynccontextmanager
        async def reserved(self, ctx: Any, agent_id: str | None, count: int) -> Any:
            allowed = Allowance(min(count, 2), is_cut=count > 2)
            allowed.spend = spent.append  # type: ignore[method-assign]
            yield allowed

    memory = open_memory(budget=Few())
    try:
        ids = await talk(memory)
        answer = await memory(RECALL, query="nice lighthouse", k=1, min_relevance="off", neighbours=1)
        assert ([turn.text for turn in answer[0].neighbours], answer.budget_cut) == ([TALK[0]], True)
        assert spent == [2]
        await memory.service.read_log.close()
        (entry,) = await memory.ledger.entries("default", JournalQuery(op="recall"))
        assert {mention.id for mention in entry.records} == {ids[0], ids[1]}
    finally:
        await memory.close()
