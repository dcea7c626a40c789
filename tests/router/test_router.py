"""A router over peers: writes, reads, partial failure, deadlines, breakers, nesting."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory, MemoryStore, QuipuError, Router
from quipu.model.operations import (
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    Fusion,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import RecallResponse, RememberResponse
from quipu.model.record import MemoryType
from quipu.rules.peers import is_one_write
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.router.asked import fact, query


class Faulty:
    """A peer that hangs or fails, over one that works."""

    def __init__(self, inner: Memory) -> None:
        self._inner = inner
        self.hangs = self.fails = False
        self.calls = 0

    async def _touch(self) -> None:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise OSError("connection to 10.0.0.9 refused")

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        await self._touch()
        return await self._inner.remember(request)

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        await self._touch()
        return await self._inner.recall(request)

    async def forget(self, request: ForgetRequest, /) -> Any:
        await self._touch()
        return await self._inner.forget(request)

    async def merge(self, request: MergeRequest, /) -> Any:
        await self._touch()
        return await self._inner.merge(request)

    async def expire(self, request: ExpireRequest, /) -> Any:
        await self._touch()
        return await self._inner.expire(request)

    async def health(self) -> Mapping[str, Any]:
        await self._touch()
        return await self._inner.health()

    @property
    def capabilities(self) -> set[str]:
        return self._inner.capabilities


@requirement("memorywire:router.peers")
async def test_one_write_is_one_hit_and_reaches_every_copy(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    assert isinstance(router, MemoryStore)
    done = await router.remember(fact("Mara is vegetarian"))
    await router.remember(fact("Bob likes tea"))
    assert done.stores == ("a", "b", "c")
    answer = await router.recall(query("what does Mara eat: vegetarian"))
    assert (answer[0].id, answer[0].content, answer[0].stores) == (
        done.id,
        "Mara is vegetarian",
        ("a", "b", "c"),
    )
    assert len(answer) == len({hit.id for hit in answer})
    changed = await router.remember(fact("Mara is vegan", id=done.id))
    assert changed.id == done.id
    assert {str(hit.content) for hit in await router.recall(query("Mara"))} >= {"Mara is vegan"}
    gone = await router.forget(ForgetRequest(agent_id="ana", ids=(done.id,)))
    assert gone.forgotten_ids == (done.id,)
    assert [(row.store, row.count) for row in gone.stores] == [("a", 1), ("b", 1), ("c", 1)]
    for memory in peers.values():
        assert "Mara" not in str(list(await memory.recall("Mara", min_relevance=0)))


@requirement("memorywire:router.peers")
async def test_merge_and_expire_reach_every_copy(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    first, second = [await router.remember(fact(f"Mara likes tea {n}")) for n in range(2)]
    merged = await router.merge(MergeRequest(agent_id="ana", canonical=first.id, duplicates=(second.id,)))
    assert (merged.canonical, merged.merged_count) == (first.id, 1)
    for memory in peers.values():
        assert len(await memory.recall("tea", min_relevance=0)) == 1
    expired = await router.expire(ExpireRequest(agent_id="ana", policy=ExpirePolicy(confidence_below=0.5)))
    assert expired.matched_count == 0


@requirement("memorywire:router.primary-only")
async def test_primary_only_writes_to_the_first(peers: dict[str, Memory]) -> None:
    router = Router(peers, write_policy="primary_only")
    assert (await router.remember(fact("tea"))).stores == ("a",)
    assert len(await peers["b"].recall("tea", min_relevance=0)) == 0
    assert [hit.stores for hit in await router.recall(query("tea"))] == [("a",)]


@requirement("memorywire:router.deadline")
async def test_a_peer_that_hangs_or_fails_is_named_and_the_others_answer(peers: dict[str, Memory]) -> None:
    hung, broken = Faulty(peers["b"]), Faulty(peers["c"])
    router = Router({"a": peers["a"], "hung": hung, "broken": broken}, deadline_s=0.3, write_deadline_s=0.5)
    await router.remember(fact("tea at noon"))
    hung.hangs = broken.fails = True
    started = time.perf_counter()
    answer = await router.recall(query("tea"))
    assert time.perf_counter() - started < 1.5
    assert [hit.content for hit in answer] == ["tea at noon"]
    assert answer.stores_queried == ("a",)
    assert answer.extensions["stores_failed"] == [
        {"store": "broken", "reason": "mirror_failed"},
        {"store": "hung", "reason": "mirror_late"},
    ]
    done = await router.remember(fact("tea at four"))
    assert done.stores == ("a",)
    assert "10.0.0.9" not in f"{answer} {done}"
    health = await router.health()
    assert health["status"] == "degraded"


@requirement("memorywire:router.deadline")
async def test_when_all_fail_the_first_error_is_raised_and_never_an_empty_answer(
    peers: dict[str, Memory],
) -> None:
    broken = Faulty(peers["a"])
    broken.fails = True
    router = Router([broken])
    for call in (router.recall(query("tea")), router.remember(fact("tea"))):
        with pytest.raises(BackendUnavailableError):
            await call
    bad = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="")
    with pytest.raises(InvalidError):
        await Router(peers).remember(bad)


@requirement("memorywire:router.breaker")
async def test_a_peer_that_keeps_failing_is_left_alone_and_tried_again(peers: dict[str, Memory]) -> None:
    broken, now = Faulty(peers["b"]), [0]
    router = Router({"a": peers["a"], "b": broken}, clock=lambda: now[0])
    await router.remember(fact("tea"))
    broken.fails = True
    for _ in range(5):
        await router.recall(query("tea"))
    before = broken.calls
    answer = await router.recall(query("tea"))
    assert broken.calls == before, "skipped at no cost"
    assert answer.extensions["stores_failed"] == [{"store": "b", "reason": "breaker_open"}]
    broken.fails = False
    now[0] += 40_000
    assert (await router.recall(query("tea"))).stores_queried == ("a", "b")


@requirement("memorywire:router.quorum")
async def test_a_quorum_of_peers_fails_closed(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    shared = await router.remember(fact("tea for all"))
    await peers["a"].remember("tea for one")
    assert [hit.id for hit in await router.recall(query("tea", quorum_k=2))] == [shared.id]
    assert len(await Router(peers, own_contents=["a"]).recall(query("tea"))) == 2
    with pytest.raises(InvalidError):
        await router.recall(query("tea", quorum_k=4))
    await peers["c"].close()
    with pytest.raises(BackendUnavailableError):
        await router.recall(query("tea", quorum_k=3))


@requirement("memorywire:router.order")
@pytest.mark.parametrize("fusion", list(Fusion))
async def test_the_order_of_peers_never_matters(peers: dict[str, Memory], fusion: Fusion) -> None:
    writing = Router(peers)
    for text in ("tea at noon", "tea at four", "coffee at noon", "tea and coffee"):
        await writing.remember(fact(text))
    await peers["b"].remember("tea of b alone")
    seen = set[tuple[object, ...]]()
    for order in ("abc", "cba", "bca"):
        router = Router({name: peers[name] for name in order})
        answer = await router.recall(query("tea at noon", fusion=fusion))
        seen.add(tuple((str(hit.content), round(hit.score, 12)) for hit in answer))
    assert len(seen) == 1


@requirement("memorywire:router.nested")
async def test_routers_nest(peers: dict[str, Memory]) -> None:
    inner = Router({"a": peers["a"], "b": peers["b"]})
    outer = Router({"inner": inner, "c": peers["c"]})
    done = await outer.remember(fact("tea at noon"))
    assert done.stores == ("inner", "c")
    (hit,) = await outer.recall(query("tea"))
    assert (hit.id, hit.stores) == (done.id, ("c", "inner"))
    await outer.forget(ForgetRequest(agent_id="ana", ids=(done.id,)))
    for memory in peers.values():
        assert len(await memory.recall("tea", min_relevance=0)) == 0


@requirement("memorywire:router.weights")
async def test_weights_are_by_name_and_unknown_names_stop_the_start(peers: dict[str, Memory]) -> None:
    with pytest.raises(InvalidError):
        Router(peers, weights={"nobody": 2.0})
    with pytest.raises(InvalidError):
        Router(peers, weights={"a": -1.0})
    with pytest.raises(InvalidError):
        Router(peers, own_contents=["nobody"])
    with pytest.raises(InvalidError):
        Router([])
    with pytest.raises(InvalidError):
        Router(peers, write_policy="some")
    await peers["a"].remember("tea of a")
    await peers["b"].remember("tea of b")
    for heavy in "ab":
        router = Router(peers, weights={heavy: 10.0})
        answer = await router.recall(query("tea", fusion=Fusion.WEIGHTED))
        assert answer[0].content == f"tea of {heavy}"


class Lying:
    """A peer that gives texts of its own for ids that are known."""

    def __init__(self, inner: Memory) -> None:
        self._inner = inner

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        answer = await self._inner.recall(request)
        return replace(answer, results=tuple(replace(hit, content="poison") for hit in answer))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@requirement("memorywire:router.peers")
async def test_a_text_is_the_one_that_most_peers_give(peers: dict[str, Memory]) -> None:
    """The liar is the first by name, and so of equal ranks the first to be asked for its version."""
    router = Router({**peers, "a": Lying(peers["a"])})
    done = await router.remember(fact("tea at noon"))
    (hit,) = await router.recall(query("tea"))
    assert (hit.id, hit.content, hit.stores) == (done.id, "tea at noon", ("b", "c")), "who lies has no vote"
    two = Router({"a": Lying(peers["a"]), "b": peers["b"]})
    again = await two.remember(fact("coffee at four"))
    told = {hit.id: hit.content for hit in await two.recall(query("coffee"))}
    assert told[again.id] == "poison", "of two nobody can tell who lies: the better ranked is believed"


def _kept(place: Path) -> dict[str, Memory]:
    return {
        name: Memory("ana", stores=f"sqlite://{place}/{name}.db", embedder=WordEmbedder()) for name in "ab"
    }


@requirement("memorywire:router.ids-kept")
@pytest.mark.parametrize("where", ["a file of its own", "a peer's file", "a database"])
async def test_one_id_leads_to_every_copy_after_a_restart(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    match where:
        case "a database":
            ids = str(request.getfixturevalue("fresh_url"))
        case "a peer's file":
            ids = f"sqlite://{tmp_path}/a.db"
        case _:
            ids = f"sqlite://{tmp_path}/router.db"
    peers = _kept(tmp_path)
    async with Router(peers, ids=ids) as router:
        done = await router.remember(fact("tea at noon"))
        other = await router.remember(fact("tea at four"))
    stranger = await peers["b"].remember("tea that b alone was told of")
    for memory in peers.values():
        await memory.close()

    peers = _kept(tmp_path)
    async with Router(dict(reversed(peers.items())), ids=ids) as router:  # in another order, too
        hits = {hit.id: hit for hit in await router.recall(query("tea"))}
        assert {id: hit.stores for id, hit in hits.items()} == {
            done.id: ("a", "b"),
            other.id: ("a", "b"),
            stranger.id: ("b",),
        }
        await router.remember(fact("tea at one", id=done.id))
        merged = await router.merge(MergeRequest(agent_id="ana", canonical=done.id, duplicates=(other.id,)))
        assert merged.merged_count == 1
        for memory in peers.values():
            assert {str(hit.content) for hit in await memory.recall("tea", min_relevance=0)} >= {"tea at one"}
        gone = await router.forget(ForgetRequest(agent_id="ana", ids=(done.id,)))
        assert [(row.store, row.count) for row in gone.stores] == [("b", 1), ("a", 1)]
        assert [hit.id for hit in await router.recall(query("tea"))] == [stranger.id]
    for memory in peers.values():
        assert (await memory.verify()).holds
        assert await memory.mirrors() == ()
        await memory.close()


@requirement("memorywire:router.ids-kept")
async def test_without_a_place_the_map_lives_as_long_as_the_router(tmp_path: Path) -> None:
    peers = _kept(tmp_path)
    done = await Router(peers).remember(fact("tea at noon"))
    gone = await Router(peers).forget(ForgetRequest(agent_id="ana", ids=(done.id,)))
    assert [row.count for row in gone.stores] == [1, 0], "the other copy is called otherwise, as nobody knows"
    for memory in peers.values():
        await memory.close()


@requirement("memorywire:router.ids-kept")
async def test_a_router_whose_map_cannot_be_reached_writes_nothing(tmp_path: Path) -> None:
    peers = _kept(tmp_path)
    (tmp_path / "router.db").write_bytes(b"this is no ledger, and long enough to be looked at" * 100)
    router = Router(peers, ids=f"sqlite://{tmp_path}/router.db")
    with pytest.raises(QuipuError):
        await router.forget(ForgetRequest(agent_id="ana", ids=("mem_1",)))
    with pytest.raises(QuipuError):
        await router.remember(fact("tea"))
    await router.close()
    for memory in peers.values():
        assert len(await memory.recall("tea", min_relevance=0)) == 0, (
            "nor anything that nobody could find again"
        )
        await memory.close()


@requirement("memorywire:router.ids-kept")
async def test_a_write_that_was_not_noted_as_the_router_was_killed_is_forgotten_everywhere(
    tmp_path: Path,
) -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.router.killed", str(tmp_path))
    assert await ended.wait() == -signal.SIGKILL
    peers = _kept(tmp_path)
    before = await peers["b"].remember("tea at noon", user_id="somebody else")
    async with Router(peers, ids=f"sqlite://{tmp_path}/router.db") as router:
        asked = query("tea", user_id="mara")
        (hit,) = await router.recall(asked)
        assert (hit.content, hit.stores) == ("tea at noon", ("a", "b")), "both had taken it"
        assert is_one_write(hit, replace(hit, created_at=hit.created_at + 9), within_ms=10)
        for other in ({"user_id": "somebody else"}, {"content": "tea"}, {"created_at": hit.created_at + 11}):
            assert not is_one_write(hit, replace(hit, **other), within_ms=10)
        gone = await router.forget(ForgetRequest(agent_id="ana", ids=(hit.id,)))
        assert [(row.store, row.count) for row in gone.stores] == [("a", 1), ("b", 1)]
        assert list(await router.recall(asked)) == []
        (left,) = await router.recall(query("tea"))
        assert left.id == before.id, "the same text of somebody else is not the same write"
    for memory in peers.values():
        await memory.close()
