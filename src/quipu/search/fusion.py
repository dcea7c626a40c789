"""How the rankings of several backends become one.

- `rrf`: the sum of 1 / (60 + rank), ranks from 0; what backends report as scores plays no part.
- `max`: the largest score. `weighted`: the sum of weight times score. A score counts as much as 0 to 1, whatever a
  backend claims, unless the scores are raw: those of equals whom the caller trusts. What is not a number counts 0.
- With a trusted backend (the ledger among its mirrors) `rrf` counts its votes alone, so that its own order stands; what
  only others found comes behind, in the order of their sum.
- Ties (scores equal to 12 decimals): by the plain sum where votes were left out; known before foreign, in more rankings,
  better best rank, higher summed weight, higher relevance, smaller id. The order of backends never matters.
"""

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from quipu.errors import BackendUnavailableError, Fault, InvalidError

Fusion: TypeAlias = Literal["rrf", "max", "weighted"]

RRF_CONSTANT: Final = 60
TIE_DECIMALS: Final = 12
DEFAULT_WEIGHT: Final = 1.0
#: What the votes of others count where a trusted backend has none: less than its smallest vote, however many they are.
_UNTRUSTED: Final = 0.001


@dataclass(slots=True)
class Vote:
    """One place in one backend's ranking."""

    id: str
    score: float
    relevance: float
    #: No record of ours stands behind it.
    is_foreign: bool = False


@dataclass(slots=True)
class Fused:
    """One item of the common ranking."""

    id: str
    score: float
    #: Everybody that returned it, the one that ranked it best first, then by name.
    backends: tuple[str, ...]
    relevance: float
    is_foreign: bool
    #: What decides between equal scores, most important first.
    tie: tuple[float | bool | int | str, ...]


def fused(
    rankings: Mapping[str, Sequence[Vote]],
    method: Fusion,
    weights: Mapping[str, float] | None = None,
    *,
    quorum_k: int = 1,
    trusted: str | None = None,
    is_raw: bool = False,
) -> list[Fused]:
    """The common ranking of the backends' rankings, best first.

    With a quorum, only what so many backends returned; never foreign hits. `trusted` is the backend whose own order
    stands under `rrf`; without one every vote counts. `is_raw`: scores count as they are given, not as 0 to 1.
    """
    ballots: dict[str, list[tuple[str, int, Vote]]] = {}
    for name in sorted(rankings):
        for rank, vote in enumerate(_distinct(rankings[name])):
            ballots.setdefault(vote.id, []).append((name, rank, vote))
    believed = trusted if trusted in rankings and len(rankings) > 1 and method == "rrf" else None
    items = (_item(id, ballot, method, weights or {}, believed, is_raw) for id, ballot in ballots.items())
    wanted = [
        item for item in items if quorum_k <= 1 or (len(item.backends) >= quorum_k and not item.is_foreign)
    ]
    return sorted(wanted, key=lambda item: (-round(item.score, TIE_DECIMALS), item.tie))


def ordered(scored: Iterable[tuple[Fused, float]]) -> list[tuple[Fused, float]]:
    """Items by their final score, with the tie rules of fusion; foreign ones behind all others."""
    return sorted(scored, key=lambda pair: (pair[0].is_foreign, -round(pair[1], TIE_DECIMALS), pair[0].tie))


def final_score(
    fused_score: float,
    hop_factor: float,
    confidence: float,
    is_demoted: bool,
    confidence_weight: float = 0.2,
    demote_factor: float = 0.25,
) -> float:
    """The fused score after hop boost, confidence and demotion."""
    doubt = 1 - confidence_weight * (1 - confidence)
    return fused_score * hop_factor * doubt * (demote_factor if is_demoted else 1.0)


@dataclass(frozen=True, slots=True)
class Votes:
    """Who voted for an item, for an explanation."""

    #: Its place with each backend, from 1.
    places: Mapping[str, int]
    #: Those whose votes did not count.
    left_out: tuple[str, ...]


def votes(
    id: str, rankings: Mapping[str, Sequence[Vote]], method: Fusion, trusted: str | None = None
) -> Votes:
    """The votes for one item of `fused` with the same arguments."""
    places: dict[str, int] = {}
    for name in sorted(rankings):
        ids = [vote.id for vote in _distinct(rankings[name])]
        if id in ids:
            places[name] = ids.index(id) + 1
    is_trusting = method == "rrf" and trusted in rankings and len(rankings) > 1
    return Votes(places, tuple(name for name in places if is_trusting and name != trusted))


