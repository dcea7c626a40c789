"""From a ranking to what a caller sees: content, masks, explanation, and as much as fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quipu.memory.model import Hit, MemoryView, ProvenanceView, RecallRequest, Span
from quipu.memory.recall.mirror_search import ForeignHit
from quipu.memory.views import is_secret, memory_fields
from quipu.model.record import Record
from quipu.search.blending import Blended
from quipu.search.passages import passages

T = TypeVar("T")

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedHit:
    """A candidate on its way to being a hit."""

    blended: Blended
    relevance: float
    score: float
    #: Who returned it, the one that ranked it best first.
    backends: tuple[str, ...]
    supporting: tuple[str, ...] = ()
    #: How many links away the nearest other hit is.
    distance: int | None = None
    #: Other hits that say something else of the same.
    contradicts: tuple[str, ...] = ()


def hit_of(item: RankedHit, record: Record, store: str, rank: int, request: RecallRequest) -> Hit:
    is_masked = is_secret(record) and request.redact == "mask"
    return Hit(
        **memory_fields(record, store, is_masked=is_masked),
        score=item.score,
        relevance=item.relevance,
        rank=rank,
        supporting=item.supporting,
        contradicts=item.contradicts,
        passage=None if is_masked else _passage(record, item.blended.candidate.passage),
        source_store=item.backends[0],
        found_by=item.backends,
        demoted=item.blended.candidate.is_demoted,
        why=_why(item) if request.explain and not is_masked else None,
    )


def _passage(record: Record, number: int) -> Span | None:
    """Where the passage that answers stands, in a text of several."""
    spans = passages(record.content) if record.type != "procedural" else []
    return Span(start=spans[number][0], end=spans[number][1]) if 1 < len(spans) > number else None


def foreign_hit_of(item: RankedHit, foreign: ForeignHit, rank: int, request: RecallRequest) -> Hit:
    """What is not known of it is left empty. Nobody here vouches for it."""
    return Hit(
        id=foreign.id,
        type="semantic",
        content=foreign.text,
        version=0,
        agent_id=request.agent,
        store="",
        tier="long_term",
        confidence=1.0,
        provenance=ProvenanceView(written_by=foreign.mirror, trust="external"),
        created_at=0,
        updated_at=0,
        score=item.score,
        relevance=item.relevance,
        rank=rank,
        source_store=item.backends[0],
        found_by=item.backends,
        foreign=True,
        why=_why(item) if request.explain else None,
    )


def _why(item: RankedHit) -> dict[str, Any]:
    """What each part of the search said, and what was added."""
    candidate, blend = item.blended.candidate, item.blended
    parts = {
        name: getattr(blend, name) for name in ("keyword", "vector", "subject", "turn", "session", "hops")
    }
    return {
        "cosine": None if candidate.cosine is None else round(candidate.cosine, 4),
        "keyword": round(candidate.keyword, 4),
        "coverage": round(candidate.coverage, 4),
        "blend": {name: round(value, 4) for name, value in parts.items() if value or name != "hops"},
        "confidence": round(candidate.confidence, 4),
        "demoted": candidate.is_demoted,
        **({} if item.distance is None else {"hop": item.distance}),
    }


def fitted(
    pairs: list[tuple[Hit, T]], max_tokens: int | None, text_of: Callable[[T], str]
) -> tuple[list[tuple[Hit, T]], bool]:
    """Whole hits in rank order while they fit, at four characters a token. `text_of`: of what stands beside each.

    Something is always returned: a first text that is too long is cut. A procedure must not be cut; it is dropped
    instead, and the next takes its place as the first.
    """
    if max_tokens is None:
        return pairs, False
    shown: list[tuple[Hit, T]] = []
    left, is_cut = max_tokens, False
    for hit, beside in pairs:
        text = hit.content if isinstance(hit.content, str) else text_of(beside)
        left -= -(-len(text) // _CHARACTERS_PER_TOKEN)
        if left < 0:
            is_cut = True
            if shown:
                break
            if not isinstance(hit.content, str):
                left = max_tokens
                continue
            hit = hit.model_copy(
                update={"content": text[: max_tokens * _CHARACTERS_PER_TOKEN], "truncated": True}
            )
        shown.append((hit.model_copy(update={"rank": len(shown)}), beside))
        if left < 0:
            break
    return shown, is_cut


class Room:
    """What is left for more beside some hits: so many memories, and what they leave of the tokens."""

    def __init__(self, count: int, max_tokens: int | None, hits: Sequence[Hit]) -> None:
        self._count = count
        self._tokens = None if max_tokens is None else max_tokens - sum(map(_tokens, hits))
        #: Whether something did not fit into the tokens.
        self.is_cut = False

    def takes(self, view: MemoryView) -> bool:
        """Whether one more fits; then its room is taken."""
        if self._count <= 0:
            return False
        if self._tokens is not None:
            if _tokens(view) > self._tokens:
                self.is_cut = True
                return False
            self._tokens -= _tokens(view)
        self._count -= 1
        return True


def _tokens(view: MemoryView) -> int:
    return -(-len(view.text) // _CHARACTERS_PER_TOKEN)
