"""Fusion under attack: `python -m bench.fusion`.

1. Stubs, for the mathematics: benign peers that agree on the right answers, a rogue that puts K invented ids first.
2. Real stores: a ledger, an honest mirror and a rogue mirror on our own corpus, with attacks that have the rogue invent
   ids, claim scores, push existing ids, alter texts, and show what was forgotten.

Measured are recall@5, leak (share of what is returned that is the attacker's) and displacement (right answers of the
undisturbed top 5 that are pushed out).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import labelled
from bench.tables import table
from quipu import bootstrap
from quipu.backends.guarded import GuardedBackend, Patience
from quipu.backends.ledgers import LedgerBackend
from quipu.config import Config
from quipu.crypto.canonical import canonical
from quipu.model.operations import Fusion, RecallRequest, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.ports.backend import Answer, Mirror, NativeHit, Query, Routing
from quipu.ports.embedder import Embedder
from quipu.rules import fusion
from quipu.service.memory import MemoryService
from quipu.testing.backend.shelf import ShelfBackend

SEED = 1337
K = 5
SIZES = tuple(range(0, 55, 5))
_CORPUS, _QUERIES, _GOLD, _OVERFETCH = 50, 20, 2, 20
_MARK = "rogue-"


# -- stubs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over all queries."""

    recall: float
    leak: float
    displacement: float


@dataclass(frozen=True, slots=True)
class Peers:
    """How many honest ones and rogues, and what the rogues do: `invent` ids, or push `existing` ones."""

    benign: int = 2
    rogues: int = 1
    attack: str = "invent"
    is_rogue_first: bool = False
    trims: bool = False


def stubs(method: Fusion, size: int, peers: Peers | None = None, seed: int = SEED) -> Measured:
    """The three numbers for one attack size."""
    chosen = peers or Peers()
    calm = _tops(method, 0, replace(chosen, attack="invent"), seed)
    hit = _tops(method, size, chosen, seed)
    recalls, leaks, displaced = [], [], []
    for (gold, before), (_, after) in zip(calm, hit, strict=True):
        kept = [id for id in before if id in gold]
        recalls.append(len(gold & set(after)) / len(gold))
        leaks.append(sum(id.startswith(_MARK) for id in after) / len(after))
        displaced.append(sum(id not in after for id in kept) / max(1, len(kept)))
    return Measured(*(statistics.fmean(values) for values in (recalls, leaks, displaced)))


def _tops(method: Fusion, size: int, peers: Peers, seed: int) -> list[tuple[set[str], list[str]]]:
    """For each query its right answers and the fused top 5."""
    drawn = random.Random(seed)
    corpus = [f"doc-{number:02d}" for number in range(_CORPUS)]
    golds = drawn.sample(corpus, _QUERIES * _GOLD)
    told: list[tuple[set[str], list[str]]] = []
    for place in range(_QUERIES):
        gold = golds[place * _GOLD : (place + 1) * _GOLD]
        others = [id for id in corpus if id not in gold]
        honest = [_benign(gold, others, drawn) for _ in range(peers.benign)]
        rogues = [_rogue(peers.attack, size, gold, honest, drawn) for _ in range(peers.rogues)]
        names = ("0-rogue", "1-honest") if peers.is_rogue_first else ("1-rogue", "0-honest")
        lists = {f"{names[1]}-{n}": votes[:_OVERFETCH] for n, votes in enumerate(honest)}
        lists |= {f"{names[0]}-{n}": votes[:_OVERFETCH] for n, votes in enumerate(rogues)}
        order = fusion.fused(lists, method, trim_votes=peers.trims)
        told.append((set(gold), [item.id for item in order[:K]]))
    return told


def _benign(gold: Sequence[str], others: Sequence[str], drawn: random.Random) -> list[fusion.Vote]:
    shuffled = drawn.sample(list(others), len(others))
    return [_vote(id, 1.0 - 0.01 * rank) for rank, id in enumerate([*gold, *shuffled])]


