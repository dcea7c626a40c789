"""What others do while something is under way: each case stops an operation in the middle and lets them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quipu.embed.port import Role
from quipu.errors import ConflictError, NotFoundError
from quipu.ledger.commit import Commit, Committed
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.memory.forget import Forget, Reached
from quipu.memory.model import ForgetRequest
from quipu.memory.operations import (
    EXPIRE,
    FORGET,
    GET,
    LIST,
    MERGE,
    RECALL,
    RELATED,
    REMEMBER,
    REMEMBER_MANY,
    RESTORE,
    UPDATE,
)
from quipu.memory.pipeline import Verdict
from quipu.memory.scope import STORES
from quipu.secrets.model import SECRETS
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import TestMemory, open_memory
from tests.ledger.builders import faults

DAY = 86_400_000


class Stopping(WordEmbedder):
    """An embedder that lets others go first, once, and counts what it was asked and told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], Awaitable[object]] | None = None
        self.asked = self.cleared = 0

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        self.asked += 1
        then, self.then = self.then, None
        if then is not None:
            await then()
        return await super().embed(texts, role)

    def clear(self) -> None:
        self.cleared += 1
        super().clear()


@pytest.fixture
def embedder() -> Stopping:
    return Stopping()


@pytest.fixture
async def memory(embedder: Stopping) -> AsyncIterator[TestMemory]:
    opened = open_memory(embedder=embedder)
    yield opened
    await opened.close()


async def kept(memory: TestMemory, content: str, **fields: Any) -> str:
    return (await memory(REMEMBER, content=content, **fields)).id


async def test_a_recall_beside_a_writer_is_of_one_journal_position(
    memory: TestMemory, embedder: Stopping
) -> None:
    changed, erased, merged = [await kept(memory, f"harbour {name}") for name in ("one", "two", "three")]

    async def others() -> None:
        await memory(UPDATE, id=changed, content="harbour changed meanwhile")
        await kept(memory, "harbour written meanwhile")
        await memory(MERGE, canonical=changed, duplicates=[merged])
        await memory(FORGET, ids=[erased], hard_delete=True)

    before = (await memory.ledger.head("default")).seq
    embedder.then = others
    answer = await memory(RECALL, query="harbour", k=10, min_relevance="off")
    assert answer.seq == before
    assert {(hit.content, hit.version) for hit in answer} == {("harbour one", 1), ("harbour three", 1)}
    again = await memory(RECALL, query="harbour", k=10, min_relevance="off", as_of=str(before))
    assert [hit.id for hit in again] == [hit.id for hit in answer]


async def test_a_change_never_revives_what_was_taken_away_meanwhile(
    memory: TestMemory, embedder: Stopping
) -> None:
    removals: tuple[tuple[Any, dict[str, Any]], ...] = (
        (FORGET, {}),
        (FORGET, {"hard_delete": True}),
        (EXPIRE, {"policy": {"type": "semantic"}}),
    )
    for number, (operation, fields) in enumerate(removals):
        one = await kept(memory, f"tide {number}")
        more = {"ids": [one]} if operation is FORGET else {}
        embedder.then = lambda operation=operation, more=more, fields=fields: memory(
            operation, **more, **fields
        )
        with pytest.raises(NotFoundError):
            await memory(UPDATE, id=one, content=f"tide {number} has turned")
        assert (await memory(LIST)).records == ()
    assert await faults(memory.ledger, "default") == []


async def test_a_change_is_planned_again_over_one_that_came_in_between(
    memory: TestMemory, embedder: Stopping
) -> None:
    one = await kept(memory, "start", tags=["a"])
    embedder.then = lambda: memory(UPDATE, id=one, content="theirs", update_strategy="append")
    await memory(UPDATE, id=one, content="mine", update_strategy="append")
    assert (await memory(GET, id=one)).content == "start\ntheirs\nmine"
    embedder.then = lambda: memory(UPDATE, id=one, tags=["b"])
    with pytest.raises(ConflictError) as told:
        await memory(UPDATE, id=one, content="late", if_version=3)
    assert told.value.reason == "version_mismatch"


