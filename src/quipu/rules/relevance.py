"""How sure Quipu is that a hit answers the query, from 0 to 1, and from where on it says so.

Score orders hits; relevance judges them, so that "nothing matches" can be said. It is a logistic function of how near
the hit is to what is particular about the query, and of how near the best hit is: where one record clearly answers, a
weaker one may belong to the answer; where none does, none is believed. Calibrated per embedder, on queries whose answers
are known and on questions that have none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quipu.model.operations import Floor
from quipu.model.search import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The logistic's coefficients, and where the named floors lie."""

    intercept: float
    cosine: float = 0.0
    best_cosine: float = 0.0
    coverage: float = 0.0
    #: Conservative: loses as good as no true answer.
    auto: float
    #: Balanced: loses a true answer now and then, and is seldom taken in by a question without one.
    strict: float


#: Without vectors only the words speak.
KEYWORD_ONLY = Calibration(intercept=-2.0, coverage=6.0, auto=0.15, strict=0.5)
_MINILM = Calibration(intercept=-2.5, cosine=4.15, best_cosine=4.15, auto=0.22, strict=0.25)
#: By the beginning of the embedder's name; any other is judged as the default one is.
_CALIBRATED: Mapping[str, Calibration] = {"all-MiniLM-L6-v2": _MINILM}


def calibration(model: str | None) -> Calibration:
    """What is known about an embedder (None: there is none)."""
    if model is None:
        return KEYWORD_ONLY
    return next((known for name, known in _CALIBRATED.items() if model.startswith(name)), _MINILM)


def relevances(candidates: Sequence[Candidate], known: Calibration) -> list[float]:
    """The chance, for each candidate, that it answers the query."""
    best = max((candidate.cosine for candidate in candidates if candidate.cosine is not None), default=0.0)
    return [_relevance(candidate, best, known) for candidate in candidates]


def _relevance(candidate: Candidate, best_cosine: float, known: Calibration) -> float:
    cosine = candidate.cosine
    if cosine is None:
        evidence = KEYWORD_ONLY.intercept + KEYWORD_ONLY.coverage * candidate.coverage
    else:
        evidence = known.intercept + known.cosine * cosine + known.best_cosine * best_cosine
    return round(1 / (1 + math.exp(-evidence)), 6)


def floor(asked: float | Floor, known: Calibration) -> float:
    """The relevance below which a hit is not returned."""
    match asked:
        case Floor.OFF:
            return 0.0
        case Floor.AUTO:
            return known.auto
        case Floor.STRICT:
            return known.strict
        case number:
            return number
