"""Fusion under attack, the mathematics: stubs of memorywire's shape in place of stores."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from quipu.model.operations import Fusion
from quipu.rules import fusion, vouching

SEED = 1337
K = 5
#: As published, and as far as anybody may want to go.
SIZES, FEWER_SIZES = tuple(range(0, 55, 5)), (0, 1, 5, 20, 100, 1000)
_CORPUS, _QUERIES, _GOLD, _OVERFETCH = 50, 20, 2, 20
_MARK = "rogue-"


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
    trims: bool = True
    #: Whether the first honest one is a ledger, whose own ranking is believed.
    has_ledger: bool = False


def stubs(method: Fusion, size: int, peers: Peers | None = None, seed: int = SEED) -> Measured:
    """The three numbers for one attack size."""
    chosen = peers or Peers()
    calm = _tops(method, 0, replace(chosen, attack="invent"), seed)
    hit = _tops(method, size, chosen, seed)
    recalls, leaks, displaced = [], [], []
    for (gold, before), (_, after) in zip(calm, hit, strict=True):
        kept = [id for id in before if id in gold]
        recalls.append(len(gold & set(after)) / len(gold))
        leaks.append(sum(id.startswith(_MARK) for id in after) / max(1, len(after)))
        displaced.append(sum(id not in after for id in kept) / max(1, len(kept)))
    return Measured(*(statistics.fmean(values) for values in (recalls, leaks, displaced)))


@lru_cache(maxsize=256)
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
        trusted = f"{names[1]}-0" if peers.has_ledger else None
        order = fusion.fused(lists, method, trim_votes=peers.trims, trusted=trusted)
        told.append((set(gold), [item.id for item in _shown(order, method, peers)[:K]]))
    return told


def _shown(order: Sequence[fusion.Fused], method: Fusion, peers: Peers) -> Sequence[fusion.Fused]:
    """What a router of these would show: it has written nothing, so every id needs its vouchers."""
    listed = peers.benign + peers.rogues
    if not peers.trims or peers.has_ledger or not vouching.is_asked_for(listed, method):
        return order
    return vouching.vouched(order, vouching.Vouching(listed, listed)).order


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
        agreed = fusion.fused(lists, Fusion.RRF, trim_votes=False)
        pushed = [item.id for item in agreed if item.id not in gold]
        return [_vote(id, 1.0 - 0.001 * rank) for rank, id in enumerate(pushed)]
    invented = [_vote(f"{_MARK}{number}", 1.0 - 0.001 * number) for number in range(size)]
    others = [vote.id for vote in honest[0] if vote.id not in gold]
    tail = [*gold, *drawn.sample(others, len(others))]
    return [*invented, *(_vote(id, 0.5 - 0.001 * rank) for rank, id in enumerate(tail))]


def _vote(id: str, score: float) -> fusion.Vote:
    return fusion.Vote(id=id, similarity=score, relevance=score)