async def test_what_is_made_of_it_while_it_is_being_erased_goes_too(memory: TestMemory) -> None:
    class Slow:
        """A room that is asked what it keeps, while somebody else is quicker."""

        has_come = False

        async def reached(self, *_: Any) -> Reached:
            if not self.has_come:
                self.has_come = True
                await kept(
                    memory,
                    "a summary of the plan",
                    source="consolidation",
                    links=[{"to": one, "rel": "derived_from"}],
                )
            return Reached()

    one = await kept(memory, "the plan")
    forget: Forget = replace(memory.service.forget, reach=(Slow(),))
    gone = await forget.forget(
        memory.context(), ForgetRequest(agent_id="agent", ids=(one,), hard_delete=True)
    )
    assert len(gone.forgotten_ids) == 2
    assert (await memory(LIST)).records == ()
    assert await faults(memory.ledger, "default") == []


async def test_the_embedder_forgets_what_is_erased_though_nobody_waits_for_it(embedder: Stopping) -> None:
    class Held(Ledger):
        """Answers a commit only when it is allowed to."""

        is_reached, may_go_on = asyncio.Event(), asyncio.Event()

        async def commit(self, *commits: Commit, checked_at: int | None = None) -> Sequence[Committed]:
            done = await super().commit(*commits, checked_at=checked_at)
            if any(commit.draft.op == "erase" for commit in commits):
                self.is_reached.set()
                await self.may_go_on.wait()
            return done

    memory = open_memory(Held(SqliteDriver(":memory:"), (STORES, SECRETS)), embedder=embedder)
    one = await kept(memory, "the plan")
    erasing = asyncio.create_task(memory(FORGET, ids=[one], hard_delete=True))
    await asyncio.wait_for(Held.is_reached.wait(), 30)
    erasing.cancel()
    await asyncio.wait([erasing])
    assert erasing.cancelled()
    assert embedder.cleared == 1
    await memory.close()


@pytest.mark.parametrize("strategy", ["keep_canonical", "keep_highest_confidence"])
async def test_a_merge_that_changes_no_word_keeps_the_vector(
    memory: TestMemory, embedder: Stopping, strategy: str
) -> None:
    sure, kettle = await kept(memory, "tea at noon", confidence=1.0), await kept(memory, "a kettle")
    doubtful = await kept(memory, "tea", confidence=0.5, links=[{"to": kettle, "rel": "needs"}])
    asked = embedder.asked
    await memory(MERGE, canonical=sure, duplicates=[doubtful], strategy=strategy)
    assert embedder.asked == asked
    (hit,) = await memory(RECALL, query="tea", min_relevance="off", k=1, explain=True)
    assert (hit.id, hit.version) == (sure, 1 if strategy == "keep_canonical" else 2)
    assert hit.why["cosine"] is not None


async def test_a_link_follows_its_target_through_every_merge_and_back(ledger: Ledger) -> None:
    """On both engines: the ledger walks the merges."""
    memory = open_memory(ledger)
    first, second, last = [await kept(memory, f"harbour {name}") for name in ("one", "two", "three")]
    linked = await kept(memory, "harbour four", links=[{"to": first, "rel": "about"}])
    before = (await memory.ledger.head("default")).seq
    await memory(MERGE, canonical=second, duplicates=[first])
    await memory(MERGE, canonical=last, duplicates=[second])
    for tags in (["old"], ["new"]):
        hits = {hit.id: hit for hit in await memory(RECALL, query="harbour", hops=1, min_relevance="off")}
        assert (hits[linked].supporting, hits[last].supporting) == ((last,), (linked,))
        await memory(UPDATE, id=linked, tags=tags)
    past = await memory(RECALL, query="harbour", hops=1, min_relevance="off", as_of=str(before))
    assert {hit.id: hit.supporting for hit in past}[linked] == (first,)
    for root in (last, linked):
        around = await memory(RELATED, id=root)
        assert [(edge.source, edge.target) for edge in around.edges] == [(linked, last)]
    await memory(RESTORE, id=first)
    hits = {hit.id: hit for hit in await memory(RECALL, query="harbour", hops=1, min_relevance="off")}
    assert hits[linked].supporting == (first,)
    await memory.service.read_log.close()


