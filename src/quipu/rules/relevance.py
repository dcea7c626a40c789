"""How sure Quipu is that a hit answers the query, from 0 to 1, and from where on it says so.

Score orders hits; relevance judges one alone, so that "nothing matches" can be said. It is a logistic function of a
few pieces of evidence, calibrated per embedder on queries whose answers are known and on questions that have none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from quipu.model.operations import Floor
from quipu.model.search import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The logistic's coefficients, and where the named floors lie."""

    intercept: float
    centred: float
    coverage: float
    cosine: float = 0.0
    auto: float
    strict: float


#: Without vectors only the words speak.
KEYWORD_ONLY = Calibration(intercept=-2.0, centred=0.0, coverage=6.0, auto=0.15, strict=0.5)
_DEFAULT = Calibration(intercept=-4.0, centred=8.0, coverage=3.0, auto=0.1, strict=0.5)
#: By the beginning of the embedder's name.
_CALIBRATED: Mapping[str, Calibration] = {"all-MiniLM-L6-v2": _DEFAULT}


def calibration(model: str | None) -> Calibration:
    """What is known about an embedder; an unknown one is judged as the default is."""
    if model is None:
        return KEYWORD_ONLY
    return next((known for name, known in _CALIBRATED.items() if model.startswith(name)), _DEFAULT)


def relevance(candidate: Candidate, known: Calibration) -> float:
    """The chance that the record answers the query."""
    if candidate.cosine is None or candidate.centred is None:
        known = KEYWORD_ONLY
    evidence = (
        known.intercept
        + known.coverage * candidate.coverage
        + known.centred * (candidate.centred or 0.0)
        + known.cosine * (candidate.cosine or 0.0)
    )
    return round(1 / (1 + math.exp(-max(-60.0, min(60.0, evidence)))), 6)


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
