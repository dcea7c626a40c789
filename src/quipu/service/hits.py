"""From a ranking to what a caller sees: content, provenance, masks, and as much as fits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from quipu.model.operations import RecallRequest, Redact
from quipu.model.outcomes import Hit
from quipu.model.principal import Principal
from quipu.model.record import MemoryType, Record, Sensitivity
from quipu.model.search import Snapshot
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import budget
from quipu.rules.blending import Blended
from quipu.service import strangers
from quipu.service.access import Access

_MASK = "[redacted]"


@dataclass(slots=True)
class Ranked:
    """A candidate on its way to being a hit."""

    blended: Blended
    relevance: float
    score: float
    #: Who returned it, the one that ranked it best first.
    backends: tuple[str, ...]
    supporting: tuple[str, ...] = ()
    #: With `explain` and beside mirrors: its place with each backend, and whose votes were left out.
    votes: Mapping[str, Json] | None = None
    #: How many links away the nearest other hit is.
    hop: int | None = None


class Hits:
    """Reads what was ranked."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access

    async def hits(
        self,
        principal: Principal,
        request: RecallRequest,
        snapshot: Snapshot,
        ranked: Sequence[Ranked],
        strange: Mapping[str, strangers.Judged],
    ) -> tuple[list[tuple[Hit, Record | None]], bool]:
        ids = [item.blended.candidate.id for item in ranked]
        records = await self._parts.ledger.read(principal.tenant, ids, snapshot.seq)
        if request.as_of is not None:  # the past may lie in a store that somebody has deleted since
            await self._access.stores(principal.tenant)
        names = await self._access.store_names(
            principal.tenant, {record.store_id for record in records.values()}
        )
        hits: list[tuple[Hit, Record | None]] = []
        for item, name in zip(ranked, ids, strict=True):
            record, rank = records.get(name), len(hits) + 1
            if name in strange:
                hit = strangers.hit(strange[name], request, rank, item.score, item.backends)
                hits.append((hit, None))
            # A record that was erased between search and read is gone here, and that is right.
            elif record is not None and not record.is_emptied and not record.expired(snapshot.now):
                store = names.get(record.store_id, "")
                hits.append((self._hit(rank, item, record, store, request), record))
        return _fitted(hits, request.max_tokens)

    def _hit(self, rank: int, item: Ranked, record: Record, store: str, request: RecallRequest) -> Hit:
        is_secret = record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET
        is_masked = is_secret and request.redact is Redact.MASK
        return Hit(
            id=record.id,
            type=record.type,
            content=_MASK if is_masked else content_of(record),
            score=item.score,
            relevance=item.relevance,
            rank=rank,
            metadata={} if is_masked else record.metadata,
            created_at=record.created_at,
            updated_at=record.updated_at,
            supporting=item.supporting,
            source_store=item.backends[0],
            # The subject stands in metadata, which a mask covers.
            provenance=replace(record.provenance, subject=None) if is_masked else record.provenance,
            source=record.source,
            version=record.version,
            agent_id=record.agent_id,
            user_id=record.user_id,
            session_id=record.session_id,
            store=store,
            tier=record.tier,
            confidence=record.confidence,
            importance=record.importance,
            tags=() if is_masked else record.tags,
            expires_at=record.expires_at,
            stores=item.backends,
            details={} if is_masked else record.details,
            demoted=item.blended.candidate.is_demoted,
            redacted=is_masked,
            why=_why(item) if request.explain and not is_masked else None,
        )


def content_of(record: Record) -> str | JsonObject:
    """Text; for a procedure its machine."""
    if record.type is MemoryType.PROCEDURAL:
        try:
            machine = json.loads(record.content)
        # Altered behind the journal's back: `verify` names it.
        except (ValueError, RecursionError):
            return record.content
        return cast("JsonObject", machine) if isinstance(machine, dict) else record.content
    return record.content


def _why(item: Ranked) -> dict[str, Json]:
    """What each leg of the search said, and what was added."""
    candidate, blend = item.blended.candidate, item.blended
    return {
        "cosine": None if candidate.cosine is None else round(candidate.cosine, 4),
        "keyword": round(candidate.keyword, 4),
        "coverage": round(candidate.coverage, 4),
        "blend": {
            "keyword": round(blend.keyword, 4),
            "vector": round(blend.vector, 4),
            "subject": round(blend.subject, 4),
            "turn": round(blend.turn, 4),
            "session": round(blend.session, 4),
            **({"hops": round(blend.hops, 4)} if blend.hops else {}),
        },
        "confidence": round(candidate.confidence, 4),
        "demoted": candidate.is_demoted,
        **({} if item.hop is None else {"hop": item.hop}),
        **({} if item.votes is None else {"votes": dict(item.votes)}),
    }


def _fitted(
    hits: Sequence[tuple[Hit, Record | None]], max_tokens: int | None
) -> tuple[list[tuple[Hit, Record | None]], bool]:
    """Whole hits in rank order while they fit the budget."""
    if max_tokens is None:
        return list(hits), False
    passages = [
        budget.Passage(
            hit.content if isinstance(hit.content, str) else "" if record is None else record.content,
            isinstance(hit.content, str),
        )
        for hit, record in hits
    ]
    fit = budget.fitted(passages, max_tokens)
    # A procedure that is dropped leaves no gap: the next takes its place as the first.
    kept = [(replace(hits[place][0], rank=rank), hits[place][1]) for rank, place in enumerate(fit.kept, 1)]
    if fit.cut is not None and kept:
        hit, record = kept[0]
        kept[0] = (replace(hit, content=fit.cut, truncated=True), record)
    return kept, len(kept) < len(hits) or fit.cut is not None
