"""The ledger's own ranking: keyword and vector evidence on one scale, and small priors.

Each leg's scores are brought to mean 0 and deviation 1 over the candidates of both legs, then added with weights.
Every term stands alone and is left out when its data is absent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from quipu.model.search import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each piece of evidence counts; settings, tuned on development data."""

    vector: float = 1.0
    #: A session whose other turns answer the query lends its turns a share of its best.
    session: float = 0.3
    #: The query names whom the memory is about.
    subject: float = 0.6
    #: How much of the previous and the next turn's keyword score a turn inherits.
    previous_turn: float = 0.5
    next_turn: float = 0.25
    #: Words that so large a share of the records have are left out of the vector's query.
    common_from: float = 0.1
    #: Candidates of each leg, at least.
    candidates: int = 64


@dataclass(frozen=True, slots=True)
class Blended:
    """A candidate with its place in the blend, and the pieces that made it."""

    candidate: Candidate
    score: float
    keyword: float
    vector: float
    session: float
    subject: float


def blended(candidates: Sequence[Candidate], subjects: Collection[str], weights: Weights) -> list[Blended]:
    """The candidates, best first; equal ones by id, so that the order is always the same."""
    keywords = standardised([candidate.context for candidate in candidates])
    vectors = standardised([candidate.cosine for candidate in candidates])
    base = [keyword + weights.vector * vector for keyword, vector in zip(keywords, vectors, strict=True)]
    priors = session_priors(candidates, base)
    scored: list[Blended] = []
    for candidate, keyword, vector, start, prior in zip(
        candidates, keywords, vectors, base, priors, strict=True
    ):
        session = weights.session * prior
        subject = weights.subject if candidate.subject in subjects else 0.0
        scored.append(
            Blended(candidate, start + session + subject, keyword, weights.vector * vector, session, subject)
        )
    return sorted(scored, key=lambda item: (-item.score, item.candidate.id))


def standardised(values: Sequence[float | None]) -> list[float]:
    """Values at mean 0 and deviation 1; what is absent counts as the least that is there."""
    present = [value for value in values if value is not None]
    if not present:
        return [0.0] * len(values)
    mean = math.fsum(present) / len(present)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in present) / len(present))
    if deviation < 1e-12:
        return [0.0] * len(values)
    least = min(present)
    return [((least if value is None else value) - mean) / deviation for value in values]


def session_priors(candidates: Sequence[Candidate], base: Sequence[float]) -> list[float]:
    """For each candidate the best score among the other turns of its session, or 0 when that is below 0."""
    best: dict[str, list[float]] = {}
    for candidate, score in zip(candidates, base, strict=True):
        if candidate.session_id is not None:
            top = best.setdefault(candidate.session_id, [])
            top.append(score)
            top.sort(reverse=True)
            del top[2:]
    priors: list[float] = []
    for candidate, score in zip(candidates, base, strict=True):
        top = best.get(candidate.session_id, []) if candidate.session_id is not None else []
        others = top[1:] if top and score == top[0] else top[:1]
        priors.append(max(0.0, others[0]) if others else 0.0)
    return priors