async def test_a_guarded_change_that_is_repeated_by_its_key_is_answered_again(memory: TestMemory) -> None:
    one = await kept(memory, "one")
    change: dict[str, Any] = {"id": one, "content": "two", "if_version": 1, "idempotency_key": "k"}
    first = await memory(UPDATE, **change)
    again = await memory(UPDATE, **change)
    assert (again.version, again.seq, again.replayed) == (first.version, first.seq, True)
    with pytest.raises(ConflictError) as refused:
        await memory(UPDATE, **{**change, "content": "else"})
    assert refused.value.reason == "idempotency_key_mismatch"
    for late in ({"idempotency_key": "other"}, {"idempotency_key": None}):
        with pytest.raises(ConflictError) as refused:
            await memory(UPDATE, **{**change, **late})
        assert refused.value.reason == "version_mismatch"
    assert (await memory(GET, id=one)).version == 2


async def test_of_two_equal_guarded_changes_at_once_both_are_answered_alike(
    memory: TestMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await kept(memory, "one")
    change: dict[str, Any] = {"id": one, "content": "two", "if_version": 1, "idempotency_key": "k"}
    judge = memory.rules.judge

    async def judged(*given: Any) -> Verdict:
        monkeypatch.setattr(memory.rules, "judge", judge)
        await memory(UPDATE, **change)  # the other one is through before this one looks at the memory
        return Verdict()

    monkeypatch.setattr(memory.rules, "judge", judged)
    late = await memory(UPDATE, **change)
    assert (late.version, late.replayed) == (2, True)


async def test_a_kept_answer_of_a_whole_batch_goes_with_each_of_its_memories(memory: TestMemory) -> None:
    items = [{"content": "one"}, {"content": "two"}]
    for more in ({"atomic": True}, {}):
        first = await memory(REMEMBER_MANY, items=items, idempotency_key=f"k{more}", **more)
        again = await memory(REMEMBER_MANY, items=items, idempotency_key=f"k{more}", **more)
        ids = [[item.response.id for item in answer.results] for answer in (first, again)]
        assert ids[0] == ids[1]
        await memory(FORGET, ids=[ids[0][1]], hard_delete=True)
        fresh = await memory(REMEMBER_MANY, items=items, idempotency_key=f"k{more}", **more)
        assert not {item.response.id for item in fresh.results} & set(ids[0])


async def test_a_batch_with_a_key_goes_each_for_itself_and_nothing_twice(
    memory: TestMemory, embedder: Stopping
) -> None:
    one = await kept(memory, "one")
    items = [{"content": "new"}, {"content": "changed", "id": one}, {"content": "lost", "id": "mem_nowhere"}]

    async def fails() -> None:
        raise RuntimeError("the process ends here")

    async def then() -> None:
        embedder.then = fails

    embedder.then = then  # the change is written; what is new is not
    with pytest.raises(RuntimeError):
        await memory(REMEMBER_MANY, items=items, idempotency_key="k")
    assert (await memory(GET, id=one)).content == "changed"
    for _ in range(2):
        answer = await memory(REMEMBER_MANY, items=items, idempotency_key="k")
        assert [None if item.error is None else item.error.code for item in answer.results] == [
            *(None, None),
            "not_found",
        ]
    assert sorted(record.content for record in (await memory(LIST)).records) == ["changed", "new"]
    assert (await memory(GET, id=one)).version == 2


async def test_an_erasure_reaches_what_retention_has_emptied(memory: TestMemory) -> None:
    one = await kept(memory, "the secret word")
    await memory(UPDATE, id=one, content="another word")
    made = await kept(
        memory, "made of it", source="consolidation", links=[{"to": one, "rel": "compacted_from"}]
    )
    await memory(UPDATE, id=made, content="made of it, later", links=[])
    head = await memory.ledger.head("default")
    await memory.ledger.prune("default", head.seq, "tester", memory.clock())
    gone = await memory(FORGET, ids=[one], hard_delete=True)
    assert one in gone.forgotten_ids
    assert await faults(memory.ledger, "default") == []
    with pytest.raises(NotFoundError):
        await memory(RECALL, query="word", as_of="2")


async def test_expiry_and_the_journal_know_every_recall_that_came_before(memory: TestMemory) -> None:
    await kept(memory, "tea")
    memory.clock.now += 40 * DAY
    await memory(RECALL, query="tea", min_relevance="off")
    done = await memory(EXPIRE, policy={"no_recall_in_days": 30}, action="demote")
    assert done.matched_count == 0
    assert [entry.op for entry in await memory.ledger.entries("default", JournalQuery(op="recall"))]
