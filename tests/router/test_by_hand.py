"""What somebody meets who builds a router by hand: mistakes, closing, giving up, peers that answer nonsense or block."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory, QuipuError, Router, connect, sync
from quipu.errors import UnsupportedError
from quipu.model.operations import (
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    Fusion,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.record import Link, MemoryType
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import served
from tests.requirement import requirement
from tests.router.asked import fact, query
from tests.router.plain import Plain

ADDRESS = "postgresql://me:hunter2@db/memory"


class Odd(Plain):
    """A plain store that says or does something else when it is asked."""

    def __init__(self, name: str, does: Callable[[RecallResponse], Any]) -> None:
        super().__init__(name)
        self._does = does
        self.is_at_work, self.was_asked = False, asyncio.Event()

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        self.is_at_work = True
        self.was_asked.set()
        try:
            answer = self._does(await super().recall(request))
            return await answer if asyncio.iscoroutine(answer) else answer
        finally:
            self.is_at_work = False


class NoStore:
    """It remembers, and that is all."""

    async def remember(self, request: RememberRequest, /) -> None: ...


# -- building ---------------------------------------------------------------------------------------------------------


@requirement("memorywire:router.by-hand")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs a peer"),
        ([], "needs a peer"),
        (ADDRESS, "a mapping or a list"),
        (None, "a mapping or a list"),
        (Plain("alone"), "a mapping or a list"),
        ([ADDRESS], "this is a text"),
        ({"db": ADDRESS}, "this is a text"),
        ({"half": NoStore()}, "no recall, forget, merge, expire, health"),
        ({"": Plain("x")}, "not empty"),
        ({1: Plain("x")}, "not empty"),
    ],
)
def test_what_cannot_be_a_peer_is_refused_with_what_to_give_instead(given: Any, says: str) -> None:
    with pytest.raises(InvalidError, match=says) as refused:
        Router(given)
    assert "quipu.Memory" in str(refused.value.hint)
    assert "hunter2" not in f"{refused.value} {refused.value.hint} {refused.value.faults}"


@requirement("memorywire:router.by-hand")
def test_one_store_does_not_vote_twice_and_a_blocking_one_is_named(tmp_path: Path) -> None:
    store = Plain("x")
    with pytest.raises(InvalidError, match="the same store as 'a'"):
        Router({"a": store, "b": store})
    with (
        sync.Memory("ana", stores=f"sqlite://{tmp_path}/m.db", embedder="none") as blocking,
        pytest.raises(InvalidError, match=r"quipu\.sync\.Router"),
    ):
        Router([blocking])
    for options in ({"deadline_s": 0}, {"write_deadline_s": float("nan")}, {"own_contents": "x"}):
        with pytest.raises(InvalidError):
            Router({"x": store}, **options)


@requirement("memorywire:router.by-hand")
async def test_a_router_tells_what_it_is_and_nothing_once_it_is_closed(
    peers: dict[str, Memory], tmp_path: Path
) -> None:
    router = Router(peers, ids=f"sqlite://{tmp_path}/ids.db")
    assert repr(router) == "<Router of a, b, c; writes to all>"
    kept = await router.remember(fact("tea"))
    assert await router.copies("mem_unknown") == {}
    names = await router.copies(kept.id)
    assert [str((await peers[name].get(id)).content) for name, id in names.items()] == ["tea"] * 3
    await router.close()
    await router.close()
    before = set(threading.enumerate())
    assert "closed" in repr(router)
    for call in (
        router.remember(fact("more")),
        router.recall(query("tea")),
        router.forget(ForgetRequest(agent_id="ana", ids=(kept.id,))),
        router.health(),
        router.copies(kept.id),
    ):
        with pytest.raises(BackendUnavailableError) as refused:
            await call
        assert refused.value.reason == "closed"
    left = {one.name for one in set(threading.enumerate()) - before if one.name.startswith("quipu")}
    assert not left, "whoever asks a closed router does not open its ledger again"
    assert len(await peers["a"].recall("tea", min_relevance=0)) == 1, (
        "the peers are not the router's to close"
    )


# -- peers that fail --------------------------------------------------------------------------------------------------


@requirement("memorywire:router.by-hand")
async def test_a_peer_that_answers_nonsense_is_named_and_the_others_answer() -> None:
    nonsense: dict[str, Callable[[RecallResponse], Any]] = {
        "nothing": lambda _: None,
        "a-list": lambda answer: list(answer),
        "no-hits": lambda answer: replace(answer, results=("x", None)),
    }
    for name, does in nonsense.items():
        good, odd = Plain("good"), Odd("odd", does)
        router = Router({"good": good, "odd": odd})
        await router.remember(fact("tea at noon"))
        answer = await router.recall(query("tea"))
        assert [hit.content for hit in answer] == ["tea at noon"], name
        assert ("stores_failed" in answer.extensions) is (name != "no-hits")
    alone = Router([Odd("odd", lambda _: None)])
    with pytest.raises(BackendUnavailableError) as refused:
        await alone.recall(query("tea"))
    assert "RecallResponse" in str(refused.value.__cause__), "who looks for the reason finds it"
    assert "RecallResponse" not in str(refused.value)


@requirement("memorywire:router.by-hand")
async def test_who_gives_up_leaves_nothing_running() -> None:
    async def forever(answer: RecallResponse) -> RecallResponse:
        await asyncio.Event().wait()
        return answer

    slow = Odd("slow", forever)
    router = Router({"slow": slow})
    asked = asyncio.create_task(router.recall(query("tea")))
    await slow.was_asked.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await asyncio.sleep(0.01)
    assert not slow.is_at_work
    started = time.perf_counter()
    with pytest.raises(BackendUnavailableError) as late:
        await router.recall(query("tea", deadline_ms=50))
    assert late.value.reason == "mirror_late"
    assert time.perf_counter() - started < 1.5
    await asyncio.sleep(0.01)
    assert not slow.is_at_work


@requirement("memorywire:router.breaker")
async def test_looking_at_the_health_does_not_put_off_the_next_try(peers: dict[str, Memory]) -> None:
    now, is_down = [0], [True]

    def does(answer: RecallResponse) -> RecallResponse:
        if is_down[0]:
            raise OSError("away")
        return answer

    router = Router({"a": Plain("a"), "b": Odd("b", does)}, clock=lambda: now[0])
    for _ in range(5):
        await router.recall(query("tea"))
    now[0], is_down[0] = 40_000, False
    await router.health()
    assert (await router.recall(query("tea"))).stores_queried == ("a", "b")


@requirement("memorywire:router.by-hand")
async def test_many_callers_at_once_each_get_their_own(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    texts = [f"note {n} says w{n}" for n in range(40)]
    kept = await asyncio.gather(*(router.remember(fact(text)) for text in texts))
    found = await asyncio.gather(*(router.recall(query(text, k=1)) for text in texts))
    assert [answer[0].id for answer in found] == [one.id for one in kept]
    assert len({one.id for one in kept}) == 40


# -- promises ---------------------------------------------------------------------------------------------------------


@requirement("memorywire:router.promises")
async def test_a_write_that_shall_wait_never_lands_where_nothing_waits(peers: dict[str, Memory]) -> None:
    plain = Plain("plain")
    router = Router({"plain": plain, "a": peers["a"]})
    held = await router.remember(fact("Mara is ill", approval_required=True))
    assert (held.pending_approval, held.stores, plain.notes) == (True, (), {})
    assert held.extensions["stores_failed"] == [{"store": "plain", "reason": "not_promised"}]
    (row,) = held.extensions["approvals"]
    assert (row["store"], row["approval_url"]) == ("a", held.approval_url)
    assert row["proposal_id"] == (await peers["a"].proposals())[0].id
    with pytest.raises(UnsupportedError) as refused:
        await Router([plain]).remember(fact("Mara is ill", approval_required=True))
    assert (refused.value.reason, "governance" in str(refused.value.hint)) == ("not_promised", True)
    machine = {"name": "m", "initial": "a", "states": ["a"], "transitions": []}
    kept = await router.remember(replace(fact(""), type=MemoryType.PROCEDURAL, content=machine))
    assert kept.stores == ("a",), "the other keeps no procedures"
    unused = ExpireRequest(agent_id="ana", policy=ExpirePolicy(no_recall_in_days=1))
    with pytest.raises(UnsupportedError):
        await Router([plain]).expire(unused)


@requirement("memorywire:router.promises")
async def test_several_peers_promise_what_all_do_and_keep_together(peers: dict[str, Memory]) -> None:
    assert "recall_tracking" in Router({"a": peers["a"]}).capabilities
    assert Router(peers).capabilities == peers["a"].capabilities - {"recall_tracking"}
    assert Router({"a": peers["a"], "p": Plain("p")}).capabilities == Plain("p").capabilities


# -- one answer -------------------------------------------------------------------------------------------------------


async def _told(store: Any, **fields: Any) -> list[tuple[object, ...]]:
    return [
        (
            str(hit.content),
            round(hit.score, 8),
            hit.relevance,
            hit.confidence,
            hit.demoted,
            len(hit.supporting),
        )
        for hit in await store.recall(query("tea at noon", k=10, **fields))
    ]


async def _different_notes(router: Router) -> None:
    """Of all that is weighed: one demoted, two doubtful, two linked."""
    first = await router.remember(fact("tea at noon", metadata={"old": True}))
    await router.remember(fact("tea at noon and at four", confidence=0.3))
    await router.remember(fact("tea with milk", links=(Link(first.id, "about"),)))
    await router.remember(fact("coffee at noon", confidence=0.7))
    await router.remember(fact("noon"))
    policy = ExpirePolicy(type=MemoryType.SEMANTIC)
    demoting = ExpireRequest(agent_id="ana", policy=policy, action=ExpireAction.DEMOTE, filter={"old": True})
    done = await router.expire(demoting)
    assert (done.matched_count, done.stores) == (1, tuple(peer.name for peer in router._peers))
    assert done.extensions["ids"] == [first.id], "by the router's name"


@requirement("memorywire:router.weighed")
@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_over_copies_of_one_memory_it_answers_as_that_memory_does(
    peers: dict[str, Memory], hops: int, count: int
) -> None:
    """In order, relevance and all; by the scores too, but that two votes are twice as much as one."""
    router = Router({name: peers[name] for name in "abc"[:count]})
    await _different_notes(router)
    expected = await _told(peers["a"], hops=hops)
    if count == 2:
        expected = [(text, pytest.approx(2 * score, rel=1e-5), *rest) for text, score, *rest in expected]
    assert await _told(router, hops=hops) == expected
    assert [hit.why for hit in await router.recall(query("tea", hops=hops))] == [None] * 5
    explained = await router.recall(query("tea", hops=hops, explain=True))
    assert sum("hop" in (hit.why or {}) for hit in explained) == (2 if hops else 0)


@requirement("memorywire:router.weighed")
@pytest.mark.parametrize("hops", [0, 1])
async def test_scores_that_are_believed_are_weighed_too(peers: dict[str, Memory], hops: int) -> None:
    router = Router(peers)
    await _different_notes(router)
    asked = query("tea at noon", fusion=Fusion.MAX, hops=hops)
    for hit in await router.recall(asked):
        lift = 1.05 if hit.supporting else 1.0
        weight = lift * (1 - 0.2 * (1 - hit.confidence)) * (0.25 if hit.demoted else 1)
        assert hit.score == pytest.approx(hit.relevance * weight)
    assert [hit.content for hit in await router.recall(asked)][-1] == "tea at noon", "the demoted one is last"


@requirement("memorywire:router.weighed")
async def test_a_server_is_a_peer_like_any_other(peers: dict[str, Memory], tmp_path: Path) -> None:
    with served(tmp_path / "memory.db", embedder=WordEmbedder()) as server:
        async with connect(server.url, token=server.admin_token, agent_id="ana") as remote:
            router = Router({"a": peers["a"], "server": remote, "b": peers["b"]})
            await _different_notes(router)
            assert await _told(router, hops=2) == await _told(peers["a"], hops=2)
            assert {hit.stores for hit in await router.recall(query("tea"))} == {("a", "b", "server")}
            health = await router.health()
            assert health["status"] == "ok"


@requirement("memorywire:router.weighed")
async def test_a_link_leads_to_the_peers_own_copy_and_is_left_out_where_there_is_none(
    peers: dict[str, Memory],
) -> None:
    early = Router({name: peers[name] for name in "ab"})
    first = await early.remember(fact("tea"))
    late = Router(peers)
    late._naming.ids = early._naming.ids
    second = await late.remember(fact("tea with milk", links=(Link(first.id, "about"),)))
    assert second.stores == ("a", "b", "c"), "c has no tea to link to, and keeps the rest"
    for name, id in (await late.copies(second.id)).items():
        record = await peers[name].get(id)
        expected = [] if name == "c" else [(await late.copies(first.id))[name]]
        assert [link.to for link in record.links] == expected
    with pytest.raises(InvalidError):
        await late.remember(fact("lost", links=(Link("mem_unknown", "about"),)))


@requirement("memorywire:router.weighed")
@pytest.mark.parametrize("lies", [{"confidence": 0.1}, {"demoted": True}, {}])
async def test_a_minority_that_claims_links_doubt_or_demotion_moves_nothing(
    peers: dict[str, Memory], lies: dict[str, Any]
) -> None:
    class Liar:
        def __getattr__(self, name: str) -> Any:
            return getattr(peers["a"], name)

        async def recall(self, request: RecallRequest, /) -> RecallResponse:
            answer = await peers["a"].recall(request)
            ids = tuple(hit.id for hit in answer)

            def lie(hit: Hit) -> Hit:
                return replace(hit, supporting=ids, why={"hop": 1}, **lies)

            return replace(answer, results=tuple(map(lie, answer)))

    honest = Router(peers)
    for text in ("tea at noon", "tea at four", "tea at six"):
        await honest.remember(fact(text))
    attacked = Router({**peers, "a": Liar()})
    attacked._naming.ids = honest._naming.ids
    calm = [
        (hit.id, hit.score, hit.supporting, hit.demoted) for hit in await honest.recall(query("tea", hops=1))
    ]
    told = [
        (hit.id, hit.score, hit.supporting, hit.demoted)
        for hit in await attacked.recall(query("tea", hops=1))
    ]
    assert told == calm


@requirement("memorywire:router.by-hand")
async def test_what_is_asked_for_is_kept_or_refused(peers: dict[str, Memory]) -> None:
    router = Router(peers)
    kept = [await router.remember(fact(f"tea {n} " + "x" * 390)) for n in range(5)]
    answer = await router.recall(query("tea", max_tokens=250))
    assert (len(answer), answer.extensions["truncated"]) == (2, True)
    (cut,) = await router.recall(query("tea", max_tokens=10))
    assert (len(str(cut.content)), cut.truncated) == (40, True)
    for bad in (query("tea", k=0), query("tea", k=1001), query("", k=1), query("tea", hops=4)):
        with pytest.raises(InvalidError):
            await router.recall(bad)
    plain: Mapping[str, Any] = {"p": Plain("p")}
    for call in (
        Router(plain).forget(ForgetRequest(agent_id="ana")),
        Router(plain).expire(ExpireRequest(agent_id="ana", policy=ExpirePolicy())),
        Router(plain).remember(fact("tea", confidence=7.0)),
        Router(plain).merge(MergeRequest(agent_id="ana", canonical="x", duplicates=())),
    ):
        with pytest.raises(QuipuError) as refused:
            await call
        assert refused.value.code == "validation_error"
    merged = await router.merge(
        MergeRequest(agent_id="ana", canonical=kept[0].id, duplicates=(kept[1].id, "mem_unknown"))
    )
    assert (merged.merged_count, merged.stores) == (1, ("a", "b", "c"))
    assert merged.extensions["canonical_id"] == kept[0].id
    assert merged.extensions["merged_ids"] == [kept[1].id]
    assert merged.extensions["not_found"] == ["mem_unknown"]
    tried = await router.forget(ForgetRequest(agent_id="ana", ids=(kept[2].id,), dry_run=True))
    assert (tried.forgotten_ids, tried.extensions["ids"]) == ((), [kept[2].id])
