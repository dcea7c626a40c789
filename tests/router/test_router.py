"""A router over peers: writes, reads, partial failure, deadlines, breakers, nesting, the map of ids."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quipu import (
    BackendUnavailableError,
    InvalidError,
    Memory,
    MemoryStore,
    QuipuError,
    Router,
    UnsupportedError,
)
from quipu.memory.model import MergeRequest, RecallRequest, RememberRequest
from quipu.router.ids import is_one_write
from tests.router.conftest import opened
from tests.router.puppet import Puppet, altered

ANY: dict[str, Any] = {"min_relevance": "off", "k": 10}


async def told(store: Any, query: str = "tea", **given: Any) -> list[str]:
    return [str(hit.content) for hit in await store.recall(query=query, **{**ANY, **given})]


async def test_one_write_is_one_hit_and_reaches_every_copy(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    assert isinstance(router, MemoryStore)
    done = await router.remember(content="Mara is vegetarian")
    await router.remember(content="Bob likes tea")
    assert done.stores == ("a", "b", "c")
    answer = await router.recall(query="what does Mara eat: vegetarian", **ANY)
    assert (answer[0].id, answer[0].content) == (done.id, "Mara is vegetarian")
    assert answer[0].found_by == ("a", "b", "c")
    assert len(answer) == len({hit.id for hit in answer}) == 2
    assert [hit.rank for hit in answer] == [0, 1]
    changed = await router.remember(content="Mara is vegan", id=done.id)
    assert changed.id == done.id
    assert "Mara is vegan" in await told(router, "Mara")
    gone = await router.forget(ids=[done.id, "mem_unknown"])
    assert (gone.forgotten_ids, gone.not_found) == ((done.id,), ("mem_unknown",))
    assert [(row.store, row.count) for row in gone.stores] == [("a", 1), ("b", 1), ("c", 1)]
    for memory in peers.values():
        assert await told(memory, "Mara") == ["Bob likes tea"]


async def test_what_peers_cannot_answer_together_is_refused(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    for given in ({"neighbours": 1}, {"sign_for": {"audience": "a", "nonce": "n"}}):
        with pytest.raises(UnsupportedError) as refused:
            await router.recall(query="tea", **given)
        assert refused.value.reason in given
    alone = Router({"a": peers["a"]}, agent_id="ana")
    for text in ("tea at noon", "with milk"):
        await alone.remember(content=text, session_id="s")
    (hit,) = await alone.recall(query="noon", k=1, min_relevance="off", neighbours=1)
    assert [turn.text for turn in hit.neighbours] == ["with milk"]


async def test_merge_and_expire_reach_every_copy(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    first, second = [await router.remember(content=f"Mara likes tea {n}") for n in range(2)]
    merged = await router.merge(canonical=first.id, duplicates=[second.id, "mem_unknown"])
    assert (merged.canonical, merged.canonical_id) == (first.id, first.id)
    assert (merged.merged_count, merged.merged_ids) == (1, (second.id,))
    assert (merged.not_found, merged.stores) == (("mem_unknown",), ("a", "b", "c"))
    for memory in peers.values():
        assert len(await told(memory)) == 1
    doubtful = await router.remember(content="tea is green", confidence=0.2)
    expired = await router.expire(policy={"confidence_below": 0.5, "type": None})
    assert (expired.matched_count, expired.ids) == (1, (doubtful.id,)), "nulls in a policy are absent"


async def test_a_request_is_ours_or_a_mapping_or_its_fields(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    request = RememberRequest(agent_id="ana", content="tea at noon")
    assert (await router.remember(request)).stores == ("a", "b", "c")
    assert (await router.remember({"agent_id": "ana", "content": "tea at four"})).stores == ("a", "b", "c")
    assert len(await router.recall(RecallRequest(agent_id="ana", query="tea", min_relevance="off"))) == 2
    for wrong in ("tea", 7, MergeRequest(canonical="a", duplicates=("b",))):
        with pytest.raises(InvalidError):
            await router.remember(wrong)
    with pytest.raises(InvalidError):
        await router.remember(request, user_id="mara")
    with pytest.raises(InvalidError) as refused:
        await router.recall(query="tea", ka=3)
    assert refused.value.reason == "unknown_field"


async def test_primary_only_writes_to_the_first(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana", write_policy="primary_only")
    assert (await router.remember(content="tea")).stores == ("a",)
    assert await told(peers["b"]) == []
    assert [hit.found_by for hit in await router.recall(query="tea", **ANY)] == [("a",)]


async def test_a_peer_that_hangs_or_fails_is_named_and_the_others_answer(peers: dict[str, Memory]) -> None:
    hung, broken = Puppet(peers["b"]), Puppet(peers["c"])
    router = Router(
        {"a": peers["a"], "hung": hung, "broken": broken},
        agent_id="ana",
        deadline_s=2,
        write_deadline_s=2,
    )
    await router.remember(content="tea at noon")
    hung.hangs = broken.fails = True
    answer = await asyncio.wait_for(router.recall(query="tea", **ANY), 30)
    assert [hit.content for hit in answer] == ["tea at noon"]
    assert answer.stores_queried == ("a",)
    assert [(one.store, one.reason) for one in answer.stores_failed] == [
        ("broken", "failed"),
        ("hung", "late"),
    ]
    done = await asyncio.wait_for(router.remember(content="tea at four"), 30)
    assert done.stores == ("a",)
    assert {one.store for one in done.stores_failed} == {"broken", "hung"}
    gone = await asyncio.wait_for(router.forget(ids=[done.id]), 30)
    assert {row.store: (row.count, row.error) for row in gone.stores} == {
        "a": (1, None),
        "hung": (0, "backend_unavailable"),
        "broken": (0, "backend_unavailable"),
    }
    assert "10.0.0.9" not in f"{answer} {done} {gone}"
    health = await asyncio.wait_for(router.health(), 30)
    assert health["status"] == "degraded"
    assert {row["backend"]: row["status"] for row in health["stores"]} == {
        "a": "ok",
        "hung": "error",
        "broken": "error",
    }


async def test_when_all_fail_the_first_error_is_raised_and_never_an_empty_answer(
    peers: dict[str, Memory],
) -> None:
    broken = Puppet(peers["a"])
    broken.fails = True
    router = Router([broken], agent_id="ana")
    for call in (router.recall(query="tea"), router.remember(content="tea"), router.forget(ids=["x"])):
        with pytest.raises(BackendUnavailableError):
            await call
    calls = broken.calls
    with pytest.raises(InvalidError):
        await router.remember(content="")
    assert broken.calls == calls, "what is refused by all is not asked for"


async def test_a_peer_that_keeps_failing_is_left_alone_and_tried_again(peers: dict[str, Memory]) -> None:
    broken, now = Puppet(peers["b"]), [0]
    router = Router({"a": peers["a"], "b": broken}, agent_id="ana", clock=lambda: now[0])
    await router.remember(content="tea")
    broken.fails = True
    for _ in range(5):
        await router.recall(query="tea")
    before = broken.calls
    answer = await router.recall(query="tea")
    assert broken.calls == before, "skipped at no cost"
    assert [(one.store, one.reason) for one in answer.stores_failed] == [("b", "breaker_open")]
    broken.fails = False
    assert {row["backend"]: row["breaker"] for row in (await router.health())["stores"]} == {
        "a": "closed",
        "b": "open",
    }
    now[0] += 40_000
    assert (await router.recall(query="tea")).stores_queried == ("a", "b")


async def test_a_quorum_of_peers_fails_closed(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    shared = await router.remember(content="tea for all")
    await peers["a"].remember("tea for one")
    assert [hit.id for hit in await router.recall(query="tea", quorum_k=2, **ANY)] == [shared.id]
    assert len(await router.recall(query="tea", **ANY)) == 2, "peers may hold different things"
    with pytest.raises(InvalidError):
        await router.recall(query="tea", quorum_k=4)
    await peers["c"].close()
    with pytest.raises(BackendUnavailableError) as refused:
        await router.recall(query="tea", quorum_k=3)
    assert refused.value.reason == "quorum_unreachable"


@pytest.mark.parametrize("fusion", ["rrf", "max", "weighted"])
async def test_the_order_of_peers_never_matters(peers: dict[str, Memory], fusion: str) -> None:
    writing = Router(peers, agent_id="ana")
    for text in ("tea at noon", "tea at four", "coffee at noon", "tea and coffee"):
        await writing.remember(content=text)
    await peers["b"].remember("tea of b alone")
    seen = set[tuple[object, ...]]()
    for order in ("abc", "cba", "bca"):
        router = Router({name: peers[name] for name in order}, agent_id="ana")
        answer = await router.recall(query="tea at noon", fusion=fusion, **ANY)
        seen.add(tuple((str(hit.content), round(hit.score, 12)) for hit in answer))
    assert len(seen) == 1


async def test_routers_nest(peers: dict[str, Memory]) -> None:
    inner = Router({"a": peers["a"], "b": peers["b"]})
    outer = Router({"inner": inner, "c": peers["c"]}, agent_id="ana")
    done = await outer.remember(content="tea at noon")
    assert done.stores == ("inner", "c")
    (hit,) = await outer.recall(query="tea", **ANY)
    assert (hit.id, hit.found_by) == (done.id, ("c", "inner"))
    await outer.forget(ids=[done.id])
    for memory in peers.values():
        assert await told(memory) == []


async def test_weights_are_by_name_and_wrong_settings_stop_the_start(peers: dict[str, Memory]) -> None:
    wrong: Any
    for wrong in (
        {"weights": {"nobody": 2.0}},
        {"weights": {"a": -1.0}},
        {"write_policy": "some"},
        {"fusion": "best"},
        {"deadline_s": 0},
        {"write_deadline_s": float("nan")},
    ):
        with pytest.raises(InvalidError):
            Router(peers, **wrong)
    await peers["a"].remember("tea of a")
    await peers["b"].remember("tea of b")
    for heavy in "ab":
        router = Router(peers, agent_id="ana", weights={heavy: 10.0}, fusion="weighted")
        answer = await router.recall(query="tea", **ANY)
        assert (answer[0].content, answer.fusion_used) == (f"tea of {heavy}", "weighted")


async def test_a_text_is_the_one_that_most_peers_give(peers: dict[str, Memory]) -> None:
    """The liar is the first by name, and so of equal ranks the first to be asked for its version."""
    liar = Puppet(peers["a"])
    liar.says = lambda hits: [altered(hit, content="poison") for hit in hits]
    router = Router({**peers, "a": liar}, agent_id="ana")
    done = await router.remember(content="tea at noon")
    (hit,) = await router.recall(query="tea", **ANY)
    assert (hit.id, hit.content, hit.source_store) == (done.id, "tea at noon", "b")
    two = Router({"a": liar, "b": peers["b"]}, agent_id="ana")
    again = await two.remember(content="coffee at four")
    texts = {hit.id: hit.content for hit in await two.recall(query="coffee", **ANY)}
    assert texts[again.id] == "poison", "of two nobody can tell who lies: the better ranked is believed"


async def test_what_nobody_noted_is_one_by_type_and_text_and_never_by_a_bare_id(
    memories: Callable[[str], dict[str, Memory]],
) -> None:
    two = memories("ab")
    for memory in two.values():
        await memory.remember("tea at noon")
    await two["a"].remember("tea at noon", user_id="mara")  # the same words about somebody else
    await two["b"].remember("tea at noon", type="episodic")
    router = Router(two, agent_id="ana")
    assert len(await router.recall(query="tea", **ANY)) == 3

    counting = {name: Puppet(memory) for name, memory in memories("cd").items()}
    for name, puppet in counting.items():
        await puppet.inner.remember(f"tea of {name}")
        puppet.says = lambda hits: [altered(hit, id=f"o-{n}") for n, hit in enumerate(hits, 1)]
    hits = list(await Router(counting, agent_id="ana").recall(query="tea", **ANY))
    assert {str(hit.content): hit.id for hit in hits} == {"tea of c": "o-1", "tea of d": "d:o-1"}


# -- the map of ids -------------------------------------------------------------------------------------------------


def kept(place: Path) -> dict[str, Memory]:
    return {name: opened(f"{place}/{name}.db") for name in "ab"}


@pytest.mark.parametrize("where", ["a file of its own", "a peer's file", "a database"])
async def test_one_id_leads_to_every_copy_after_a_restart(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    match where:
        case "a database":
            ids = str(request.getfixturevalue("database"))
        case "a peer's file":
            ids = f"sqlite://{tmp_path}/a.db"
        case _:
            ids = f"sqlite://{tmp_path}/router.db"
    peers = kept(tmp_path)
    async with Router(peers, agent_id="ana", ids=ids) as router:
        done = await router.remember(content="tea at noon")
        other = await router.remember(content="tea at four")
    alone = await peers["b"].remember("tea that b alone was told of")
    for memory in peers.values():
        await memory.close()

    peers = kept(tmp_path)
    in_another_order = dict(reversed(peers.items()))
    async with Router(in_another_order, agent_id="ana", ids=ids) as router:
        hits = {hit.id: hit for hit in await router.recall(query="tea", **ANY)}
        assert {id: hit.found_by for id, hit in hits.items()} == {
            done.id: ("a", "b"),
            other.id: ("a", "b"),
            alone.id: ("b",),
        }
        await router.remember(content="tea at one", id=done.id)
        merged = await router.merge(canonical=done.id, duplicates=[other.id])
        assert merged.merged_count == 1
        for memory in peers.values():
            assert "tea at one" in await told(memory)
        gone = await router.forget(ids=[done.id])
        assert [(row.store, row.count) for row in gone.stores] == [("b", 1), ("a", 1)]
        assert [hit.id for hit in await router.recall(query="tea", **ANY)] == [alone.id]
    for memory in peers.values():
        assert (await memory.verify()).verified
        await memory.close()


async def test_without_a_place_the_map_lives_as_long_as_the_router(
    memories: Callable[[str], dict[str, Memory]],
) -> None:
    two = memories("ab")
    done = await Router(two, agent_id="ana").remember(content="tea at noon")
    gone = await Router(two, agent_id="ana").forget(ids=[done.id])
    assert [row.count for row in gone.stores] == [1, 0], "the other copy is called otherwise, as nobody knows"


async def test_a_router_whose_map_cannot_be_reached_writes_nothing(
    memories: Callable[[str], dict[str, Memory]], tmp_path: Path
) -> None:
    (tmp_path / "router.db").write_bytes(b"this is no ledger, and long enough to be looked at" * 100)
    two = memories("ab")
    router = Router(two, agent_id="ana", ids=f"sqlite://{tmp_path}/router.db")
    for call in (router.forget(ids=["mem_1"]), router.remember(content="tea")):
        with pytest.raises(QuipuError):
            await call
    await router.close()
    for memory in two.values():
        assert await told(memory) == [], "nor anything that nobody could find again"


async def test_a_write_that_was_not_noted_as_the_router_was_killed_is_forgotten_everywhere(
    tmp_path: Path,
) -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.router.killed", str(tmp_path))
    assert await asyncio.wait_for(ended.wait(), 60) == -signal.SIGKILL
    peers = kept(tmp_path)
    before = await peers["b"].remember("tea at noon", user_id="somebody else")
    mara: dict[str, Any] = {"query": "tea", "user_id": "mara", **ANY}
    async with Router(peers, agent_id="ana", ids=f"sqlite://{tmp_path}/router.db") as router:
        (hit,) = await router.recall(**mara)
        assert (hit.content, hit.found_by) == ("tea at noon", ("a", "b")), "both had taken it"
        assert is_one_write(hit, altered(hit, created_at=hit.created_at + 9), within_ms=10)
        other: Any
        for other in (
            {"user_id": "somebody else"},
            {"content": "tea"},
            {"created_at": hit.created_at + 11},
        ):
            assert not is_one_write(hit, altered(hit, **other), within_ms=10)
        gone = await router.forget(ids=[hit.id])
        assert [(row.store, row.count) for row in gone.stores] == [("a", 1), ("b", 1)]
        assert list(await router.recall(**mara)) == []
        (left,) = await router.recall(query="tea", **ANY)
        assert left.id == before.id, "the same text of somebody else is not the same write"
    for memory in peers.values():
        await memory.close()
