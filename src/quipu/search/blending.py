"""The ledger's own ranking: keyword and vector evidence on one scale, and small priors.

1. The scores by keywords and by vectors are each brought to mean 0 and deviation 1 over all candidates, then added.
2. When even the best candidate covers little of what the query asks for, words say little: their part shrinks. Questions
   about what was said mostly use its words, questions about facts less so: there the words' part is smaller.
3. Turns of a session are weighed as turns: one that ends by asking seldom answers, a longer one says more, and one whose
   session answers the query well gains by it.
4. A record about the subject that the query names gains, and so does one that has the query's common words: those are
   mostly names, and they are left out of the vector's query.
5. Where several users' records are in reach, whom the query names decides more than anything else.

Every term stands alone and is left out when its data is absent. Weights are settings; the defaults are from a plateau of
the development data.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from quipu.model.search import Candidate, SessionContext
from quipu.search.query import about


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each piece of evidence counts."""

    vector: float = 1.0
    #: Below this covered share of the query, keyword evidence shrinks with its square.
    full_coverage: float = 0.7
    #: Where the candidates are no turns of a session: what keyword evidence counts when the whole query is covered.
    fact_words: float = 0.6
    session: float = 0.6
    subject: float = 1.5
    #: The record has the query's common words (a name, say), which its vector's query goes without.
    common: float = 0.75
    #: The record is the named user's, or names that user.
    user: float = 5.0
    #: For turns of a session only.
    length: float = 0.5
    asking: float = -1.5
    #: Shares of the neighbouring turns' words and vectors.
    previous_words: float = 0.8
    next_words: float = 0.4
    previous_vector: float = 0.2
    next_vector: float = 0.3
    #: Words that so large a share of the records have are left out of the vector's query.
    common_from: float = 0.1
    #: Candidates by keywords and by vectors, at least so many of each.
    candidates: int = 100

    @property
    def context(self) -> SessionContext:
        return SessionContext(
            previous_words=self.previous_words,
            next_words=self.next_words,
            previous_vector=self.previous_vector,
            next_vector=self.next_vector,
        )


@dataclass(slots=True)
class Blended:
    """A candidate with its score, and the pieces that add up to it. Not frozen, as candidates are not."""

    candidate: Candidate
    score: float
    keyword: float
    vector: float
    subject: float
    turn: float
    session: float
    #: What other hits added or took, where the recall asks for hops.
    hops: float = 0.0


def blended(
    candidates: Sequence[Candidate],
    subjects: Collection[str],
    weights: Weights,
    users: Collection[str] = frozenset(),
) -> list[Blended]:
    """The candidates, best first; equal ones by id, so that the order is always the same.

    `subjects` and `users` are those that the query names.
    """
    trust_in_words = word_trust(candidates, weights)
    keywords = standardised([candidate.keyword for candidate in candidates])
    vectors = standardised([candidate.near for candidate in candidates])
    lengths = turn_lengths(candidates)
    scored: list[Blended] = []
    for candidate, keyword, vector, length in zip(candidates, keywords, vectors, lengths, strict=True):
        subject = weights.subject if candidate.subject in subjects else 0.0
        if candidate.common:
            subject = max(subject, weights.common * candidate.common)
        if users:
            subject = max(subject, weights.user * about(candidate, users))
        turn = 0.0
        if candidate.session_id is not None:
            turn = weights.length * length + (weights.asking if candidate.asks else 0.0)
        by_words, by_vector = trust_in_words * keyword, weights.vector * vector
        score = by_words + by_vector + subject + turn
        scored.append(Blended(candidate, score, by_words, by_vector, subject, turn, 0.0))
    _lift_sessions(scored, weights.session)
    scored.sort(key=by_score_and_id)
    return scored


def standardised(values: Sequence[float | None]) -> list[float]:
    """Values at mean 0 and deviation 1; what is absent counts as the least that is there."""
    present = [value for value in values if value is not None]
    if not present:
        return [0.0] * len(values)
    mean = math.fsum(present) / len(present)
    deviation = math.sqrt(math.fsum([(value - mean) ** 2 for value in present]) / len(present))
    if deviation < 1e-9:
        return [0.0] * len(values)
    least = min(present)
    return [((least if value is None else value) - mean) / deviation for value in values]


def word_trust(candidates: Sequence[Candidate], weights: Weights) -> float:
    """From 0 to 1: how far the words of the query are answered by any record at all. Without vectors, words decide."""
    if all(candidate.near is None for candidate in candidates):
        return 1.0
    covered = max(candidate.coverage for candidate in candidates)
    in_turns = min(1.0, covered / weights.full_coverage) ** 2
    turns = sum(candidate.session_id is not None for candidate in candidates) / len(candidates)
    return turns * in_turns + (1 - turns) * weights.fact_words * covered**2


def turn_lengths(candidates: Sequence[Candidate]) -> list[float]:
    """For turns, how long they are among the turns: the logarithm, standardised, at most 2 either way; else 0."""
    logs = [
        None if candidate.session_id is None else math.log(max(1, candidate.length))
        for candidate in candidates
    ]
    levels = standardised(logs)
    return [
        0.0 if log is None else max(-2.0, min(2.0, level)) for log, level in zip(logs, levels, strict=True)
    ]


def _lift_sessions(scored: Sequence[Blended], weight: float) -> None:
    """Give each turn a share of the best score in its session."""
    best: dict[str, float] = {}
    for item in scored:
        session = item.candidate.session_id
        if session is not None:
            best[session] = max(item.score, best.get(session, -math.inf))
    for item in scored:
        session = item.candidate.session_id
        if session is not None:
            item.session = weight * best[session]
            item.score += item.session


def by_score_and_id(item: Blended) -> tuple[float, str]:
    """Sorts best first, equal ones by id."""
    return (-item.score, item.candidate.id)
