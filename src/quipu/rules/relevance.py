"""How sure Quipu is that a hit answers the query, from 0 to 1, and from where on it says so.

Score orders hits; relevance judges them, so that "nothing matches" can be said. It is a logistic function of

1. how near the best hit is to what is particular about the query, and how much of the query's words are found: where
   one record clearly answers, a weaker one may belong to the answer; where none does, none is believed. Where the query
   names users, the best of what is about them;
2. how many records were compared: among many, one is always near. The nearest of n records that do not answer is nearer
   by as much for every doubling of n; among a handful it makes no difference whether there are three or ten;
3. whether the query is compared without words of it (a name, or what much of the memory is about). What is left says
   less, so the record that answers it is farther away, and so are those that do not;
4. how near the hit itself is, and whether it is about those whom the query names;
5. whether the query names somebody of whom nothing is known.

That is the chance that there is an answer. Of it a hit has the share that its own nearness and words give it, beside
those of the best: the best has nearly all of it, one that is far behind a little less than half.

Calibrated per embedder, on queries whose answers are known and on questions that have none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quipu.model.operations import Floor
from quipu.model.search import Candidate
from quipu.rules.names import about


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The logistic's coefficients, and where the named floors lie."""

    intercept: float
    cosine: float = 0.0
    best_cosine: float = 0.0
    #: For the best covered share of the query's words; without vectors, for the hit's own.
    coverage: float = 0.0
    #: For the logarithm of how many records were compared, and so many besides.
    compared: float = 0.0
    besides: float = 0.0
    #: For a query that is compared without words of it.
    shortened: float = 0.0
    #: Where the query names users: for a hit that is about them, and for one that is not.
    meant: float = 0.0
    elsewhere: float = 0.0
    #: For a query that names somebody of whom nothing is known.
    stranger: float = 0.0
    #: The least share a hit has; where shares fall off behind the best, and how much the hit's own words lift one.
    least_share: float = 1.0
    fall: float = 0.0
    lead: float = 0.0
    lift: float = 0.0
    #: Conservative: loses as good as no true answer.
    auto: float
    #: Balanced: loses a true answer now and then, and is seldom taken in by a question without one.
    strict: float


#: Without vectors only the words speak.
KEYWORD_ONLY = Calibration(intercept=-2.0, coverage=6.0, meant=1.0, auto=0.15, strict=0.5)
_MINILM = Calibration(
    intercept=-1.5,
    cosine=2.0,
    best_cosine=15.0,
    coverage=2.0,
    compared=-0.85,
    besides=15.0,
    shortened=1.0,
    elsewhere=-3.0,
    stranger=-4.0,
    least_share=0.46,
    fall=12.0,
    lead=3.0,
    lift=3.0,
    auto=0.28,
    strict=0.44,
)
#: The table that is distilled from the same weights: its cosines tell less, the words more.
_FAST = Calibration(
    intercept=-0.4,
    cosine=1.0,
    best_cosine=7.0,
    coverage=3.2,
    compared=-0.95,
    besides=30.0,
    shortened=1.3,
    elsewhere=-3.0,
    stranger=-4.0,
    least_share=0.46,
    fall=6.0,
    lead=3.0,
    lift=3.0,
    auto=0.28,
    strict=0.36,
)
#: By the beginning of the embedder's name; any other is judged as the default one is.
_CALIBRATED: Mapping[str, Calibration] = {"all-MiniLM-L6-v2/fast": _FAST, "all-MiniLM-L6-v2": _MINILM}


def calibration(model: str | None) -> Calibration:
    """What is known about an embedder (None: there is none)."""
    if model is None:
        return KEYWORD_ONLY
    return next((known for name, known in _CALIBRATED.items() if model.startswith(name)), _MINILM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of a question besides its candidates."""

    #: How many records it was compared with: all in reach, or those of the users it names.
    compared: int
    users: frozenset[str] = frozenset()
    has_stranger: bool = False
    #: Whether its vector goes without words of it (`texts.is_shortened`).
    is_shortened: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """The best that speaks for there being an answer: among what is about the users named, or among everything."""

    cosine: float
    coverage: float


def evidence(candidates: Sequence[Candidate], question: Question) -> Evidence:
    """How near the nearest candidate is, and how much of the query's words one of them has."""
    users = question.users
    leading = ([one for one in candidates if about(one, users)] if users else None) or candidates
    return Evidence(
        max([one.cosine for one in leading if one.cosine is not None], default=0.0),
        max([one.coverage for one in leading], default=0.0),
    )


def relevances(
    candidates: Sequence[Candidate],
    known: Calibration,
    question: Question | None = None,
    first: int | None = None,
) -> list[float]:
    """The chance, for each candidate, that it answers the query; of the first so many only, though all are evidence."""
    asked = question or Question(compared=len(candidates))
    best = evidence(candidates, asked)
    common = known.intercept + known.best_cosine * best.cosine + known.coverage * best.coverage
    common += known.compared * math.log(max(1, asked.compared) + known.besides)
    common += known.shortened * asked.is_shortened + known.stranger * asked.has_stranger
    users, nearest, own, exp = asked.users, best.cosine, known.cosine, math.exp
    lead, fall, lift, least = known.lead, known.fall, known.lift, known.least_share
    told: list[float] = []
    for candidate in candidates if first is None else candidates[:first]:  # some hundreds for every recall
        cosine = candidate.cosine
        judge, share = known, 1.0
        if cosine is None:
            judge = KEYWORD_ONLY
            speaking = judge.intercept + judge.coverage * candidate.coverage
        else:
            behind = cosine - nearest
            speaking = common + own * (cosine if cosine < nearest else nearest)
            # How much of the chance that there is an answer belongs to a hit so far behind the best.
            apart = lead + fall * (behind if behind < 0.0 else 0.0) + lift * candidate.coverage
            share = least + (1 - least) / (1 + exp(-apart))
        if users:
            meant = about(candidate, users)
            speaking += judge.meant * meant if meant else judge.elsewhere
        told.append(round(share / (1 + exp(-speaking)), 6))
    return told


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
