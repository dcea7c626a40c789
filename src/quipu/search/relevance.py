"""How sure Quipu is that a hit answers the query, from 0 to 1, and from where on a hit is returned.

The score orders hits; relevance judges each by itself, so that "nothing matches" can be said. Two things speak for a hit:
how near it is to what the query says (names aside, `people.py`), and how much of the query's words it has. Against it
speaks a crowd: among many records, one is always near.

The floors lie at an amount of evidence, however many records there are: `auto` loses about one true answer in a hundred,
`strict` about one in ten, on sets of other shapes than those they were chosen on. Among facts they leave out most of what
does not answer. Among the turns of a conversation nearness tells little about whether anything answers, so hardly anything
is left out there.

The numbers belong to an embedder and stand in its description; they were fitted on facts, documents and conversations
together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quipu.model.search import Candidate
from quipu.search.query import Query, about

#: The named floors: everything is returned; only as good as no true answer is lost; hardly a wrong one is returned.
Floor: TypeAlias = Literal["off", "auto", "strict"]

#: More records than so many are no larger crowd.
_MOST_COMPARED = 300
#: Among a handful it makes little difference whether there are three or six.
_HANDFUL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The logistic's coefficients, and the evidence from where on the named floors let a hit through."""

    intercept: float
    evidence: float
    #: What counts as evidence beside the cosine: the covered share of the query's words, and being a short turn.
    coverage: float
    brevity: float = 0.0
    #: For the logarithm of how many records were compared.
    crowd: float = 0.0
    #: Where the query names users: evidence for a hit that is about them, and for one that is not.
    about_named: float = 0.0
    about_others: float = 0.0
    #: For a query that names a person whom no record mentions.
    unknown_person: float = 0.0
    auto: float
    strict: float


#: Without vectors only the words speak.
KEYWORD_ONLY = Calibration(
    intercept=-2.0, evidence=6.0, coverage=1.0, about_named=0.17, auto=0.05, strict=0.34
)
#: Of a model that nobody has measured nearness says something, and nothing is left out but what `strict` asks for.
UNMEASURED = Calibration(
    intercept=-2.0, evidence=4.0, coverage=0.5, about_others=-0.5, unknown_person=-0.5, auto=-2.0, strict=0.5
)


def calibration(measured: Mapping[str, float] | None, *, has_vector: bool) -> Calibration:
    """What is known of how near an answer is: measured for an embedder, or not; without vectors words alone speak."""
    if not has_vector:
        return KEYWORD_ONLY
    return UNMEASURED if measured is None else Calibration(**measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known of a question besides its candidates."""

    #: How many records it was compared with: all that were searched, or those of the users it names.
    compared: int
    users: frozenset[str] = frozenset()
    names_unknown_person: bool = False


def question_of(query: Query, searched: int) -> Question:
    """The question behind a query, of which so many records were searched."""
    return Question(
        compared=min(query.theirs, searched) if query.users else searched,
        users=query.users,
        names_unknown_person=query.names_unknown_person,
    )


def relevances(candidates: Sequence[Candidate], known: Calibration, question: Question) -> list[float]:
    """The chance, for each candidate, that it answers the query."""
    judges = [KEYWORD_ONLY if one.cosine is None else known for one in candidates]
    return [
        _relevance(_evidence(one, judge, question), judge, question)
        for one, judge in zip(candidates, judges, strict=True)
    ]


def floor(asked: float | Floor, known: Calibration, question: Question) -> float:
    """The relevance below which a hit is not returned."""
    match asked:
        case "off":
            return 0.0
        case "auto":
            return _relevance(known.auto, known, question)
        case "strict":
            return _relevance(known.strict, known, question)
        case number:
            return number


def _evidence(candidate: Candidate, judge: Calibration, question: Question) -> float:
    """What speaks for a hit."""
    found = (
        (candidate.cosine or 0.0) + judge.coverage * candidate.coverage + judge.brevity * candidate.brevity
    )
    if question.names_unknown_person:
        found += judge.unknown_person
    if question.users:
        meant = about(candidate, question.users)
        found += judge.about_named * meant if meant else judge.about_others
    return found


def _relevance(evidence: float, known: Calibration, question: Question) -> float:
    crowd = known.crowd * math.log(min(question.compared, _MOST_COMPARED) + _HANDFUL)
    return round(1 / (1 + math.exp(-(known.intercept + known.evidence * evidence + crowd))), 6)
