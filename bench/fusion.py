"""Fusion under attack: `python -m bench.fusion`.

1. Stubs, for the mathematics: benign peers that agree on the right answers, rogues that put the same K invented ids
   first.
2. Real stores: a ledger, an honest mirror and a rogue mirror on our own corpus, with attacks that have the rogue invent
   ids with texts that fit the question, claim scores, push existing ids, leave the best out, alter texts, and show what
   was forgotten; and a rogue that was said to have contents of its own.
3. Routers of real stores, attacked and all honest: `bench.fusion_peers`.

`rrf` is as it comes, with votes left out and vouchers asked for; `plain` is the published sum.

Measured are recall@5, leak (share of what is returned that is the attacker's) and displacement (right answers of the
undisturbed top 5 that are pushed out).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench import fusion_peers, labelled
from bench.fusion_mirrors import asked_of, stores
from bench.fusion_stubs import FEWER_SIZES, SEED, SIZES, Measured, Peers, stubs
from bench.tables import table
from quipu import bootstrap
from quipu.config import Config
from quipu.model.operations import Fusion

ATTACKS = ("none", "invent", "scores", "existing", "omitted", "altered", "ghosts")
#: By the name of their column: the fusion, and whether votes are left out.
FUSIONS = {**{method.value: (method, True) for method in Fusion}, "plain": (Fusion.RRF, False)}
#: Honest ones and rogues, and how much the rogues invent.
CASTS = {(2, 1): SIZES, (3, 2): FEWER_SIZES, (4, 3): FEWER_SIZES, (1, 1): SIZES, (2, 3): SIZES}
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
                for size in sizes
            }
            for name, (method, trims) in FUSIONS.items()
        }
        for (benign, rogues), sizes in CASTS.items()
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
        note("fusion: a mirror with contents of its own")
        with tempfile.TemporaryDirectory(prefix="quipu-fusion-") as folder:
            async with stores(Path(folder), embedder, facts, "", size, has_own_contents=True) as made:
                attacks["invent, contents of its own"] = {
                    method.value: asdict(await asked_of(made, facts, asked, method, "invent"))
                    for method in Fusion
                }
        note("fusion: routers")
        routed = await fusion_peers.attacked(embedder, facts, asked)
        differing = await fusion_peers.differing(embedder, facts, asked)
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
        "differing": differing,
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
        rows = [[size, *(_cell(methods[name][size]) for name in methods)] for size in methods["rrf"]]
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
            [name, *(_three(methods[column]) if column in methods else "" for column in FUSIONS)]
            for name, methods in attacks.items()
        ]
        lines += table(("attack", *FUSIONS), rows)
        for cast, routed in real_part["routed"].items():
            lines += [
                f"A router of real stores, honest+rogue {cast}, the worst of all sizes: recall@5 / leak",
                "",
            ]
            lines += table(("attack", *routed["none"]), fusion_peers.rows(routed))
        lines += [
            "Routers whose honest peers search differently, the rogues listed first: recall@5 calm, attacked (worst) / leak",
            "",
        ]
        rows = [
            [cast, *(f"{one['calm']:.3f}, {one['recall']:.3f} / {one['leak']:.2f}" for one in votes.values())]
            for cast, votes in real_part["differing"].items()
        ]
        lines += table(("peers", "plain", "rrf"), rows)
        lines += ["Routers whose peers are all honest, rrf: recall@5", ""]
        told = real_part["honest"]
        rows = [
            [f"{data}: {cast}", *(f"{value:.3f}" for value in found.values())]
            for data, casts in told.items()
            for cast, found in casts.items()
        ]
        lines += table(("peers", "plain", "rrf"), rows)
    return [*lines, ""]


def _three(one: Mapping[str, float]) -> str:
    return f"{_cell(one)} / {one['displacement']:.2f}"


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
