"""What leaving votes out costs where everybody is honest, and a router of real stores with an attacker among them.

1. Honest: the same rankings fused by the plain sum and with votes left out. A ledger with mirrors of several kinds, and
   routers of three and of five peers that search differently, on our own corpus and on a conversation of LoCoMo.
2. Routers over real stores, each with everything: some honest ones, and rogues that are listed first and lie alike. The
   honest ones search alike, or each in another way.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench import labelled, locomo
from quipu import Memory
from quipu.model.operations import Fusion, RecallRequest, RememberRequest
from quipu.model.outcomes import Hit, RecallResponse, RememberResponse
from quipu.model.record import MemoryType
from quipu.ports.embedder import Embedder
from quipu.service.peer_ids import RememberedIds
from quipu.service.routing import Router
from quipu.testing.embedders import WordEmbedder

K = 5
AGENT = "bench"
ATTACKS = ("none", "invents", "borrows", "alters", "pushes", "omits")
#: How much the rogues lie about, where that is theirs to choose.
SIZES = (1, 5, 20, 100, 1000)
_SIZED = ("invents", "borrows", "alters")
#: By the name of their column: the fusion, and whether votes are left out.
METHODS = {
    "plain": (Fusion.RRF, False),
    "rrf": (Fusion.RRF, True),
    "max": (Fusion.MAX, True),
    "weighted": (Fusion.WEIGHTED, True),
}
_FALSE = "something that nobody wrote"


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
        if not hits:
            return answer
        match self.attack:
            case "invents":
                hits = [_lie(hits[0], f"mem_rogue{n}", n) for n in range(size)] + hits
            case "borrows":
                hits = [_lie(hits[0], id, n) for n, id in enumerate(self.known[:size])] + hits
            case "alters":
                altered = [replace(hit, content=f"{_FALSE} {n}") for n, hit in enumerate(hits[:size])]
                hits = altered + hits[size:]
            case "pushes":  # what the others have as well, worst first, and the best left out
                hits = [replace(hit, relevance=1.0, score=1.0) for hit in reversed(hits[K:])]
            case "omits":  # what it would say anyway, but for the best
                hits = hits[K:]
            case _:
                pass
        return replace(answer, results=tuple(hits))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _lie(like: Hit, id: str, n: int) -> Hit:
    return replace(like, id=id, content=f"{_FALSE} {n}", score=1e9, relevance=1.0)


@dataclass(frozen=True, slots=True)
class Found:
    """Means over all questions; `leak` is the share of what is returned that nobody wrote."""

    recall: float
    leak: float


@dataclass(slots=True)
class Peers:
    """Peers that all hold the same facts, and what the router that wrote them calls each."""

    by_name: dict[str, Any]
    rogues: list[Rogue]
    ids: RememberedIds
    names: dict[str, str]

    async def found(
        self,
        questions: Sequence[labelled.Query],
        *,
        trims: bool,
        fusion: Fusion = Fusion.RRF,
        attack: str = "none",
        size: int = 0,
    ) -> Found:
        """Ask everything."""
        for rogue in self.rogues:
            rogue.attack, rogue.size = attack, size
        router = Router(self.by_name, trim_votes=trims, deadline_s=60.0, ids=self.ids)
        recalls, leaks = [], []
        for question in questions:
            asked = RecallRequest(
                agent_id=AGENT, query=question.query, user_id=question.user_id, k=K, min_relevance=0.0
            )
            hits = list(await router.recall(replace(asked, fusion=fusion)))
            gold = {self.names[name] for name in question.gold}
            recalls.append(len(gold & {hit.id for hit in hits}) / len(gold))
            leaks.append(sum(str(hit.content).startswith(_FALSE) for hit in hits) / max(1, len(hits)))
        return Found(statistics.fmean(recalls), statistics.fmean(leaks))


@asynccontextmanager
async def filled(
    embedders: Sequence[Embedder | str], facts: Sequence[labelled.Fact], *, rogues: int
) -> AsyncGenerator[Peers]:
    """Peers with these embedders; the first so many, by place and by name, are rogues."""
    async with AsyncExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="quipu-fusion-")))
        memories: dict[str, Any] = {}
        for number, embedder in enumerate(embedders):
            memory = Memory(AGENT, stores=f"sqlite://{folder}/{number}.db", embedder=embedder)
            closing.push_async_callback(memory.close)
            memories[f"{number}-peer"] = memory
        ids = RememberedIds()
        router = Router(memories, trim_votes=True, deadline_s=60.0, write_deadline_s=60.0, ids=ids)
        names: dict[str, str] = {}
        for fact in facts:
            names[fact.id] = (await _written(router, fact)).id
        bad = {name: Rogue(memories[name]) for name in list(memories)[:rogues]}
        for rogue in bad.values():
            rogue.known = list(reversed(names.values()))
        yield Peers({**memories, **bad}, list(bad.values()), ids, names)


async def _written(router: Router, fact: labelled.Fact) -> RememberResponse:
    return await router.remember(
        RememberRequest(
            agent_id=AGENT,
            user_id=fact.user_id,
            type=MemoryType(fact.type),
            content=fact.content,
            details=fact.details,
        )
    )


async def _worst(
    peers: Peers, questions: Sequence[labelled.Query], method: str, attack: str, sizes: Sequence[int]
) -> Found:
    fusion, trims = METHODS[method]
    found = [
        await peers.found(questions, trims=trims, fusion=fusion, attack=attack, size=size)
        for size in (sizes if attack in _SIZED else (0,))
    ]
    return Found(min(one.recall for one in found), max(one.leak for one in found))


async def attacked(
    embedder: Embedder, facts: Sequence[labelled.Fact], questions: Sequence[labelled.Query]
) -> dict[str, Any]:
    """Routers of honest peers that search alike, and rogues, by attack and method: the worst over all sizes."""
    told: dict[str, Any] = {}
    for honest, rogues in ((2, 1), (3, 2)):
        async with filled([embedder] * (honest + rogues), facts, rogues=rogues) as peers:
            told[f"{honest}+{rogues}"] = {
                attack: {
                    method: asdict(await _worst(peers, questions, method, attack, SIZES))
                    for method in METHODS
                }
                for attack in ATTACKS
            }
    return told


async def differing(
    embedder: Embedder, facts: Sequence[labelled.Fact], questions: Sequence[labelled.Query]
) -> dict[str, Any]:
    """Routers whose honest peers search differently: recall while nobody lies, and the worst of all attacks."""
    words = WordEmbedder()
    casts: dict[str, tuple[list[Embedder | str], list[Embedder | str]]] = {
        "model, keywords; a rogue by keywords": (["none"], [embedder, "none"]),
        "model, words; a rogue by keywords": (["none"], [embedder, words]),
        "three kinds; a rogue by keywords": (["none"], [embedder, words, "none"]),
        "three kinds; two rogues by keywords": (["none", "none"], [embedder, words, "none"]),
    }
    told: dict[str, Any] = {}
    for name, (bad, good) in casts.items():
        async with filled([*bad, *good], facts, rogues=len(bad)) as peers:
            told[name] = {}
            for method in ("plain", "rrf"):
                found = [await _worst(peers, questions, method, attack, (20,)) for attack in ATTACKS]
                told[name][method] = {
                    "calm": found[0].recall,
                    "recall": min(one.recall for one in found),
                    "leak": max(one.leak for one in found),
                }
    return told


async def honest(
    embedder: Embedder, facts: Sequence[labelled.Fact], questions: Sequence[labelled.Query]
) -> dict[str, dict[str, float]]:
    """Recall of honest routers by the plain sum and with votes left out."""
    kinds: dict[str, list[Embedder | str]] = {
        "three alike": [embedder] * 3,
        "two alike, one by words": [embedder, embedder, "none"],
        "three kinds": [embedder, WordEmbedder(), "none"],
        "five, of three kinds": [embedder, embedder, WordEmbedder(), "none", "none"],
    }
    told: dict[str, dict[str, float]] = {}
    for name, embedders in kinds.items():
        async with filled(embedders, facts, rogues=0) as peers:
            told[name] = {
                votes: (await peers.found(questions, trims=trims)).recall
                for votes, trims in (("plain", False), ("rrf", True))
            }
    return told


def conversation(turns: int, questions: int) -> tuple[list[labelled.Fact], list[labelled.Query]]:
    """The first conversation of LoCoMo, as far as so many turns go; nothing where it is not there."""
    if not (locomo.DEFAULT_DATA / locomo.FILE_NAME).exists():
        return [], []
    first = locomo.load()[0][0]
    facts = [
        labelled.Fact(turn.dia_id, "u", "semantic", f"{turn.speaker}: {turn.content}")
        for turn in first.turns[:turns]
    ]
    there = {fact.id for fact in facts}
    asked = [
        labelled.Query(str(number), "u", "locomo", one.text, one.evidence)
        for number, one in enumerate(first.questions)
        if there.issuperset(one.evidence)
    ]
    return facts, asked[:questions]


def rows(told: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A row for each attack."""
    return [
        [name, *(f"{one['recall']:.3f} / {one['leak']:.2f}" for one in found.values())]
        for name, found in told.items()
    ]