def _rogue(
    attack: str,
    size: int,
    gold: Sequence[str],
    honest: Sequence[Sequence[fusion.Vote]],
    drawn: random.Random,
) -> list[fusion.Vote]:
    if attack == "existing":  # what the honest ones return anyway, the right answers left out
        lists = {str(n): votes[:_OVERFETCH] for n, votes in enumerate(honest)}
        pushed = [item.id for item in fusion.fused(lists, Fusion.RRF) if item.id not in gold]
        return [_vote(id, 1.0 - 0.001 * rank) for rank, id in enumerate(pushed)]
    invented = [_vote(f"{_MARK}{number}", 1.0 - 0.001 * number) for number in range(size)]
    others = [vote.id for vote in honest[0] if vote.id not in gold]
    tail = [*gold, *drawn.sample(others, len(others))]
    return [*invented, *(_vote(id, 0.5 - 0.001 * rank) for rank, id in enumerate(tail))]


def _vote(id: str, score: float) -> fusion.Vote:
    return fusion.Vote(id=id, similarity=score, relevance=score)


# -- real stores ------------------------------------------------------------------------------------------------------


class RogueShelf(ShelfBackend):
    """A mirror that lies about what it holds."""

    def __init__(self, attack: str, size: int) -> None:
        super().__init__()
        self.attack, self.size = attack, size
        self.ghosts: list[NativeHit] = []

    async def search(self, query: Query, limit: int) -> Answer:
        honest = (await super().search(query, limit)).hits
        wrong = [
            NativeHit(native_id=name, score=1.0, text=copy.content)
            for name, copy in self.kept.items()
            if name not in {hit.native_id for hit in honest[:K]}
        ][: self.size]
        match self.attack:
            case "invent":
                lies = [NativeHit(native_id=f"x{n}", score=1.0, text=query.text) for n in range(self.size)]
            case "scores":
                lies = [NativeHit(native_id=f"x{n}", score=1e9, text="zzz") for n in range(self.size)]
            case "existing":
                return Answer(hits=tuple(wrong), is_filtered=True)
            case "altered":
                lies = [replace(hit, text=f"altered {hit.text}") for hit in honest[: self.size]]
            case "ghosts":
                lies = self.ghosts[: self.size]
            case _:
                lies = []
        return Answer(hits=(*lies, *honest)[:limit], is_filtered=True)


@dataclass(slots=True)
class Stores:
    """A service over a ledger, an honest mirror and a rogue one, filled with facts."""

    service: MemoryService
    rogue: RogueShelf
    ids: dict[str, str]

    async def top(self, question: labelled.Query, method: Fusion, **fields: Any) -> list[Any]:
        request = RecallRequest(
            agent_id="bench", query=question.query, user_id=question.user_id, k=K, fusion=method, **fields
        )
        return list((await self.service.recall(local(), request)).results)


@asynccontextmanager
async def stores(
    folder: Path,
    embedder: Embedder,
    facts: Sequence[labelled.Fact],
    attack: str,
    size: int,
    *,
    trims: bool = False,
) -> AsyncGenerator[Stores]:
    """Open and fill them; everything is delivered when this returns."""
    running = await bootstrap.start(Config(store_url=f"sqlite://{folder / 'memory.db'}"), embedder=embedder)
    honest = LedgerBackend(
        partial(bootstrap.open_ledger, bootstrap.address(f"sqlite://{folder / 'honest.db'}"), Config()),
        embedder=embedder,
        clock=bootstrap.now_ms,
        mint_salt=bootstrap.mint_salt,
        canonical=canonical,
    )
    rogue = RogueShelf("", size)
    patience = Patience(search_s=30.0)
    parts = replace(
        running.parts,
        recall_budget=None,
        mirrors=(
            Mirror(name="a-rogue", backend=GuardedBackend("a-rogue", rogue, patience=patience)),
            Mirror(name="honest", backend=GuardedBackend("honest", honest, patience=patience)),
        ),
        routing=Routing(deadline_ms=60_000, trim_votes=trims),
    )
    service = MemoryService(parts, "bench")
    try:
        await service.open(local().tenant)
        ids = await _filled(service, facts, rogue)
        rogue.attack = attack
        yield Stores(service, rogue, ids)
    finally:
        await service.close()
        await running.close()


