"""Foreign hits: found by a mirror, backed by no record. Judged by Quipu from their text, marked, trusted by nobody."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from quipu.errors import BackendUnavailableError
from quipu.model.operations import RecallRequest
from quipu.model.outcomes import Hit
from quipu.model.record import MemoryType, Provenance, Tier, Trust
from quipu.model.search import Candidate, Search
from quipu.ports.backend import Routing
from quipu.ports.parts import Parts
from quipu.rules import relevance
from quipu.rules.blending import Blended
from quipu.rules.fusion import Foreign
from quipu.rules.mirroring import covered, reported
from quipu.service.asking import Stranger


@dataclass(frozen=True, slots=True)
class Judged:
    """A stranger on its way to being a hit."""

    stranger: Stranger
    blended: Blended
    relevance: float
    similarity: float


def believed(strangers: Iterable[Stranger], routing: Routing) -> list[Stranger]:
    """Those that may be shown at all. A mirror that is only read has nothing but contents of its own."""
    match routing.foreign:
        case Foreign.OFF:
            return []
        case Foreign.OWN:
            return [one for one in strangers if one.mirror.has_own_contents or not routing.is_written]
        case Foreign.LAST | Foreign.MIX:
            return list(strangers)
        case _:
            assert_never(routing.foreign)


async def judged(
    parts: Parts,
    strangers: Sequence[Stranger],
    search: Search,
    candidates: Sequence[Candidate],
    known: relevance.Calibration,
    question: relevance.Question,
) -> list[Judged]:
    """How sure Quipu is of each. Each is judged beside the ledger's own candidates, which none of them lifts."""
    cosines = await _cosines(parts, strangers, search.vector)
    told: list[Judged] = []
    for stranger, cosine in zip(strangers, cosines, strict=True):
        candidate = _candidate(stranger, search.text, cosine)
        sure = relevance.relevances([*candidates, candidate], known, question)[-1]
        kind = stranger.mirror.backend.capabilities.score_kind.value
        similarity = reported(stranger.hit.score, kind)
        told.append(Judged(stranger, Blended(candidate, 0, 0, 0, 0, 0, 0), sure, similarity))
    return told


def hit(judged: Judged, request: RecallRequest, rank: int, score: float, backends: tuple[str, ...]) -> Hit:
    """As a caller sees it. What is not known of it is left empty."""
    stranger = judged.stranger
    return Hit(
        id=stranger.id,
        type=MemoryType.SEMANTIC,
        content=stranger.hit.text,
        score=score,
        relevance=judged.relevance,
        rank=rank,
        metadata={},
        created_at=0,
        updated_at=0,
        supporting=(),
        source_store=backends[0],
        provenance=Provenance(written_by=stranger.mirror.name, trust=Trust.EXTERNAL),
        source=None,
        version=0,
        agent_id=request.agent_id,
        user_id=None,
        session_id=None,
        store="",
        tier=Tier.LONG_TERM,
        confidence=1.0,
        importance=None,
        tags=(),
        expires_at=None,
        stores=backends,
        details={},
        foreign=True,
    )


async def _cosines(parts: Parts, strangers: Sequence[Stranger], query: bytes | None) -> list[float | None]:
    if query is None or parts.embedder is None or not strangers:
        return [None] * len(strangers)
    try:
        vectors = await parts.embedder.embed([stranger.hit.text for stranger in strangers])
    except BackendUnavailableError:
        return [None] * len(strangers)
    asked = array("f", query)
    return [sum(a * b for a, b in zip(asked, array("f", vector), strict=True)) for vector in vectors]


def _candidate(stranger: Stranger, query: str, cosine: float | None) -> Candidate:
    text = stranger.hit.text
    return Candidate(
        id=stranger.id,
        version=0,
        cosine=cosine,
        near=cosine,
        keyword=0.0,
        coverage=covered(query, text),
        common=0.0,
        session_id=None,
        subject=None,
        confidence=1.0,
        is_demoted=False,
        created_at=0,
        length=len(text.split()),
        asks=False,
    )
