"""A router over real stores, one of them an attacker: listed first, of every size, while most peers are honest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quipu import Memory, Router
from quipu.model.operations import Fusion, RecallRequest, RememberRequest
from quipu.model.outcomes import Hit, RecallResponse, RememberResponse
from quipu.model.record import MemoryType
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement

SIZES = range(0, 55, 5)
POISON = "poison"
ALONE = "only the honest peers were told"
TEXTS = [
    f"{who} {what}"
    for who in ("Mara", "Bob", "Ana", "Kim")
    for what in ("drinks tea at noon", "plays violin on sundays", "owns a red bicycle", "fears tall ladders")
]


class Rogue:
    """A peer that takes what it is given as any other, and answers as an attacker would."""

    def __init__(self, inner: Memory) -> None:
        self._inner = inner
        self.attack, self.size = "none", 0
        #: Ids that the router uses, learnt elsewhere.
        self.known: list[str] = []

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        answer = await self._inner.recall(request)
        hits, size = list(answer), self.size
        match self.attack:
            case "invents":
                hits = [self._lie(hits[0], f"mem_rogue{n}", n) for n in range(size)] + hits
            case "borrows":
                hits = [self._lie(hits[0], id, n) for n, id in enumerate(self.known[:size])] + hits
            case "alters":
                hits = [replace(hit, content=f"{POISON} {n}") for n, hit in enumerate(hits[:size])] + hits[
                    size:
                ]
            case "pushes":  # what the others have as well, worst first, and the best left out
                hits = [replace(hit, relevance=1.0, score=1.0) for hit in reversed(hits[5:])]
            case _:
                pass
        return replace(answer, results=tuple(hits))

    def _lie(self, like: Hit, id: str, n: int) -> Hit:
        return replace(like, id=id, content=f"{POISON} {n}", score=1e9, relevance=1.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass
class Attacked:
    """A router with an attacker among its peers, and everything they all hold."""

    router: Router
    rogues: list[Rogue]

    async def top(self, text: str, fusion: Fusion, k: int = 5) -> list[tuple[str, str]]:
        asked = RecallRequest(agent_id="ana", query=text, k=k, min_relevance=0.0, fusion=fusion)
        return [(hit.id, str(hit.content)) for hit in await self.router.recall(asked)]

    def turn(self, attack: str, size: int) -> None:
        for rogue in self.rogues:
            rogue.attack, rogue.size = attack, size


async def _attacked(honest: int, rogues: int, *, trims: bool = True) -> AsyncIterator[Attacked]:
    memories = [
        Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for _ in range(honest + rogues)
    ]
    bad = [Rogue(memory) for memory in memories[:rogues]]
    peers: dict[str, Any] = {f"0-rogue-{n}": rogue for n, rogue in enumerate(bad)}
    peers |= {f"1-honest-{n}": memory for n, memory in enumerate(memories[rogues:])}
    router = (
        Router(peers) if trims else Router(peers, trim_votes=False)
    )  # the defence is what comes by itself
    kept: list[RememberResponse] = []
    for text in TEXTS:
        request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text)
        kept.append(await router.remember(request))
    alone = [await memory.remember(ALONE) for memory in memories[rogues:]]
    for rogue in bad:
        rogue.known = [one.id for one in (*alone, *reversed(kept))]
    yield Attacked(router, bad)
    for memory in memories:
        await memory.close()


@pytest.fixture(params=[(2, 1), (3, 1), (3, 2)], ids=lambda counts: f"{counts[0]}+{counts[1]}")
async def attacked(request: pytest.FixtureRequest) -> AsyncIterator[Attacked]:
    async for one in _attacked(*request.param):
        yield one


@pytest.fixture
async def summing() -> AsyncIterator[Attacked]:
    """Two honest peers and a rogue, by the published sum."""
    async for one in _attacked(2, 1, trims=False):
        yield one


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["invents", "alters", "borrows", "pushes"])
async def test_nothing_is_lost_and_nothing_leaks_at_any_size(attacked: Attacked, attack: str) -> None:
    for text in TEXTS[::5]:
        attacked.turn("none", 0)
        calm = await attacked.top(text, Fusion.RRF)
        assert calm[0][1] == text
        assert len(calm) == 5
        for size in SIZES:
            attacked.turn(attack, size)
            assert await attacked.top(text, Fusion.RRF) == calm, f"{attack}, {size} at once"


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["alters", "borrows"])
async def test_no_false_text_is_shown_for_what_most_peers_hold_however_much_is_asked_for(
    attacked: Attacked, attack: str
) -> None:
    true = await attacked.top(TEXTS[0], Fusion.RRF, k=16)
    for size in SIZES:
        attacked.turn(attack, size)
        assert await attacked.top(TEXTS[0], Fusion.RRF, k=16) == true, f"{size} at once"


@requirement("memorywire:router.adversarial")
async def test_a_false_text_is_no_voice_for_the_true_one() -> None:
    """Of three peers one alone has a memory, and another shows its id with another text: nobody vouches for either."""
    peers: dict[str, Any] = {
        name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "abc"
    }
    rogue = peers["a"] = Rogue(peers["a"])
    router = Router(peers)
    rare = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=f"{TEXTS[0]} and so on")
    for text in TEXTS:
        await router.remember(replace(rare, content=text))
    kept = await router.remember(rare)
    theirs = {name: (await router._naming.ids.of(name, [kept.id]))[kept.id] for name in "ac"}
    await peers["c"].forget(ids=[theirs["c"]])
    rogue.known, rogue.attack, rogue.size = [theirs["a"]], "borrows", 1
    asked = RecallRequest(agent_id="ana", query=rare.content, k=50, min_relevance=0.0, explain=True)
    answer = await router.recall(asked)
    assert kept.id not in {hit.id for hit in answer}, "one voice is not enough"
    assert answer.extensions["unvouched"] == 1
    assert not [hit for hit in answer if POISON in str(hit.content)]
    knowing = Router(peers, ids=None, own_contents=["b"])
    knowing._naming.ids = router._naming.ids
    hits = list(await knowing.recall(asked))
    assert (hits[-1].id, hits[-1].content, hits[-1].foreign) == (kept.id, rare.content, True)
    why: Any = hits[-1].why
    assert why["votes"]["outvoted"] is True
    assert why["votes"]["other_text"] != []
    for name in "abc":
        await peers[name].close()


@requirement("memorywire:router.adversarial")
async def test_the_attacks_are_real_where_scores_are_believed(attacked: Attacked) -> None:
    attacked.turn("invents", 10)
    shown = await attacked.top(TEXTS[0], Fusion.MAX)
    assert all(POISON in content for _, content in shown)


@requirement("memorywire:router.adversarial")
async def test_the_attacks_are_real_by_the_published_sum(summing: Attacked) -> None:
    calm = await summing.top(TEXTS[0], Fusion.RRF)
    summing.turn("pushes", 0)
    assert await summing.top(TEXTS[0], Fusion.RRF) != calm


@requirement("memorywire:router.adversarial")
async def test_explain_tells_whose_vote_was_left_out(attacked: Attacked) -> None:
    attacked.turn("pushes", 0)
    asked = RecallRequest(agent_id="ana", query=TEXTS[0], k=50, min_relevance=0.0, explain=True)
    hits: list[Any] = list(await attacked.router.recall(asked))
    votes = [hit.why["votes"] for hit in hits]
    assert not [name for name in votes[0]["places"] if "rogue" in name], "it left the right answer out"
    assert votes[0]["outvoted"] is False
    pushed = [one for one in votes if one["places"].get("0-rogue-0") == 1]
    assert pushed
    assert all("0-rogue-0" in one["left_out"] for one in pushed), "its best votes are those that do not count"
