"""Recall: search, judge, rank, cut, answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never, cast

from quipu.errors import DeadlineError, NotFoundError
from quipu.model.journal import Draft, Mention, Op
from quipu.model.operations import RecallRequest, Redact
from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record, Sensitivity
from quipu.model.search import Found, Restriction, Scope, Search, Snapshot, WordShares
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import budget, fusion, hops, moments, relevance, texts, validation
from quipu.rules.blending import Blended, blended
from quipu.rules.expiry import DAY_MS
from quipu.service.access import Access
from quipu.service.embedding import Vectors
from quipu.service.notes import ReadNotes

_MASK = "[redacted]"
#: Earlier than any record, and still 64 bits.
_BEFORE_ALL = -(1 << 62)


@dataclass(slots=True)
class _Ranked:
    """A candidate on its way to being a hit."""

    blended: Blended
    relevance: float
    score: float
    supporting: tuple[str, ...] = ()


class Recalling:
    """The read half of memory that ranks."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, notes: ReadNotes) -> None:
        self._parts, self._access, self._vectors, self._notes = parts, access, vectors, notes

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        self._access.authorise(principal, Permission.READ, request.agent_id)
        validation.checked_recall(request, self._parts.limits)
        fusion.checked_quorum(request.quorum_k, configured=1, answered=1)
        if request.redact is Redact.NONE:
            self._access.authorise(principal, Permission.ADMIN)
        if request.deadline_ms is None:
            return await self._recalled(principal, request)
        try:
            async with asyncio.timeout(request.deadline_ms / 1000):
                return await self._recalled(principal, request)
        except TimeoutError as late:
            raise DeadlineError("The recall was not done in time.", reason="deadline") from late

    async def _recalled(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        started = time.perf_counter()
        scope = await self._access.scope(principal, request.agent_id, request.user_id, request.store)
        asked = await self.snapshot(principal.tenant, request.as_of)
        shares = await self._parts.ledger.word_shares(scope, asked, request.query)
        # One position for the whole recall, so that what is found, ranked and shown is one state.
        snapshot = Snapshot(shares.seq, asked.now)
        search, found = await self._found(request, scope, snapshot, shares)
        known = relevance.calibration(self._model(principal.tenant) if search.vector else None)
        floor = relevance.floor(request.min_relevance, known)
        ranking = blended(found.candidates, shares.subjects, self._parts.weights, shares.users)
        question = relevance.Question(
            compared=min(shares.theirs, found.searched) if shares.users else found.searched,
            users=shares.users,
            has_stranger=texts.has_stranger(shares),
        )
        sureness = relevance.relevances([item.candidate for item in ranking], known, question)
        judged = list(zip(ranking, sureness, strict=True))
        kept = [(item, sure) for item, sure in judged if sure >= floor]
        # Each backend gives fusion so many candidates, the ledger too.
        ranked = await self._ranked(request, scope, snapshot, kept[: min(max(4 * request.k, 20), 2000)])
        hits, is_cut = await self._hits(principal, request, snapshot, ranked[: request.k])
        self._note(principal, request, scope, hits)
        extensions: dict[str, Json] = {
            "seq": snapshot.seq,
            "min_relevance": floor,
            "below_floor": len(judged) - len(kept),
            "truncated": is_cut,
        }
        if request.as_of is not None:
            extensions["as_of"] = snapshot.seq
        if request.explain:
            extensions["evidence"] = _evidence(found, question)
        return RecallResponse(
            results=tuple(hit for hit, _ in hits),
            fusion_used=request.fusion,
            stores_queried=(self._parts.ledger.name,),
            latency_ms=int((time.perf_counter() - started) * 1000),
            extensions=extensions,
        )

    async def snapshot(self, tenant: str, as_of: str | None) -> Snapshot:
        """The position a reader means. Expiry is judged by today's clock: it beats a snapshot, as erasure does."""
        now = self._parts.clock()
        if as_of is None:
            return Snapshot(None, now)
        head = await self._parts.ledger.head(tenant)
        named = moments.as_of(as_of)
        match named:
            case moments.Position(seq):
                return Snapshot(moments.checked_position(seq, head), now)
            case moments.Moment(at):
                if at > max(now, head.at):
                    raise moments.future()
                seq = await self._parts.ledger.position_at(tenant, at)
                return Snapshot(moments.checked_position(seq, head), now)
            case moments.RunStart():
                raise NotFoundError("There is no such run.", reason="snapshot_unavailable")
            case _:
                assert_never(named)

    def _model(self, tenant: str) -> str | None:
        space = self._vectors.last_seen(tenant)
        return None if space is None else space.model

    async def _found(
        self, request: RecallRequest, scope: Scope, snapshot: Snapshot, shares: WordShares
    ) -> tuple[Search, Found]:
        """Both legs of the search. What the query shares with everything says nothing, so its vector goes without."""
        weights = self._parts.weights
        stripped = texts.stripped(request.query, shares, weights.common_from)
        vector = await self._vectors.of_query(scope.tenant, stripped, request.embedding)
        search = Search(
            scope=scope,
            snapshot=snapshot,
            restriction=self._restriction(request, snapshot.now),
            text=request.query,
            vector=vector,
            model=self._vectors.model(scope.tenant),
            limit=max(weights.candidates, request.k),
            context=weights.context,
            common_from=weights.common_from,
            names=shares.mentions,
            users=shares.users,
        )
        return search, await self._parts.ledger.search(search)

    @staticmethod
    def _restriction(request: RecallRequest, now: int) -> Restriction:
        days = request.fresher_than_days
        return Restriction(
            session_id=request.session_id,
            types=frozenset(request.types),
            created_from=None if days is None else max(now - days * DAY_MS, _BEFORE_ALL),
            filter=request.filter or None,
            without_sensitivity=frozenset({Sensitivity.SECRET.value} if _leaves_out_secrets(request) else ()),
        )

    async def _ranked(
        self,
        request: RecallRequest,
        scope: Scope,
        snapshot: Snapshot,
        kept: Sequence[tuple[Blended, float]],
    ) -> list[_Ranked]:
        """Fuse, boost linked hits, weigh confidence and standing; best first."""
        votes = [
            fusion.Vote(
                id=item.candidate.id,
                similarity=_similarity(item.candidate.cosine, sure),
                relevance=sure,
            )
            for item, sure in kept
        ]
        name = self._parts.ledger.name
        order = fusion.fused({name: votes}, request.fusion, quorum_k=request.quorum_k)
        by_id = {item.candidate.id: (item, sure) for item, sure in kept}
        near = await self._nearness(request.hops, scope, snapshot, [item.id for item in order])
        ranked: list[_Ranked] = []
        for place in order:
            item, sure = by_id[place.id]
            link = near.get(place.id)
            score = fusion.final_score(
                place.score,
                1.0 if link is None else hops.factor(link.distance),
                item.candidate.confidence,
                item.candidate.is_demoted,
                confidence_weight=self._parts.confidence_weight,
                demote_factor=self._parts.demote_factor,
            )
            ranked.append(_Ranked(item, sure, score, () if link is None else link.supporting))
        return sorted(ranked, key=lambda item: -round(item.score, fusion.TIE_DECIMALS))

    async def _nearness(
        self, depth: int, scope: Scope, snapshot: Snapshot, members: Sequence[str]
    ) -> Mapping[str, hops.Nearness]:
        if not depth or not members:
            return {}
        edges: dict[str, frozenset[str]] = {}
        frontier = list(members)
        for _ in range(depth):
            edges.update(await self._parts.ledger.neighbours(scope, snapshot, frontier))
            frontier = sorted({other for name in frontier for other in edges[name]} - edges.keys())
        return hops.distances(edges, members, depth)

    async def _hits(
        self, principal: Principal, request: RecallRequest, snapshot: Snapshot, ranked: Sequence[_Ranked]
    ) -> tuple[list[tuple[Hit, Record]], bool]:
        ids = [item.blended.candidate.id for item in ranked]
        records = await self._parts.ledger.read(principal.tenant, ids, snapshot.seq)
        names = await self._access.store_names(
            principal.tenant, {record.store_id for record in records.values()}
        )
        # A record that was erased between search and read is gone here, and that is right.
        found = [(item, records[name]) for item, name in zip(ranked, ids, strict=True) if name in records]
        hits = [
            (self._hit(place + 1, item, record, names.get(record.store_id, ""), request), record)
            for place, (item, record) in enumerate(found)
            if not record.is_emptied and not record.expired(snapshot.now)
        ]
        return _fitted(hits, request.max_tokens)

    def _hit(self, rank: int, item: _Ranked, record: Record, store: str, request: RecallRequest) -> Hit:
        is_secret = record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET
        is_masked = is_secret and request.redact is Redact.MASK
        name = self._parts.ledger.name
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
            source_store=name,
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
            stores=(name,),
            details={} if is_masked else record.details,
            demoted=item.blended.candidate.is_demoted,
            redacted=is_masked,
            why=_why(item) if request.explain else None,
        )

    def _note(
        self, principal: Principal, request: RecallRequest, scope: Scope, hits: Sequence[tuple[Hit, Record]]
    ) -> None:
        draft = Draft(
            op=Op.RECALL,
            actor=principal.name,
            at=self._parts.clock(),
            store=scope.store_id,
            agent=request.agent_id,
            detail={"k": request.k, "returned": len(hits)},
        )
        mentions = [Mention(record.id, record.version, record.digest) for _, record in hits]
        self._notes.add(principal.tenant, draft, mentions, is_recall=True)


