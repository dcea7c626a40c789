"""How sure Quipu is that a hit answers the query, from 0 to 1, and from where on a hit is returned.

The score orders hits; relevance judges them, so that "nothing matches" can be said. It is a logistic function of

1. how near the best hit is to what is particular about the query, and how much of the query's words are found: where one
   record clearly answers, a weaker one may belong to the answer; where none does, none is believed. Where the query names
   users, the best of what is about them;
2. how many records were compared: among many, one is always near. The nearest of n records that do not answer is nearer
   by as much for every doubling of n; among a handful it makes no difference whether there are three or ten;
3. whether the query is compared without words of it (a name, or what much of the memory is about). What is left says
   less, so the record that answers it is farther away, and so are those that do not;
4. how near the hit itself is, and whether it is about those whom the query names;
5. whether the query names a person whom no record mentions.

That is the chance that there is an answer. Of it a hit has the share that its own nearness and words give it, beside
those of the best: the best has nearly all of it, one that is far behind a little less than half.

Calibrated per embedder, on queries whose answers are known and on questions that have none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quipu.model.search import Candidate
from quipu.search.query import Query, about

#: The named floors: everything is returned; only as good as no true answer is lost; hardly a wrong one is returned.
Floor: TypeAlias = Literal["off", "auto", "strict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The logistic's coefficients, and where the named floors lie."""

    intercept: float
    cosine: float = 0.0
    best_cosine: float = 0.0
    #: For the best covered share of the query's words; without vectors, for the hit's own.
    coverage: float = 0.0
    #: For the logarithm of how many records were compared, and so many more.
    compared: float = 0.0
    compared_more: float = 0.0
    #: For a query that is compared without words of it.
    shortened: float = 0.0
    #: Where the query names users: for a hit that is about them, and for one that is not.
    about_named: float = 0.0
    about_others: float = 0.0
    #: For a query that names a person whom no record mentions.
    unknown_person: float = 0.0
    #: The least share a hit has; how shares fall off behind the best, and how much the hit's own words lift one.
    least_share: float = 1.0
    fall: float = 0.0
    lead: float = 0.0
    lift: float = 0.0
    #: Conservative: loses as good as no true answer.
    auto: float
    #: Balanced: loses a true answer now and then, and is seldom taken in by a question without one.
    strict: float


#: Without vectors only the words speak.
KEYWORD_ONLY = Calibration(intercept=-2.0, coverage=6.0, about_named=1.0, auto=0.15, strict=0.5)
_MINILM = Calibration(
    intercept=-1.5,
    cosine=2.0,
    best_cosine=15.0,
    coverage=2.0,
    compared=-0.85,
    compared_more=15.0,
    shortened=1.0,
    about_others=-3.0,
    unknown_person=-4.0,
    least_share=0.46,
    fall=12.0,
    lead=3.0,
    lift=3.0,
    auto=0.28,
    strict=0.44,
)


def calibration(model: str | None) -> Calibration:
    """What is known about an embedder (None: there is none). Those that were not calibrated are judged as the default."""
    return KEYWORD_ONLY if model is None else _MINILM


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of a question besides its candidates."""

    #: How many records it was compared with: all that were searched, or those of the users it names.
    compared: int
    users: frozenset[str] = frozenset()
    names_unknown_person: bool = False
    is_shortened: bool = False


def question_of(query: Query, searched: int) -> Question:
    """The question behind a query, of which so many records were searched."""
    return Question(
        compared=min(query.theirs, searched) if query.users else searched,
        users=query.users,
        names_unknown_person=query.names_unknown_person,
        is_shortened=query.is_shortened,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """The best that speaks for there being an answer: among what is about the users named, or among everything."""

    cosine: float
    coverage: float


def evidence(candidates: Sequence[Candidate], question: Question) -> Evidence:
    """How near the nearest candidate is, and how much of the query's words one of them has."""
    users = question.users
    leading = [one for one in candidates if about(one, users)] if users else []
    leading = leading or candidates
    return Evidence(
        max((one.cosine for one in leading if one.cosine is not None), default=0.0),
        max((one.coverage for one in leading), default=0.0),
    )


def relevances(candidates: Sequence[Candidate], known: Calibration, question: Question) -> list[float]:
    """The chance, for each candidate, that it answers the query; all of them are evidence."""
    best = evidence(candidates, question)
    common = known.intercept + known.best_cosine * best.cosine + known.coverage * best.coverage
    common += known.compared * math.log(max(1, question.compared) + known.compared_more)
    common += known.shortened * question.is_shortened + known.unknown_person * question.names_unknown_person
    judged: list[float] = []
    # Every candidate of every recall passes here, so what is the same for all is looked up once.
    best_cosine, least_share, exp = best.cosine, known.least_share, math.exp
    by_cosine, lead_at_best, fall, lift = known.cosine, known.lead, known.fall, known.lift
    for candidate in candidates:
        judge, share = known, 1.0
        nearest = candidate.cosine
        if nearest is None:
            judge = KEYWORD_ONLY
            evident = judge.intercept + judge.coverage * candidate.coverage
        else:
            # How much of the chance that there is an answer belongs to a hit so far behind the best.
            nearest = nearest if nearest < best_cosine else best_cosine
            behind = nearest - best_cosine
            evident = common + by_cosine * nearest
            lead = lead_at_best + fall * behind + lift * candidate.coverage
            share = least_share + (1 - least_share) / (1 + exp(-lead))
        if question.users:
            meant = about(candidate, question.users)
            evident += judge.about_named * meant if meant else judge.about_others
        judged.append(round(share / (1 + exp(-evident)), 6))
    return judged


def floor(asked: float | Floor, known: Calibration) -> float:
    """The relevance below which a hit is not returned."""
    match asked:
        case "off":
            return 0.0
        case "auto":
            return known.auto
        case "strict":
            return known.strict
        case number:
            return number
