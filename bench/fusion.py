"""Fusion under attack: `python -m bench.fusion`.

1. Stubs, for the mathematics: benign peers that agree on the right answers, a rogue that puts K invented ids first.
2. Real stores: a ledger, an honest mirror and a rogue mirror on our own corpus, with attacks that have the rogue invent
   ids, claim scores, push existing ids, leave the best out, alter texts, and show what was forgotten.
3. Routers of real stores, attacked and all honest: `bench.fusion_peers`.

`rrf` is as it comes, with votes left out; `plain` is the published sum.

Measured are recall@5, leak (share of what is returned that is the attacker's) and displacement (right answers of the
undisturbed top 5 that are pushed out).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import fusion_peers, labelled
from bench.fusion_stubs import SEED, SIZES, K, Measured, Peers, stubs
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
from quipu.service.memory import MemoryService
from quipu.testing.backend.shelf import ShelfBackend

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
            case "omitted":  # what the others find as well, without what is best
                return Answer(hits=honest[K:], is_filtered=True)
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
    trims: bool = True,
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
    trims = bool(fields.pop("trims", True))
    async with stores(folder, embedder, facts, attack, size, trims=trims) as made:
        return await asked_of(made, facts, questions, method, attack, **fields)


async def asked_of(
    made: Stores,
    facts: Sequence[labelled.Fact],
    questions: Sequence[labelled.Query],
    method: Fusion,
    attack: str,
    **fields: Any,
) -> Measured:
    """The same on stores that are open."""
    recalls, leaks, displaced = [], [], []
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


ATTACKS = ("none", "invent", "scores", "existing", "omitted", "altered", "ghosts")
#: By the name of their column: the fusion, and whether votes are left out.
FUSIONS = {**{method.value: (method, True) for method in Fusion}, "plain": (Fusion.RRF, False)}
CASTS = ((2, 1), (1, 1), (2, 3))
PUSHED = ((2, 1), (3, 1), (3, 2), (4, 1), (4, 3))
#: A ledger, and so many mirrors besides it that are honest, and that lie.
PUSHED_BESIDE_A_LEDGER = ((1, 1), (1, 2), (2, 1), (2, 3))


def stubs_measured(seeds: int) -> dict[str, Any]:
    """The mathematics, by who takes part, method and attack; means over so many draws."""
    chosen = [SEED, *range(1, seeds)]
    invented = {
        f"{benign}+{rogues}": {
            name: {
                str(size): _mean(partial(stubs, method, size, Peers(benign, rogues, trims=trims)), chosen)
                for size in SIZES
            }
            for name, (method, trims) in FUSIONS.items()
        }
        for benign, rogues in CASTS
    }
    existing = {
        votes: {
            f"{'ledger ' * has_ledger}{benign}+{rogues}": _mean(
                partial(
                    stubs,
                    Fusion.RRF,
                    0,
                    Peers(benign, rogues, "existing", trims=trims, has_ledger=has_ledger),
                ),
                chosen,
            )
            for has_ledger, casts in ((False, PUSHED), (True, PUSHED_BESIDE_A_LEDGER))
            for benign, rogues in casts
        }
        for votes, trims in (("plain", False), ("trimmed", True))
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
    attacks: dict[str, dict[str, dict[str, float]]] = {attack: {} for attack in ATTACKS}
    try:
        for trims in (True, False):
            note(f"fusion: mirrors, {'as it comes' if trims else 'the plain sum'}")
            with tempfile.TemporaryDirectory(prefix="quipu-fusion-") as folder:
                async with stores(Path(folder), embedder, facts, "", size, trims=trims) as made:
                    for attack in ATTACKS:
                        for name in (name for name, (_, does) in FUSIONS.items() if does is trims):
                            found = await asked_of(made, facts, asked, FUSIONS[name][0], attack)
                            attacks[attack][name] = asdict(found)
        note("fusion: routers")
        routed = await fusion_peers.attacked(embedder, facts, asked, (5, 20, 50))
        honest = {"own corpus": await fusion_peers.honest(embedder, facts, asked)}
        turns, questions_of_turns = fusion_peers.conversation(200, 60)
        if turns:
            note("fusion: routers, a conversation")
            honest["LoCoMo, 200 turns"] = await fusion_peers.honest(embedder, turns, questions_of_turns)
    finally:
        await embedder.close()
    return {
        "facts": len(facts),
        "questions": len(asked),
        "size": size,
        "attacks": attacks,
        "routed": routed,
        "honest": honest,
    }


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
        lines += table(("attack", *FUSIONS), rows)
        lines += [
            "A router of two honest stores and a rogue, rrf, the worst of all sizes: recall@5 / leak",
            "",
        ]
        lines += table(("attack", "plain", "trimmed"), fusion_peers.rows(real_part["routed"]))
        lines += ["Routers whose peers are all honest, rrf: recall@5", ""]
        told = real_part["honest"]
        rows = [
            [f"{data}: {cast}", *(f"{value:.3f}" for value in found.values())]
            for data, casts in told.items()
            for cast, found in casts.items()
        ]
        lines += table(("peers", "plain", "trimmed"), rows)
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
