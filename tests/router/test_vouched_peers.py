"""What a router of three peers or more shows: what most of them vouch for, what it wrote, and what is said to be theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from quipu import BackendUnavailableError, Memory, Router
from quipu.model.operations import ForgetRequest, RecallRequest, RememberRequest
from quipu.model.outcomes import Hit, RecallResponse, RememberResponse
from quipu.model.record import MemoryType
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.router.asked import fact, query

POISON = "poison"
TEXTS = [
    f"{who} {what}"
    for who in ("Mara", "Bob", "Ana")
    for what in ("drinks tea", "plays violin", "owns a boat")
]


class Puppet:
    """A peer that may say anything, or nothing, over one that works."""

    def __init__(self, inner: Memory) -> None:
        self._inner = inner
        self.says: Callable[[list[Hit]], list[Hit]] = list
        self.is_down = False
        self.names: Callable[[str], str] = str
        self.template: Hit | None = None

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        if self.is_down:
            raise BackendUnavailableError("The peer is away.", reason="mirror_failed")
        answer = await self._inner.recall(request)
        return replace(answer, results=tuple(self.says(list(answer))))

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        if self.is_down:
            raise BackendUnavailableError("The peer is away.", reason="mirror_failed")
        done = await self._inner.remember(request)
        return replace(done, id=self.names(done.id))

    def invent(self, like: Hit, count: int) -> None:
        """Say so many false things first, whatever is asked."""
        lies = [replace(like, id=f"mem_x{n}", content=f"{POISON} {n}", relevance=1.0) for n in range(count)]
        self.says = lambda hits: lies + hits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
async def five() -> AsyncIterator[dict[str, Puppet]]:
    memories = {name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "abcde"}
    yield {name: Puppet(memory) for name, memory in memories.items()}
    for memory in memories.values():
        await memory.close()


@pytest.fixture
def peers(five: dict[str, Puppet]) -> dict[str, Puppet]:
    return {name: five[name] for name in "abc"}


async def filled(peers: dict[str, Puppet], **options: Any) -> tuple[Router, Hit]:
    """A router that has written everything, and a hit to make lies of."""
    router = Router(peers, **options)
    for text in TEXTS:
        await router.remember(fact(text))
    return router, (await router.recall(query(TEXTS[0])))[0]


def told(answer: RecallResponse) -> list[str]:
    return [str(hit.content) for hit in answer]


@requirement("memorywire:router.vouching")
@pytest.mark.parametrize("size", [1, 5, 20, 100, 1000])
async def test_two_of_five_that_lie_alike_get_nothing_in(five: dict[str, Puppet], size: int) -> None:
    router, like = await filled(five)
    calm = await router.recall(query(TEXTS[0], k=50))
    assert sorted(told(calm)) == sorted(TEXTS)
    for name in "ab":
        five[name].invent(like, size)
    assert told(await router.recall(query(TEXTS[0], k=50))) == told(calm), "free places stay free"
    for name in "ab":  # lies instead of what is true, and so many that nobody reads them
        five[name].says = lambda _: [
            replace(like, id=f"mem_x{n}", content=f"{POISON} {n}") for n in range(10 * size)
        ]
    answer = await router.recall(query(TEXTS[0], k=50))
    assert sorted(told(answer)) == sorted(TEXTS)
    assert answer.extensions["unvouched"] == min(10 * size, 200)


@requirement("memorywire:router.vouching")
async def test_where_honest_peers_find_nothing_nothing_is_shown(peers: dict[str, Puppet]) -> None:
    router, like = await filled(peers)
    peers["a"].invent(like, 5)
    answer = await router.recall(query("tea", user_id="a stranger"))
    assert told(answer) == []
    assert answer.extensions["unvouched"] == 5


@requirement("memorywire:router.vouching")
async def test_it_helps_no_liar_that_another_peer_is_silent(peers: dict[str, Puppet]) -> None:
    router, like = await filled(peers)
    peers["a"].invent(like, 5)
    peers["b"].is_down = True
    assert sorted(told(await router.recall(query(TEXTS[0], k=50)))) == sorted(TEXTS)
    peers["a"].says = lambda _: []
    assert sorted(told(await router.recall(query(TEXTS[0], k=50)))) == sorted(TEXTS), "nor does it take away"


@requirement("memorywire:router.vouching")
async def test_a_memory_that_one_peer_alone_took_is_shown_by_that_one(peers: dict[str, Puppet]) -> None:
    router, like = await filled(peers)
    peers["a"].is_down = peers["c"].is_down = True
    alone = await router.remember(fact("Kim fears ladders"))
    assert alone.stores == ("b",)
    peers["a"].is_down = peers["c"].is_down = False
    peers["a"].says = lambda hits: [replace(like, id=alone.id, content=POISON), *hits]
    answer = await router.recall(query("Kim fears ladders", k=50))
    (hit,) = [hit for hit in answer if hit.id == alone.id]
    assert (hit.content, hit.stores, hit.foreign) == ("Kim fears ladders", ("b",), False)
    assert POISON not in told(answer)


@requirement("memorywire:router.vouching")
async def test_what_was_forgotten_is_not_brought_back_by_one_that_kept_it(peers: dict[str, Puppet]) -> None:
    router, like = await filled(peers)
    await router.forget(ForgetRequest(agent_id="ana", ids=(like.id,)))
    theirs = (await router._naming.ids.of("a", [like.id]))[like.id]
    peers["a"].says = lambda hits: [replace(like, id=theirs), *hits]
    assert like.content not in told(await router.recall(query(TEXTS[0], k=50)))


@requirement("memorywire:router.own-contents")
@pytest.mark.parametrize("options", [{"own_contents": ["a", "b", "c"]}, {"write_policy": "primary_only"}])
async def test_peers_with_contents_of_their_own_are_all_heard(
    peers: dict[str, Puppet], options: dict[str, Any]
) -> None:
    for name, peer in peers.items():
        await peer._inner.remember(f"tea of {name}")
    router = Router(peers, **options)
    written = await router.remember(fact("tea for all"))
    answer = await router.recall(query("tea"))
    assert sorted(told(answer)) == ["tea for all", "tea of a", "tea of b", "tea of c"]
    assert [(hit.id == written.id, hit.foreign) for hit in answer] == [(True, False)] + [(False, True)] * 3
    assert {hit.provenance.trust.value for hit in answer if hit.foreign} == {"external"}
    copies = await Router(peers).recall(query("tea"))
    assert "tea of a" not in told(copies)
    assert copies.extensions["unvouched"] == 4 - len(copies)


@requirement("memorywire:router.own-contents")
async def test_only_those_are_heard_alone_and_nobody_takes_their_memories_away(
    peers: dict[str, Puppet],
) -> None:
    router, like = await filled(peers, own_contents=["c"])
    theirs = await peers["c"]._inner.remember("Kim fears ladders")
    peers["a"].invent(like, 5)
    lies = [replace(like, id=theirs.id, content=POISON), replace(like, id="mem_x1", content=POISON)]
    peers["b"].says = lambda hits: lies + hits
    answer = await router.recall(query("Kim fears ladders", k=50))
    assert sorted(told(answer)) == sorted([*TEXTS, "Kim fears ladders"])
    assert [hit.content for hit in answer if hit.foreign] == ["Kim fears ladders"]


@requirement("memorywire:router.adversarial")
async def test_a_first_peer_that_gives_every_memory_one_id_makes_nothing_disappear(
    peers: dict[str, Puppet],
) -> None:
    peers["a"].names = lambda _: "mem_always"
    router, _ = await filled(peers)
    answer = await router.recall(query(TEXTS[0], k=50))
    assert sorted(told(answer)) == sorted(TEXTS)
    again = fact("Kim fears ladders", idempotency_key="once")
    first, second = await router.remember(again), await router.remember(again)
    assert first.id == second.id, "what was written before keeps its id"


@requirement("memorywire:router.adversarial")
async def test_who_tells_the_true_text_and_lies_about_the_rest_is_not_quoted(
    peers: dict[str, Puppet],
) -> None:
    router, _ = await filled(peers)
    peers["a"].says = lambda hits: [
        replace(hit, user_id="somebody else", metadata={"trusted": True}, type=MemoryType.EPISODIC)
        for hit in hits
    ]
    for hit in await router.recall(query(TEXTS[0], k=50)):
        assert (hit.user_id, hit.metadata, hit.type) == (None, {}, MemoryType.SEMANTIC)