async def _filled(
    service: MemoryService, facts: Sequence[labelled.Fact], rogue: RogueShelf
) -> dict[str, str]:
    requests = [
        RememberRequest(
            agent_id="bench",
            user_id=fact.user_id,
            type=MemoryType(fact.type),
            content=fact.content,
            details=fact.details,
        )
        for fact in facts
    ]
    done = [
        one for one in await service.remember_many(local(), requests) if isinstance(one, RememberResponse)
    ]
    await service.mirrors.drained(local().tenant)
    await _haunted(service, rogue)
    return {fact.id: answer.id for fact, answer in zip(facts, done, strict=True)}


async def _haunted(service: MemoryService, rogue: RogueShelf) -> None:
    """Forgotten and pending memories that the rogue will show all the same."""
    gone = RememberRequest(agent_id="bench", type=MemoryType.SEMANTIC, content="a forgotten memory")
    done = await service.remember(local(), gone)
    await service.mirrors.drained(local().tenant)
    natives = {copy.record_id: name for name, copy in rogue.kept.items()}
    rogue.ghosts = [NativeHit(native_id=natives[done.id], score=1.0, text="a forgotten memory")]
    from quipu.model.operations import ForgetRequest

    await service.forget(local(), ForgetRequest(agent_id="bench", ids=(done.id,)))
    await service.mirrors.drained(local().tenant)


async def real(
    folder: Path,
    embedder: Embedder,
    facts: Sequence[labelled.Fact],
    questions: Sequence[labelled.Query],
    method: Fusion,
    attack: str,
    size: int,
    **fields: Any,
) -> Measured:
    """The three numbers for one attack on real stores. Leak also counts altered and forgotten texts."""
    trims = bool(fields.pop("trims", False))
    recalls, leaks, displaced = [], [], []
    async with stores(folder, embedder, facts, attack, size, trims=trims) as made:
        texts = {made.ids[fact.id]: fact.content for fact in facts}
        for question in questions:
            gold = {made.ids[name] for name in question.gold}
            made.rogue.attack = ""
            before = [hit.id for hit in await made.top(question, method, **fields)]
            made.rogue.attack = attack
            hits = await made.top(question, method, **fields)
            after = [hit.id for hit in hits]
            kept = [id for id in before if id in gold]
            if gold:
                recalls.append(len(gold & set(after)) / len(gold))
            wrong = [hit for hit in hits if texts.get(hit.id) != hit.content]
            leaks.append(len(wrong) / max(1, len(hits)))
            displaced.append(sum(id not in after for id in kept) / max(1, len(kept)))
    return Measured(*(statistics.fmean(values) for values in (recalls, leaks, displaced)))


# -- the page ---------------------------------------------------------------------------------------------------------


ATTACKS = ("none", "invent", "scores", "existing", "altered", "ghosts")
CASTS = ((2, 1), (1, 1), (2, 3))
PUSHED = ((2, 1), (3, 1), (3, 2))


def stubs_measured(seeds: int) -> dict[str, Any]:
    """The mathematics, by who takes part, method and attack; means over so many draws."""
    chosen = [SEED, *range(1, seeds)]
    invented = {
        f"{benign}+{rogues}": {
            method.value: {
                str(size): _mean(partial(stubs, method, size, Peers(benign, rogues)), chosen)
                for size in SIZES
            }
            for method in Fusion
        }
        for benign, rogues in CASTS
    }
    existing = {
        name: {
            f"{benign}+{rogues}": _mean(
                partial(stubs, Fusion.RRF, 0, Peers(benign, rogues, "existing", trims=trims)), chosen
            )
            for benign, rogues in PUSHED
        }
        for name, trims in (("plain", False), ("trimmed", True))
    }
    return {"seeds": len(chosen), "invented": invented, "existing": existing}


