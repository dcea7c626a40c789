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


async def _attacked(honest: int, rogues: int, *, trims: bool) -> AsyncIterator[Attacked]:
    memories = [
        Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for _ in range(honest + rogues)
    ]
    bad = [Rogue(memory) for memory in memories[:rogues]]
    peers: dict[str, Any] = {f"0-rogue-{n}": rogue for n, rogue in enumerate(bad)}
    peers |= {f"1-honest-{n}": memory for n, memory in enumerate(memories[rogues:])}
    router = Router(peers, trim_votes=trims)
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
    async for one in _attacked(*request.param, trims=False):
        yield one


@pytest.fixture(params=[(2, 1), (3, 1), (3, 2)], ids=lambda counts: f"{counts[0]}+{counts[1]}")
async def trimming(request: pytest.FixtureRequest) -> AsyncIterator[Attacked]:
    async for one in _attacked(*request.param, trims=True):
        yield one


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["invents", "alters"])
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
async def test_borrowed_ids_carry_no_false_text_and_push_no_right_answer_out(attacked: Attacked) -> None:
    """Such a peer votes for what others hold too: places behind the right answer may change, texts may not."""
    true = set(await attacked.top(ALONE, Fusion.RRF, k=50))
    assert {content for _, content in true} == {*TEXTS, ALONE}
    for text in TEXTS[::5]:
        for size in SIZES:
            attacked.turn("borrows", size)
            shown = await attacked.top(text, Fusion.RRF)
            assert text in [content for _, content in shown], f"{size} at once"
            assert set(shown) <= true, f"{size} at once"


@requirement("memorywire:router.adversarial")
async def test_the_attacks_are_real_where_scores_are_believed(attacked: Attacked) -> None:
    attacked.turn("invents", 10)
    shown = await attacked.top(TEXTS[0], Fusion.MAX)
    assert all(POISON in content for _, content in shown)


@requirement("memorywire:router.adversarial")
async def test_the_right_answer_left_out_and_others_pushed_is_answered_by_trimmed_votes(
    trimming: Attacked,
) -> None:
    for text in TEXTS[::5]:
        trimming.turn("pushes", 0)
        assert (await trimming.top(text, Fusion.RRF))[0][1] == text