def _leaves_out_secrets(request: RecallRequest) -> bool:
    """Masked records are left out where a filter could otherwise be used to guess what the mask hides."""
    return request.redact is Redact.OMIT or (request.redact is Redact.MASK and bool(request.filter))


def _similarity(cosine: float | None, sure: float) -> float:
    return sure if cosine is None else max(0.0, min(1.0, cosine))


def content_of(record: Record) -> str | JsonObject:
    """Text; for a procedure its machine."""
    if record.type is MemoryType.PROCEDURAL:
        machine = json.loads(record.content)
        return cast("JsonObject", machine) if isinstance(machine, dict) else record.content
    return record.content


def _evidence(found: Found, question: relevance.Question) -> dict[str, Json]:
    """What speaks for there being an answer at all, and against it."""
    best = relevance.evidence(found.candidates, question)
    return {
        "cosine": round(best.cosine, 4),
        "coverage": round(best.coverage, 4),
        "compared": question.compared,
        "users": sorted(question.users),
        "stranger": question.has_stranger,
    }


def _why(item: _Ranked) -> dict[str, Json]:
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
        },
        "confidence": round(candidate.confidence, 4),
        "demoted": candidate.is_demoted,
    }


def _fitted(
    hits: Sequence[tuple[Hit, Record]], max_tokens: int | None
) -> tuple[list[tuple[Hit, Record]], bool]:
    """Whole hits in rank order while they fit the budget."""
    if max_tokens is None:
        return list(hits), False
    passages = [
        budget.Passage(
            hit.content if isinstance(hit.content, str) else record.content, isinstance(hit.content, str)
        )
        for hit, record in hits
    ]
    fit = budget.fitted(passages, max_tokens)
    kept = [hits[place] for place in fit.kept]
    if fit.cut is not None and kept:
        hit, record = kept[0]
        kept[0] = (replace(hit, content=fit.cut, truncated=True), record)
    return kept, len(kept) < len(hits) or fit.cut is not None