def _mean(measure: Callable[..., Measured], seeds: Sequence[int]) -> dict[str, float]:
    found = [measure(seed=seed) for seed in seeds]
    return {
        "recall": statistics.fmean(one.recall for one in found),
        "leak": statistics.fmean(one.leak for one in found),
        "displacement": statistics.fmean(one.displacement for one in found),
    }


async def real_measured(
    size: int, questions: int | None = None, note: Callable[[str], None] = print
) -> dict[str, Any]:
    """Attacks on a ledger, an honest mirror and a rogue, by attack and method."""
    embedder = await bootstrap.open_embedder(Config())
    if embedder is None:
        return {}
    facts, asked = labelled.facts(), [one for one in labelled.queries("test") if one.gold][:questions]
    attacks: dict[str, dict[str, dict[str, float]]] = {}
    try:
        for attack in ATTACKS:
            note(f"fusion: {attack}")
            attacks[attack] = {}
            for method in Fusion:
                with tempfile.TemporaryDirectory(prefix="quipu-fusion-") as folder:
                    found = await real(Path(folder), embedder, facts, asked, method, attack, size)
                attacks[attack][method.value] = asdict(found)
    finally:
        await embedder.close()
    return {"facts": len(facts), "questions": len(asked), "size": size, "attacks": attacks}


async def measured(*, quick: bool, note: Callable[[str], None]) -> dict[str, Any]:
    """Both halves."""
    note("fusion: stubs")
    found = await asyncio.to_thread(stubs_measured, 5 if quick else 21)
    return {"stubs": found, "real": await real_measured(20, 20 if quick else None, note)}


def section(found: Mapping[str, Any]) -> list[str]:
    """The part of the report."""
    told, lines = found["stubs"], ["## Fusion under attack", ""]
    for cast, methods in told["invented"].items():
        lines += [f"Stubs, honest+rogue {cast}, {told['seeds']} draws, ids invented: recall@5 / leak", ""]
        rows = [[str(size), *(_cell(methods[name][str(size)]) for name in methods)] for size in SIZES]
        lines += table(("invented", *methods), rows)
    lines += ["Existing ids pushed, honest+rogue, rrf: recall@5 / leak", ""]
    pushed = told["existing"]
    rows = [[name, *(_cell(one) for one in pushed[name].values())] for name in pushed]
    lines += table(("votes", *pushed["plain"]), rows)
    if real_part := found.get("real"):
        lines += [
            f"A ledger, an honest mirror and a rogue that lies about {real_part['size']} hits; {real_part['facts']} facts, "
            f"{real_part['questions']} questions: recall@5 / leak / displaced",
            "",
        ]
        attacks = real_part["attacks"]
        rows = [
            [name, *(f"{_cell(one)} / {one['displacement']:.2f}" for one in methods.values())]
            for name, methods in attacks.items()
        ]
        lines += table(("attack", *(method.value for method in Fusion)), rows)
    return [*lines, ""]


def _cell(one: Mapping[str, float]) -> str:
    return f"{one['recall']:.3f} / {one['leak']:.2f}"


def main() -> None:
    """Reads the options, runs, prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.fusion", description=__doc__)
    parser.add_argument("--seeds", type=int, default=21, help="how many seeds the stubs are drawn with")
    parser.add_argument("--size", type=int, default=20, help="how many hits the rogue lies about")
    parser.add_argument("--questions", type=int, help="ask the real stores only so many questions")
    parser.add_argument("--stubs-only", action="store_true", help="leave the real stores out")
    given = parser.parse_args()
    found = {"stubs": stubs_measured(given.seeds)}
    if not given.stubs_only:
        found["real"] = asyncio.run(real_measured(given.size, given.questions))
    print("\n".join(section(found)))


if __name__ == "__main__":
    main()
