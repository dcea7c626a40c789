"""What somebody meets who builds a router by hand: mistakes, closing, giving up, peers that answer nonsense, promises."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import BackendUnavailableError, InvalidError, Memory, Router, sync
from quipu.bootstrap import http_app, open_container
from quipu.client import RemoteConnection, Transport
from quipu.client.transport import Patience
from quipu.config import Settings
from quipu.errors import UnsupportedError
from quipu.memory.model import RecallResponse
from quipu.testing.embedders import WordEmbedder
from tests.router.other_package import Store
from tests.router.puppet import Puppet

ADDRESS = "postgresql://me:hunter2@db/memory"
ANY: dict[str, Any] = {"min_relevance": "off", "k": 10}


class NoStore:
    """It remembers, and that is all."""

    async def remember(self, request: Any, /) -> None: ...


class Odd(Puppet):
    """One that answers a recall with something else."""

    def __init__(self, inner: Memory, does: Callable[[RecallResponse], Any]) -> None:
        super().__init__(inner)
        self._does = does

    async def recall(self, request: Any, /) -> Any:
        return self._does(await super().recall(request))


# -- building ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs a peer"),
        ([], "needs a peer"),
        (ADDRESS, "a mapping or a list"),
        (None, "a mapping or a list"),
        (7, "a mapping or a list"),
        (Store("alone"), "a mapping or a list"),
        ([ADDRESS], "this is a text"),
        ({"db": ADDRESS}, "this is a text"),
        ({"half": NoStore()}, "no recall, forget, merge, expire, health"),
        ({"": Store("x")}, "not empty"),
        ({1: Store("x")}, "not empty"),
    ],
)
def test_what_cannot_be_a_peer_is_refused_with_what_to_give_instead(given: Any, says: str) -> None:
    with pytest.raises(InvalidError, match=says) as refused:
        Router(given)
    assert "quipu.Memory" in str(refused.value.hint)
    assert "hunter2" not in f"{refused.value} {refused.value.hint} {refused.value.faults}"


def test_one_store_does_not_vote_twice_and_a_blocking_one_is_named() -> None:
    store = Store("x")
    with pytest.raises(InvalidError, match="the same store as 'a'"):
        Router({"a": store, "b": store})
    with (
        sync.Memory("ana", stores=":memory:", embedder="none", config=Settings()) as blocking,
        pytest.raises(InvalidError, match=r"quipu\.Memory"),
    ):
        Router([blocking])


async def test_a_router_tells_what_it_is_and_nothing_once_it_is_closed(
    peers: dict[str, Memory], tmp_path: Path
) -> None:
    router = Router(peers, agent_id="ana", ids=f"sqlite://{tmp_path}/ids.db")
    assert repr(router) == "<Router of a, b, c; writes to all>"
    kept = await router.remember(content="tea")
    assert await router.copies("mem_unknown") == {}
    names = await router.copies(kept.id)
    assert [str((await peers[name].get(id)).content) for name, id in names.items()] == ["tea"] * 3
    await router.close()
    await router.close()
    before = set(threading.enumerate())
    assert "closed" in repr(router)
    for call in (
        router.remember(content="more"),
        router.recall(query="tea"),
        router.forget(ids=[kept.id]),
        router.note_recalled([kept.id]),
        router.health(),
        router.copies(kept.id),
    ):
        with pytest.raises(BackendUnavailableError) as refused:
            await call
        assert refused.value.reason == "closed"
    left = {one.name for one in set(threading.enumerate()) - before}
    assert not left, "whoever asks a closed router does not open its ledger again"
    assert len(await peers["a"].recall("tea", **ANY)) == 1, "the peers are not the router's to close"


# -- peers that fail --------------------------------------------------------------------------------------------------


async def test_a_peer_that_answers_nonsense_is_named_and_the_others_answer(peers: dict[str, Memory]) -> None:
    nonsense: dict[str, Callable[[RecallResponse], Any]] = {
        "nothing": lambda _: None,
        "a list": lambda answer: list(answer),
        "no hits": lambda answer: answer.model_copy(update={"results": ("x", None)}),
        "no list": lambda answer: answer.model_copy(update={"results": None}),
        "half a hit": lambda _: {"results": [{"id": "x", "type": "fact"}], "latency_ms": 0},
    }
    for name, does in nonsense.items():
        odd = Odd(peers["b"], does)
        router = Router({"a": peers["a"], "odd": odd}, agent_id="ana")
        await router.remember(content=f"tea {name}")
        answer = await router.recall(query=f"tea {name}", min_relevance="off", k=1)
        assert [hit.content for hit in answer] == [f"tea {name}"]
        assert [hit.found_by for hit in answer] == [("a",)]
        assert bool(answer.stores_failed) is (name not in ("no hits", "half a hit"))
    alone = Router([Odd(peers["b"], lambda _: None)], agent_id="ana")
    with pytest.raises(BackendUnavailableError) as refused:
        await alone.recall(query="tea")
    assert "RecallResponse" in str(refused.value.__cause__), "who looks for the reason finds it"
    assert "RecallResponse" not in str(refused.value)


async def test_a_deadline_of_the_request_shortens_the_routers(peers: dict[str, Memory]) -> None:
    slow = Puppet(peers["a"])
    slow.hangs = True
    router = Router({"slow": slow}, agent_id="ana", deadline_s=60)
    with pytest.raises(BackendUnavailableError) as late:
        await asyncio.wait_for(router.recall(query="tea", deadline_ms=30), 30)
    assert late.value.reason == "late"


async def test_many_callers_at_once_each_get_their_own(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    texts = [f"note {n} says w{n}" for n in range(20)]
    kept = await asyncio.gather(*(router.remember(content=text) for text in texts))
    found = await asyncio.gather(*(router.recall(query=text, k=1, min_relevance="off") for text in texts))
    assert [answer[0].id for answer in found] == [one.id for one in kept]
    assert len({one.id for one in kept}) == 20


# -- promises ---------------------------------------------------------------------------------------------------------


async def test_a_write_that_must_wait_never_lands_where_nothing_waits(peers: dict[str, Memory]) -> None:
    plain = Store("plain")
    router = Router({"plain": plain, "a": peers["a"]}, agent_id="ana")
    held = await router.remember(content="Mara is ill", approval_required=True)
    assert (held.pending_approval, held.stores, plain.rows) == (True, (), {})
    assert [(one.store, one.reason) for one in held.stores_failed] == [("plain", "not_promised")]
    (waiting,) = held.approvals
    assert (waiting.store, waiting.approval_url) == ("a", held.approval_url)
    assert waiting.proposal_id == (await peers["a"].list_reviews()).reviews[0].id
    with pytest.raises(UnsupportedError) as refused:
        await Router([plain], agent_id="ana").remember(content="Mara is ill", approval_required=True)
    assert (refused.value.reason, "governance" in str(refused.value.hint)) == ("not_promised", True)
    machine = {"name": "m", "initial": "a", "states": ["a"], "transitions": []}
    kept = await router.remember(content=machine, type="procedural")
    assert kept.stores == ("a",), "the other keeps no procedures"


async def test_a_write_that_waits_with_some_says_where(peers: dict[str, Memory]) -> None:
    """Each peer has rules of its own."""
    await peers["a"].set_rules([{"id": "all", "effect": "hold"}])
    router = Router(peers, agent_id="ana")
    done = await router.remember(content="Mara is ill")
    assert (done.pending_approval, done.stores) == (False, ("b", "c"))
    assert [one.store for one in done.approvals] == ["a"]


async def test_several_peers_promise_what_all_do_and_keep_together(peers: dict[str, Memory]) -> None:
    assert Router({"a": peers["a"]}).capabilities == peers["a"].capabilities
    assert Router(peers).capabilities == peers["a"].capabilities, "they can be told what was shown"
    plain = Store("plain")
    plain.capabilities |= {"recall_tracking"}
    assert Router({"a": peers["a"], "p": plain}).capabilities == plain.capabilities - {"recall_tracking"}
    assert Router({"p": plain}).capabilities == plain.capabilities


# -- one answer -------------------------------------------------------------------------------------------------------


async def told(store: Any, **fields: Any) -> list[tuple[object, ...]]:
    answer = await store.recall(query="tea at noon", agent_id="ana", **{**ANY, **fields})
    return [
        (
            str(hit.content),
            round(hit.score, 8),
            hit.relevance,
            hit.confidence,
            hit.demoted,
            len(hit.supporting),
        )
        for hit in answer
    ]


async def different_notes(router: Router) -> None:
    """Of all that is weighed: one demoted, two doubtful, two linked."""
    first = await router.remember(content="tea at noon", metadata={"old": True})
    await router.remember(content="tea at noon and at four", confidence=0.3)
    await router.remember(content="tea with milk", links=[{"to": first.id, "rel": "about"}])
    await router.remember(content="coffee at noon", confidence=0.7)
    await router.remember(content="noon")
    done = await router.expire(policy={"type": "semantic"}, action="demote", filter={"metadata.old": True})
    assert (done.matched_count, done.ids) == (1, (first.id,)), "by the router's name"


@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_over_copies_of_one_memory_it_answers_as_that_memory_does(
    peers: dict[str, Memory], hops: int, count: int
) -> None:
    """In order, relevance and all; by the scores too, but that two votes are twice as much as one."""
    router = Router({name: peers[name] for name in "abc"[:count]}, agent_id="ana")
    await different_notes(router)
    expected = [
        (text, pytest.approx(count * score, rel=1e-5), *rest)
        for text, score, *rest in await told(peers["a"], hops=hops)
    ]
    assert await told(router, hops=hops) == expected
    assert [hit.why for hit in await router.recall(query="tea", hops=hops, **ANY)] == [None] * 5
    explained = await router.recall(query="tea", hops=hops, explain=True, **ANY)
    assert sum("hop" in (hit.why or {}) for hit in explained) == (2 if hops else 0)


@pytest.mark.parametrize("fusion", ["max", "weighted"])
async def test_scores_that_are_believed_are_weighed_once(peers: dict[str, Memory], fusion: str) -> None:
    router = Router({"a": peers["a"]}, agent_id="ana")
    await different_notes(router)
    assert await told(router, fusion=fusion, hops=1) == await told(peers["a"], fusion=fusion, hops=1)


async def test_a_server_is_a_peer_like_any_other(peers: dict[str, Memory]) -> None:
    container = await open_container(Settings(), stores=[":memory:"], embedder=WordEmbedder())
    network = httpx.ASGITransport(http_app(container, is_open=True))
    connection = RemoteConnection(
        Transport("http://127.0.0.1", patience=Patience(retries=0), network=network)
    )

    async def reached() -> RemoteConnection:
        return connection

    async with Memory.over(reached) as remote:
        router = Router({"a": peers["a"], "server": remote, "b": peers["b"]}, agent_id="ana")
        await different_notes(router)
        expected = [
            (text, pytest.approx(3 * score, rel=1e-5), *rest)
            for text, score, *rest in await told(peers["a"], hops=2)
        ]
        assert await told(router, hops=2) == expected
        hits = await router.recall(query="tea", **ANY)
        assert {hit.found_by for hit in hits} == {("a", "b", "server")}
        assert (await router.health())["status"] == "ok"
    await container.close()


async def test_a_link_leads_to_the_peers_own_copy_and_is_left_out_where_there_is_none(
    peers: dict[str, Memory], tmp_path: Path
) -> None:
    ids = f"sqlite://{tmp_path}/ids.db"
    async with (
        Router({name: peers[name] for name in "ab"}, agent_id="ana", ids=ids) as early,
        Router(peers, agent_id="ana", ids=ids) as late,
    ):
        first = await early.remember(content="tea")
        link = {"to": first.id, "rel": "about"}
        second = await late.remember(content="tea with milk", links=[link], supersedes=[first.id])
        assert second.stores == ("a", "b", "c"), "c has no tea to link to, and keeps the rest"
        assert second.superseded == (first.id,)
        copies = await late.copies(first.id)
        for name, id in (await late.copies(second.id)).items():
            record = await peers[name].get(id)
            assert [link.to for link in record.links] == ([copies[name]] if name in copies else [])
        with pytest.raises(InvalidError):
            await late.remember(content="lost", links=[{"to": "mem_unknown", "rel": "about"}])


async def test_what_is_asked_for_is_kept_or_refused(peers: dict[str, Memory]) -> None:
    router = Router(peers, agent_id="ana")
    kept = [await router.remember(content=f"tea {n} " + "x" * 390) for n in range(5)]
    answer = await router.recall(query="tea", max_tokens=250, min_relevance="off")
    assert (len(answer), answer.truncated) == (2, True)
    (cut,) = await router.recall(query="tea", max_tokens=10, min_relevance="off")
    assert (len(str(cut.content)), cut.truncated) == (40, True)
    for bad in (
        {"query": "tea", "k": 0},
        {"query": "tea", "k": 1001},
        {"query": ""},
        {"query": "t", "hops": 4},
        {"query": "t", "as_of": "1"},
    ):
        with pytest.raises(InvalidError):
            await router.recall(**bad)
    for call in (
        router.forget(),
        router.forget(ids=[]),
        router.forget(filter={}),
        router.expire(policy={}),
        router.remember(content="tea", confidence=7.0),
        router.merge(canonical="x", duplicates=[]),
    ):
        with pytest.raises(InvalidError):
            await call
    tried = await router.forget(ids=[kept[2].id], dry_run=True)
    assert tried.forgotten_ids == (kept[2].id,)
    assert len(await router.recall(query="tea", **ANY)) == 5
