"""What is counted of answers, as numbers with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.recall.sets import Part, Question

KS = (1, 5, 10, 25)
_DRAWS = 1_000
_SEED = 2025
#: So many hits of each answer are looked at for calibration.
_JUDGED = 5
BINS = 10


@dataclass(frozen=True)
class Outcome:
    """What became of one question."""

    kind: str
    is_answerable: bool
    #: For each text that answers, or for the best hit that holds the answer, its place from 0; None: not found.
    places: tuple[int | None, ...] = ()
    #: The same for the sessions that answer, among the sessions in the order of their first hits.
    session_places: tuple[int | None, ...] = ()
    #: Places once the default floor has left out what it leaves out. None for a method without a floor.
    kept_places: tuple[int | None, ...] | None = None
    is_emptied: bool = False
    #: Whether the first hit holds an answer, where later texts contradict earlier ones.
    is_current_first: bool | None = None
    #: What the method says of its best hit, by which to tell whether anything answers.
    best: float = 0.0
    #: Of the first hits: relevance, and whether it is right. Empty for a method that claims no relevance.
    judged: tuple[tuple[float, bool], ...] = ()
    #: Of an updated fact: whether what is true now came before what was. None where neither was found.
    is_newer_first: bool | None = None


@dataclass(frozen=True)
class Measure:
    """A number, where it lies in 95 of 100 draws of the questions, and of how many questions it is."""

    value: float
    low: float
    high: float
    count: int


Measures: TypeAlias = dict[str, Measure]


def outcome(
    part: Part,
    question: Question,
    hits: Sequence[tuple[str, float]],
    kept: Sequence[str] | None = None,
) -> Outcome:
    """Hits are names with scores, best first; `kept` are those that the default floor leaves."""
    names = [name for name, _ in hits]
    texts = {one.name: one for one in part.texts}
    sessions = list(dict.fromkeys(texts[name].session for name in names))
    newer, older = (_first(names, some) for some in (question.newer, question.older))
    return Outcome(
        kind=question.kind,
        is_answerable=question.is_answerable or bool(question.sessions),
        places=_places(part, question, names),
        session_places=tuple(
            sessions.index(one) if one in sessions else None for one in sorted(question.sessions)
        ),
        kept_places=None if kept is None else _places(part, question, kept),
        is_emptied=kept is not None and not kept,
        is_current_first=bool(names) and _is_right(texts[names[0]].content, names[0], question)
        if question.answers
        else None,
        best=hits[0][1] if hits else 0.0,
        judged=()
        if kept is None
        else tuple((score, _is_right(texts[name].content, name, question)) for name, score in hits[:_JUDGED]),
        is_newer_first=None if newer == older else newer < older,
    )


def _is_right(text: str, name: str, question: Question) -> bool:
    return name in question.gold or any(one.lower() in text.lower() for one in question.answers)


def _places(part: Part, question: Question, names: Sequence[str]) -> tuple[int | None, ...]:
    if question.gold:
        return tuple(names.index(one) if one in names else None for one in sorted(question.gold))
    if not question.answers:
        return ()
    texts = {one.name: one.content for one in part.texts}
    right = [place for place, name in enumerate(names) if _is_right(texts[name], name, question)]
    return (right[0] if right else None,)


def _first(names: Sequence[str], some: frozenset[str]) -> float:
    return min((names.index(one) for one in some if one in names), default=math.inf)


# -- numbers --------------------------------------------------------------------------------------------------------


def share(places: Sequence[int | None], k: int) -> float:
    """The share of what answers among the first k."""
    return sum(place is not None and place < k for place in places) / len(places)


def measures(outcomes: Sequence[Outcome]) -> Measures:
    """Every number of a set, in the order in which they are shown."""
    found: Measures = {}

    def add(name: str, values: Sequence[float]) -> None:
        if values:
            found[name] = mean(values)

    placed = [one for one in outcomes if one.places]
    for k in KS:
        add(f"@{k}", [share(one.places, k) for one in placed])
    kinds = sorted({one.kind for one in placed})
    for kind in kinds if len(kinds) > 1 else ():
        for k in (5, 10):
            add(f"@{k} {kind}", [share(one.places, k) for one in placed if one.kind == kind])
    add("first is current", [one.is_current_first for one in outcomes if one.is_current_first is not None])
    add("newer first", [one.is_newer_first for one in outcomes if one.is_newer_first is not None])
    with_sessions = [one for one in outcomes if one.session_places]
    for what, some in (("session", with_sessions), ("turn", placed if with_sessions else [])):
        for k in (5, 10):
            places = [one.session_places if what == "session" else one.places for one in some]
            add(f"{what} recall_any@{k}", [share(one, k) > 0 for one in places])
            add(f"{what} recall_all@{k}", [share(one, k) == 1 for one in places])
    kept = [one.kept_places for one in placed if one.kept_places is not None]
    add("@5 with the default floor", [share(one, 5) for one in kept])
    answerable = [one for one in outcomes if one.is_answerable]
    unanswerable = [one for one in outcomes if not one.is_answerable]
    if kept:
        add("answerable and emptied", [one.is_emptied for one in answerable])
        kinds = sorted({one.kind for one in unanswerable})
        for kind in kinds:
            add(
                f"unanswerable and emptied ({kind})",
                [one.is_emptied for one in unanswerable if one.kind == kind],
            )
    if answerable and unanswerable:
        found["best hit tells answerable, AUC"] = auc(
            [one.best for one in answerable], [one.best for one in unanswerable]
        )
    return found


def mean(values: Sequence[float]) -> Measure:
    """The mean, with its interval by drawing as many again."""
    numbers = np.asarray(values, float)
    drawn = numbers[_draws(len(numbers))].mean(axis=1)
    return Measure(fmean(numbers), *_interval(drawn), len(numbers))


def auc(positive: Sequence[float], negative: Sequence[float]) -> Measure:
    """How often the first kind of question has the higher value; equal ones count half."""
    first, second = np.asarray(positive, float), np.asarray(negative, float)
    wins = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    # Draws of both kinds, by how often each was drawn.
    often, others = (_often(len(one), seed) for one, seed in ((first, _SEED), (second, _SEED + 1)))
    drawn = np.einsum("di,ij,dj->d", often, wins, others, optimize=True) / wins.size
    return Measure(float(wins.mean()), *_interval(drawn), len(first) + len(second))


def difference(these: Sequence[float], those: Sequence[float]) -> Measure:
    """How much more the first has of the same questions."""
    return mean([a - b for a, b in zip(these, those, strict=True)])


def calibration(outcomes: Sequence[Outcome], first: int = _JUDGED) -> list[tuple[int, int]]:
    """For each tenth of relevance: how many of the first hits have it, and how many of those are right."""
    found = [(0, 0)] * BINS
    for one in outcomes:
        for relevance, is_right in one.judged[:first]:
            place = min(int(relevance * BINS), BINS - 1)
            count, right = found[place]
            found[place] = (count + 1, right + is_right)
    return found


def _draws(count: int, seed: int = _SEED) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, count, (_DRAWS, count))


def _often(count: int, seed: int) -> NDArray[np.float64]:
    return np.stack([np.bincount(one, minlength=count) for one in _draws(count, seed)]).astype(float)


def _interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)