def check_weights(weights: Mapping[str, float], backends: Collection[str], pointer: str = "/weights") -> None:
    """Raise for the weight of an unknown backend, and for one that is negative or no number."""
    for name in sorted(weights):
        place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in backends:
            known = ", ".join(sorted(backends))
            raise InvalidError("There is no backend of this name.", faults=[Fault(place, "bad_value", known)])
        if not (math.isfinite(weights[name]) and weights[name] >= 0):
            raise InvalidError(
                "A weight is a number from 0 up.", faults=[Fault(place, "bad_value", "number >= 0")]
            )


def check_quorum(quorum_k: int, configured: int, answered: int, pointer: str = "/quorum_k") -> None:
    """Raise when so many backends are not there at all, or did not answer."""
    if quorum_k > configured:
        raise InvalidError(
            "There are fewer backends than this quorum.",
            faults=[Fault(pointer, "quorum_unreachable", f"1 to {configured}")],
        )
    if quorum_k > answered:
        raise BackendUnavailableError(
            "Too few backends answered for this quorum.", reason="quorum_unreachable"
        )


def _distinct(ranking: Sequence[Vote]) -> list[Vote]:
    """An id that a backend repeats counts once, where it stands first."""
    distinct: dict[str, Vote] = {}
    for vote in ranking:
        distinct.setdefault(vote.id, vote)
    return list(distinct.values())


def _believed(score: float, is_raw: bool) -> float:
    if is_raw:
        return score if math.isfinite(score) else 0.0
    return 0.0 if math.isnan(score) else min(1.0, max(0.0, score))


def _item(
    id: str,
    ballot: Sequence[tuple[str, int, Vote]],
    method: Fusion,
    weights: Mapping[str, float],
    trusted: str | None,
    is_raw: bool,
) -> Fused:
    if len(ballot) == 1:
        return _of_one(id, *ballot[0], method, weights, trusted, is_raw)
    ballot = sorted(ballot, key=lambda vote: (vote[1], vote[0]))  # the one that ranked it best comes first
    shares = [1 / (RRF_CONSTANT + rank) for _, rank, _ in ballot]
    of_backends = [weights.get(name, DEFAULT_WEIGHT) for name, _, _ in ballot]
    plain_sum, weight = math.fsum(shares), math.fsum(of_backends)
    if method == "rrf":
        own = next((share for share, vote in zip(shares, ballot, strict=True) if vote[0] == trusted), None)
        score = plain_sum if trusted is None else _UNTRUSTED * plain_sum if own is None else own
    else:
        values = [_believed(vote.score, is_raw) for _, _, vote in ballot]
        score = max(values) if method == "max" else math.fsum(map(operator.mul, of_backends, values))
    backends = tuple([name for name, _, _ in ballot])
    relevance = max([vote.relevance for _, _, vote in ballot])
    is_foreign = all(vote.is_foreign for _, _, vote in ballot)
    tie = (
        0.0 if trusted is None else -round(plain_sum, TIE_DECIMALS),  # where votes were left out
        is_foreign,
        -len(backends),
        ballot[0][1],
        -round(weight, TIE_DECIMALS),
        -relevance,
        id,
    )
    return Fused(
        id=id,
        score=score,
        backends=backends,
        relevance=relevance,
        is_foreign=is_foreign,
        tie=tie,
    )


def _of_one(
    id: str,
    backend: str,
    rank: int,
    vote: Vote,
    method: Fusion,
    weights: Mapping[str, float],
    trusted: str | None,
    is_raw: bool,
) -> Fused:
    """The same for what one backend alone returned, without sums: most items of most recalls."""
    weight, share = weights.get(backend, DEFAULT_WEIGHT), 1 / (RRF_CONSTANT + rank)
    if method == "rrf":
        score = share if trusted is None or backend == trusted else _UNTRUSTED * share
    else:
        believed = _believed(vote.score, is_raw)
        score = believed if method == "max" else weight * believed
    others = 0.0 if trusted is None else -round(share, TIE_DECIMALS)
    return Fused(
        id=id,
        score=score,
        backends=(backend,),
        relevance=vote.relevance,
        is_foreign=vote.is_foreign,
        tie=(others, vote.is_foreign, -1, rank, -round(weight, TIE_DECIMALS), -vote.relevance, id),
    )
