"""How the rankings of several backends become one.

- `rrf`: sum of 1 / (60 + rank), ranks from 0; what backends report as scores plays no part.
- `max`: the largest similarity. `weighted`: the sum of weight × similarity.
- Under `rrf` votes are left out, so that a minority that lies moves nothing: see `quipu.rules.fusion_trimmed`. Without
  that (`trim_votes=False`) it is the plain sum, as memorywire has it.
- Ties (scores equal to 12 decimals): by the plain sum where votes were left out; resolved before foreign, in more lists, lower best rank, higher
  summed weight, higher relevance, smaller id. The order in which backends are listed never matters.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.operations import Fusion
from quipu.model.value import Json
from quipu.rules.fusion_trimmed import Trim, trim_of

RRF_CONSTANT: Final = 60
TIE_DECIMALS: Final = 12
_TIE: Final = 10.0**-TIE_DECIMALS
DEFAULT_WEIGHT: Final = 1.0


class Foreign(StrEnum):
    """What becomes of hits that no record of the ledger stands behind."""

    #: Those of mirrors with contents of their own fill free places. What a mirror of copies made up is not shown.
    OWN = "own"
    #: Those of every mirror fill free places.
    LAST = "last"
    MIX = "mix"
    OFF = "off"


@dataclass(slots=True)
class Vote:
    """One place in one backend's ranking. Only the similarity of a foreign hit is what the backend reports."""

    id: str
    similarity: float
    relevance: float
    foreign: bool = False


@dataclass(slots=True)
class Fused:
    """One item of the common ranking. Neither it nor a vote is frozen: a recall makes dozens of them."""

    id: str
    score: float
    #: Everybody that returned it, the one that ranked it best first, then by name.
    backends: tuple[str, ...]
    best_rank: int
    relevance: float
    foreign: bool
    #: The summed weight of its backends.
    weight: float
    #: The plain sum, which breaks ties where votes were left out; 0 where none were.
    untrimmed: float = 0.0

    @property
    def source(self) -> str:
        """The backend that ranked it best."""
        return self.backends[0]


def fused(
    lists: Mapping[str, Sequence[Vote]],
    method: Fusion,
    weights: Mapping[str, float] | None = None,
    *,
    quorum_k: int = 1,
    trim_votes: bool = True,
    trusted: str | None = None,
) -> list[Fused]:
    """The common ranking, best first. With a quorum, only what so many backends returned; never foreign hits.

    `trusted` is the backend whose own ranking stands: the ledger beside its mirrors.
    """
    items: Iterable[Fused]
    if len(lists) == 1:
        ((name, votes),) = lists.items()
        items = _alone(name, votes, method, (weights or {}).get(name, DEFAULT_WEIGHT))
        if method is Fusion.RRF:  # the order they come in is the order of their scores
            return [item for item in items if _counts(item, quorum_k)]
    else:
        trim = trimmed(lists, method, trusted) if trim_votes else None
        items = (_item(id, ballot, method, weights or {}, trim) for id, ballot in _ballots(lists).items())
    return sorted(
        (item for item in items if _counts(item, quorum_k)), key=lambda item: _place(item, item.score)
    )


def trimmed(lists: Mapping[str, object], method: Fusion, trusted: str | None = None) -> Trim | None:
    """How votes are left out among these backends; None where all of them count."""
    believed = trusted if trusted in lists else None
    return trim_of(len(lists), believed) if method is Fusion.RRF else None


def votes_for(id: str, lists: Mapping[str, Sequence[Vote]], trim: Trim | None) -> dict[str, Json]:
    """An item's votes as `explain` tells them: its place with each backend, from 1, and whose votes were left out."""
    places: dict[str, int] = {}
    for name in sorted(lists):
        distinct = list(dict.fromkeys(vote.id for vote in lists[name]))
        if id in distinct:
            places[name] = distinct.index(id)
    shares = {name: _share(rank) for name, rank in places.items()}
    left_out = () if trim is None else trim.left_out(shares)
    return {
        "places": {name: rank + 1 for name, rank in places.items()},
        "left_out": list(left_out),
        "outvoted": len(left_out) == len(places),
    }


def ordered(
    scored: Iterable[tuple[Fused, float]], foreign: Foreign = Foreign.LAST
) -> list[tuple[Fused, float]]:
    """Items by their final score, with the tie rules of fusion and the place that foreign hits are given."""
    pairs = [pair for pair in scored if foreign is not Foreign.OFF or not pair[0].foreign]
    if _is_in_order(pairs):
        return pairs
    is_apart = foreign is not Foreign.MIX
    return sorted(pairs, key=lambda pair: (is_apart and pair[0].foreign, *_place(*pair)))


def _is_in_order(pairs: Sequence[tuple[Fused, float]]) -> bool:
    """Whether none is foreign and each score is so far below the one before that no tie rule is asked for."""
    bound = math.inf
    for item, score in pairs:
        if item.foreign or not score < bound:
            return False
        bound = score - 2 * _TIE
    return True


