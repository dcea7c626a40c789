"""What a router shows counts as recalled with its peers, and nothing that it only looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from quipu import Memory, QuipuError, Router
from quipu.model.operations import ExpirePolicy, ExpireRequest, RecallRequest
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.router.asked import fact

TEXTS = [f"the ferry to island number {number} leaves at noon" for number in range(8)]


@pytest.fixture
async def two() -> AsyncIterator[dict[str, Memory]]:
    made = {name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "ab"}
    yield made
    for memory in made.values():
        await memory.close()


def asked(k: int = 1, **fields: object) -> RecallRequest:
    return RecallRequest(agent_id="ana", query="ferry to island number 3", k=k, min_relevance=0.0, **fields)  # type: ignore[arg-type]  the fields are those of the request


async def counts(memory: Memory) -> dict[str, int]:
    """How often each text was recalled, as the memory's own trail tells."""
    await memory.flush()
    found: dict[str, int] = {}
    for record in (await memory.list(limit=100)).records:
        marked = await memory._service()
        mark = await marked.reading.marks(memory._principal, record.id)
        found[str(record.content)] = mark.recall_count
    return found


def only(*texts: str) -> dict[str, int]:
    return {text: int(text in texts) for text in TEXTS}


@requirement("memorywire:router.peers")
async def test_only_what_was_shown_counts_as_recalled(two: dict[str, Memory]) -> None:
    router = Router(two)
    for text in TEXTS:
        await router.remember(fact(text))
    (hit,) = await router.recall(asked())
    assert hit.content == TEXTS[3]
    assert [await counts(memory) for memory in two.values()] == [only(TEXTS[3])] * 2
    await router.recall(asked(k=8))
    assert set((await counts(two["a"])).values()) == {1, 2}


async def test_the_journal_still_tells_everything_that_a_peer_gave(two: dict[str, Memory]) -> None:
    router = Router(two)
    for text in TEXTS:
        await router.remember(fact(text))
    await router.recall(asked())
    await two["a"].flush()
    entry = (await two["a"].journal(after=0, limit=100))[-1]
    assert entry.op.value == "recall"
    assert len(entry.records) == len(TEXTS)
    assert (await two["a"].verify()).holds


async def test_a_peer_that_is_asked_by_itself_counts_as_before(two: dict[str, Memory]) -> None:
    router = Router(two)
    for text in TEXTS:
        await router.remember(fact(text))
    await router.recall(asked())
    await two["a"].recall(asked(k=8))
    assert (await counts(two["a"])) == {text: 1 + (text == TEXTS[3]) for text in TEXTS}
    assert await counts(two["b"]) == only(TEXTS[3])


async def test_what_was_cut_for_the_budget_was_not_recalled(two: dict[str, Memory]) -> None:
    router = Router(two)
    for text in TEXTS:
        await router.remember(fact(text))
    shown = await router.recall(asked(k=8, max_tokens=25))
    assert 0 < len(shown.results) < 8
    assert sum((await counts(two["a"])).values()) == len(shown.results)


async def test_routers_over_routers_count_what_the_outermost_shows(two: dict[str, Memory]) -> None:
    third = Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder())
    try:
        router = Router({"inner": Router(two), "c": third})
        for text in TEXTS:
            await router.remember(fact(text))
        (hit,) = await router.recall(asked())
        assert hit.content == TEXTS[3]
        for memory in (*two.values(), third):
            assert await counts(memory) == only(TEXTS[3])
    finally:
        await third.close()


async def test_a_recall_that_fails_recalls_nothing_and_is_noted(two: dict[str, Memory]) -> None:
    class Broken:
        """It promises everything and fails."""

        capabilities = two["a"].capabilities

        def __getattr__(self, name: str) -> object:
            async def fail(*_: object) -> None:
                raise OSError("no")

            if name in ("remember", "recall", "forget", "merge", "expire", "health"):
                return fail
            raise AttributeError(name)

    router = Router({"a": two["a"], "broken": Broken()})  # type: ignore[dict-item]  it has every method
    for text in TEXTS:
        await router.remember(fact(text))
    with pytest.raises(QuipuError):
        await router.recall(asked(quorum_k=2))
    assert set((await counts(two["a"])).values()) == {0}
    assert (await two["a"].journal(after=0, limit=100))[-1].op.value == "recall"


async def test_the_recall_path_commits_nothing(two: dict[str, Memory]) -> None:
    router = Router(two)
    for text in TEXTS:
        await router.remember(fact(text))
    await two["a"].flush()
    before = (await two["a"].health())["seq"]
    await asyncio.gather(*(router.recall(asked()) for _ in range(5)))
    assert (await two["a"].health())["seq"] == before
    assert (await counts(two["a"]))[TEXTS[3]] == 5


async def test_expiry_goes_by_what_was_shown() -> None:
    """What was only looked at is as unused as it was."""
    clock = FixedClock()
    two = {
        name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder(), clock=clock) for name in "ab"
    }
    try:
        router = Router(two)
        kept = {text: (await router.remember(fact(text))).id for text in TEXTS}
        clock.move(30 * 86_400_000)
        await router.recall(asked())
        policy = ExpirePolicy(no_recall_in_days=10)
        found = await two["a"].expire(ExpireRequest(agent_id="ana", policy=policy, dry_run=True))
        assert set(found.extensions["ids"]) == set(kept.values()) - {kept[TEXTS[3]]}
    finally:
        for memory in two.values():
            await memory.close()
