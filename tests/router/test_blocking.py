"""A router over blocking memories: the same answers, from code that cannot await."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quipu import BackendUnavailableError, ExpirePolicy, ExpireRequest, InvalidError, MergeRequest
from quipu import Router as AsyncRouter
from quipu.model.operations import ForgetRequest, RecallRequest
from quipu.sync import Memory, Router
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.router.asked import fact, query
from tests.router.plain import Plain


@pytest.fixture
def two() -> Iterator[dict[str, Memory]]:
    made = {name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "ab"}
    yield made
    for memory in made.values():
        memory.close()


@requirement("memorywire:router.peers")
def test_one_write_is_one_hit_and_reaches_every_copy(two: dict[str, Memory]) -> None:
    with Router(two) as router:
        kept = router.remember(fact("Mara is vegetarian"))
        other = router.remember(fact("Mara is a vegetarian"))
        assert kept.stores == ("a", "b")
        hits = list(router.recall(query("vegetarian")))
        assert {hit.id for hit in hits} == {kept.id, other.id}
        assert hits[0].stores == ("a", "b")
        assert router.merge(
            MergeRequest(agent_id="ana", canonical=kept.id, duplicates=(other.id,))
        ).merged_count
        names = router.copies(kept.id)
        assert [two[peer].get(name).content for peer, name in names.items()] == ["Mara is vegetarian"] * 2
        aged = ExpireRequest(agent_id="ana", policy=ExpirePolicy(older_than_days=1))
        assert router.expire(aged).matched_count == 0
        gone = router.forget(ForgetRequest(agent_id="ana", ids=(kept.id,)))
        assert [(row.store, row.count) for row in gone.stores] == [("a", 1), ("b", 1)]
        assert list(two["b"].recall("vegetarian")) == []
        assert router.health()["status"] == "ok"
        assert "semantic" in router.capabilities
        assert repr(router) == "<Router of a, b; writes to all>"


def test_only_what_was_shown_counts_as_recalled_on_other_threads_too(two: dict[str, Memory]) -> None:
    with Router(two) as router:
        for number in range(6):
            router.remember(fact(f"the ferry to island number {number} leaves at noon"))
        router.recall(RecallRequest(agent_id="ana", query="ferry to island number 3", k=1, min_relevance=0.0))
    for memory in two.values():
        memory.flush()
        last = memory.journal(after=0, limit=100)[-1]
        assert (last.op.value, len(last.records)) == ("recall", 6)
        assert sorted(counts(memory)) == [0, 0, 0, 0, 0, 1]


def counts(memory: Memory) -> list[int]:
    """How often each memory was recalled."""

    async def read() -> list[int]:
        service = await memory.memory._service()
        who = memory.memory._principal
        ids = [record.id for record in (await memory.memory.list(limit=100)).records]
        return [(await service.reading.marks(who, id)).recall_count for id in ids]

    return memory.portal.run(read())


def test_many_threads_use_one_router(two: dict[str, Memory]) -> None:
    with Router(two) as router, ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda number: router.remember(fact(f"fact number {number}")).id, range(12)))
        assert len(set(ids)) == 12
        found = list(pool.map(lambda number: router.recall(query(f"number {number}")), range(12)))
    assert all(len(answer.stores_queried) == 2 for answer in found)


def test_routers_nest_and_stand_beside_stores_that_are_awaited(two: dict[str, Memory]) -> None:
    with Router(two) as inner, Router({"inner": inner, "plain": Plain("plain")}) as router:
        kept = router.remember(fact("Mara is vegetarian"))
        assert kept.stores == ("inner", "plain")
        (hit,) = router.recall(query("vegetarian"))
        assert hit.stores == ("inner", "plain")
    assert [len(two[name].list().records) for name in "ab"] == [1, 1]


def test_a_peer_that_is_closed_is_named_and_the_others_count(two: dict[str, Memory]) -> None:
    with Router(two) as router:
        router.remember(fact("Mara is vegetarian"))
        two["b"].close()
        answer = router.recall(query("vegetarian"))
        assert answer.stores_queried == ("a",)
        assert [row["store"] for row in answer.extensions["stores_failed"]] == ["b"]


def test_a_closed_router_says_so_and_leaves_its_peers_and_no_thread(two: dict[str, Memory]) -> None:
    two["a"].open()
    before = threading.active_count()
    router = Router(two)
    router.close()
    router.close()
    assert threading.active_count() == before
    with pytest.raises(BackendUnavailableError, match="This router is closed") as caught:
        router.recall(query("tea"))
    assert caught.value.reason == "closed"
    assert two["a"].health()["status"] == "ok"


def test_the_map_of_ids_outlives_the_router(two: dict[str, Memory], tmp_path: Path) -> None:
    place = f"sqlite://{tmp_path / 'router.db'}"
    with Router(two, ids=place) as router:
        kept = router.remember(fact("Mara is vegetarian"))
    with Router(two, ids=place) as router:
        gone = router.forget(ForgetRequest(agent_id="ana", ids=(kept.id,)))
    assert [row.count for row in gone.stores] == [1, 1]


def test_what_is_no_peer_is_refused(two: dict[str, Memory]) -> None:
    threads = threading.active_count()
    with pytest.raises(InvalidError, match="vote twice"):
        Router({"one": two["a"], "two": two["a"]})
    with pytest.raises(InvalidError, match="this is a text"):
        Router(["sqlite://./home.db"])  # type: ignore[list-item]  what is tried
    with pytest.raises(InvalidError, match="mapping or a list"):
        Router(7)  # type: ignore[arg-type]  what is tried
    assert threading.active_count() == threads
    with pytest.raises(InvalidError, match=r"quipu\.sync\.Router"):
        AsyncRouter(two)  # type: ignore[arg-type]  what is tried