def final_score(
    fused_score: float,
    hop_factor: float,
    confidence: float,
    demoted: bool,
    confidence_weight: float = 0.2,
    demote_factor: float = 0.25,
) -> float:
    """The fused score after hop boost, confidence and demotion."""
    doubt = 1 - confidence_weight * (1 - confidence)
    return fused_score * hop_factor * doubt * (demote_factor if demoted else 1.0)


def checked_weights(
    weights: Mapping[str, float], backends: Collection[str], pointer: str = "/weights"
) -> None:
    """Raise for the weight of an unknown backend, and for one that is negative or no number."""
    for name in sorted(weights):
        place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in backends:
            raise InvalidError.at(
                place, "bad_value", "There is no backend of this name.", accepted=sorted(backends)
            )
        if not (math.isfinite(weights[name]) and weights[name] >= 0):
            raise InvalidError.at(
                place, "bad_value", "A weight is a number from 0 up.", accepted=("number >= 0",)
            )


def checked_quorum(quorum_k: int, configured: int, answered: int, pointer: str = "/quorum_k") -> None:
    """Raise when so many backends are not there at all, or did not answer."""
    if quorum_k > configured:
        raise InvalidError.at(
            pointer,
            "quorum_unreachable",
            "There are fewer backends than this quorum.",
            accepted=(f"1..{configured}",),
        )
    if quorum_k > answered:
        raise BackendUnavailableError(
            "Too few backends answered for this quorum.", reason="quorum_unreachable"
        )


def _ballots(lists: Mapping[str, Sequence[Vote]]) -> dict[str, list[tuple[str, int, Vote]]]:
    """Per item its votes in name order. An id that a backend repeats counts once, where it stands first."""
    ballots: dict[str, list[tuple[str, int, Vote]]] = {}
    for name in sorted(lists):
        distinct: dict[str, Vote] = {}
        for vote in lists[name]:
            distinct.setdefault(vote.id, vote)
        for rank, vote in enumerate(distinct.values()):
            ballots.setdefault(vote.id, []).append((name, rank, vote))
    return ballots


def _alone(name: str, votes: Sequence[Vote], method: Fusion, weight: float) -> Iterator[Fused]:
    """What `_item` makes of each vote where there is one backend: every recall without mirrors comes through here."""
    distinct: dict[str, Vote] = {}
    for vote in votes:
        distinct.setdefault(vote.id, vote)
    backends = (name,)
    for rank, vote in enumerate(distinct.values()):
        if method is Fusion.RRF:
            score = _share(rank)
        else:
            score = _clamped(vote.similarity) * (weight if method is Fusion.WEIGHTED else 1.0)
        yield Fused(vote.id, score, backends, rank, vote.relevance, vote.foreign, weight)


def _item(
    id: str,
    ballot: Sequence[tuple[str, int, Vote]],
    method: Fusion,
    weights: Mapping[str, float],
    trim: Trim | None,
) -> Fused:
    own_weights = [weights.get(name, DEFAULT_WEIGHT) for name, _, _ in ballot]
    similarities = [_clamped(vote.similarity) for _, _, vote in ballot]
    shares = {name: _share(rank) for name, rank, _ in ballot}
    match method:
        case Fusion.RRF:
            score = math.fsum(shares.values()) if trim is None else trim.score(shares)
        case Fusion.MAX:
            score = max(similarities)
        case Fusion.WEIGHTED:
            score = math.fsum(weight * value for weight, value in zip(own_weights, similarities, strict=True))
        case _:
            assert_never(method)
    return Fused(
        id=id,
        score=score,
        backends=tuple(name for _, name in sorted((rank, name) for name, rank, _ in ballot)),
        best_rank=min(rank for _, rank, _ in ballot),
        relevance=max(vote.relevance for _, _, vote in ballot),
        foreign=all(vote.foreign for _, _, vote in ballot),
        weight=math.fsum(own_weights),
        untrimmed=0.0 if trim is None else math.fsum(shares.values()),
    )


def _share(rank: int) -> float:
    return 1 / (RRF_CONSTANT + rank)


def _clamped(similarity: float) -> float:
    """Within 0..1, whatever a backend claims; what is no number is worth nothing."""
    return min(max(similarity, 0.0), 1.0) if not math.isnan(similarity) else 0.0


def _counts(item: Fused, quorum_k: int) -> bool:
    return quorum_k <= 1 or (len(item.backends) >= quorum_k and not item.foreign)


def _place(item: Fused, score: float) -> tuple[float | bool | int | str, ...]:
    """Sorts best first."""
    return (
        -round(score, TIE_DECIMALS),
        -round(item.untrimmed, TIE_DECIMALS),
        item.foreign,
        -len(item.backends),
        item.best_rank,
        -round(item.weight, TIE_DECIMALS),
        -item.relevance,
        item.id,
    )
