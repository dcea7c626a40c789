"""The ledger's own ranking: keyword and vector evidence on one scale, and small priors.

1. The scores by keywords and by vectors are each brought to mean 0 and deviation 1 over all candidates, then added.
2. When even the best candidate covers little of what the query asks for, words say little: their part shrinks.
3. A record about the subject that the query names gains; where several users' records are in reach, whom the query names
   decides more than anything else.
4. Turns of a session are weighed as turns, as far as they are short: one that ends by asking seldom answers, a longer one
   says more, and one whose session answers the query well gains by it. Long turns speak for themselves.
5. Who asks about themselves ("my", "I") is told what they said rather than what an assistant said to them.

Every term is left out when its data is absent. The weights were chosen on development data of different shapes (facts,
short and long conversations, documents): none stays by which one of them loses.
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
    words: float = 1.2
    #: Below this covered share of the query, keyword evidence shrinks with its square.
    full_coverage: float = 0.7
    subject: float = 3.0
    #: The record is the named user's, or names that user.
    user: float = 5.0
    #: What an assistant said, where somebody asks about themselves.
    assistant: float = -4.0
    #: For short turns of a session.
    session: float = 0.6
    length: float = 0.5
    asking: float = -1.0
    #: Shares of the neighbouring turns' words and vectors, for short turns.
    previous_words: float = 0.8
    next_words: float = 0.4
    previous_vector: float = 0.3
    next_vector: float = 0.15
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
    *,
    is_about_oneself: bool = False,
) -> list[Blended]:
    """The candidates, best first; equal ones by id, so that the order is always the same.

    `subjects` and `users` are those that the query names.
    """
    trust_in_words = weights.words * word_trust(candidates, weights)
    keywords = standardised([candidate.keyword for candidate in candidates])
    vectors = standardised([candidate.near for candidate in candidates])
    lengths = turn_lengths(candidates)
    scored: list[Blended] = []
    for candidate, keyword, vector, length in zip(candidates, keywords, vectors, lengths, strict=True):
        subject = weights.subject if candidate.subject in subjects else 0.0
        if users:
            subject = max(subject, weights.user * about(candidate, users))
        turn = candidate.brevity * (weights.length * length + (weights.asking if candidate.asks else 0.0))
        if is_about_oneself and candidate.by_assistant:
            turn += weights.assistant
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
    covered = max(candidate.words for candidate in candidates)
    return min(1.0, covered / weights.full_coverage) ** 2


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
            item.session = weight * item.candidate.brevity * best[session]
            item.score += item.session


def by_score_and_id(item: Blended) -> tuple[float, str]:
    """Sorts best first, equal ones by id."""
    return (-item.score, item.candidate.id)
