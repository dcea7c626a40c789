"""Recall: search, judge, rank, cut, answer. All of one journal position."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from quipu.errors import DeadlineError, UnsupportedError
from quipu.fields import DAY_MS
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.embedding import Embedding
from quipu.memory.hits import RankedHit, fitted, hit_of
from quipu.memory.model import Hit, RecallRequest, RecallResponse
from quipu.memory.pipeline import Held
from quipu.memory.read_log import ReadLog
from quipu.memory.recall_budget import RecallBudget
from quipu.memory.remember import store_view
from quipu.memory.scope import Scopes, scope_among
from quipu.memory.snapshots import Snapshots
from quipu.memory.unknown_keys import warnings_of
from quipu.model.record import TRUST_ORDER, Record, Trust
from quipu.model.search import Found, Restriction, Scope, Search, Snapshot, WordShares
from quipu.model.store import Store
from quipu.operation import Context
from quipu.search import blending, fusion, hops, relevance
from quipu.search.engine import SearchEngine
from quipu.search.filters import canonical
from quipu.search.query import Query, analyse
from quipu.search.source import Source

#: Earlier than any record, and still 64 bits.
_BEGINNING = -(2**62)


class RecallGovernor(Protocol):
    """Rules that name recalls."""

    async def check_recall(self, ctx: Context, request: RecallRequest, checked_at: int) -> Held | None:
        """By the rules of this position or a later one. None: go ahead. Raises ForbiddenError where a rule denies it."""
        ...


@dataclass(frozen=True, slots=True)
class _Answered:
    """What the second read found."""

    shown: Sequence[tuple[Hit, Record]]
    is_cut: bool
    below_floor: int
    evidence: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The read that ranks."""

    ledger: Ledger
    scopes: Scopes
    snapshots: Snapshots
    embedding: Embedding
    engine: SearchEngine
    read_log: ReadLog
    budget: RecallBudget
    governor: RecallGovernor
    weights: blending.Weights

    async def recall(self, ctx: Context, request: RecallRequest) -> RecallResponse:
        _refuse_what_is_missing(request)
        fusion.check_quorum(request.quorum_k, configured=1, answered=1)
        try:
            async with asyncio.timeout(None if request.deadline_ms is None else request.deadline_ms / 1000):
                # Reserved before anything is read; what is not shown is given back.
                async with self.budget.reserved(ctx, request.agent, request.k) as allowed:
                    answer = await self._recalled(ctx, request, allowed.count)
                    allowed.spend(len(answer.results))
        except TimeoutError as late:
            raise DeadlineError("The recall was not done in time.", reason="deadline") from late
        is_cut = allowed.is_cut and len(answer.results) == allowed.count
        return answer.model_copy(update={"budget_cut": True}) if is_cut else answer

    async def _recalled(self, ctx: Context, request: RecallRequest, most: int) -> RecallResponse:
        started = time.perf_counter()
        asked = await self.snapshots.of(ctx, request.as_of)
        weights = hops.widened(self.weights) if request.hops else self.weights

        # First read: whom it reaches, and what the query means there. From here on everything is of one position.
        def understood(reader: Reader) -> tuple[int, Mapping[str, Store], Scope, WordShares]:
            guarded, stores = self.scopes.read(reader)
            scope = scope_among(stores, ctx.principal, request.agent, request.user_id, request.store)
            return guarded, stores, scope, self.engine.word_shares(reader, scope, asked, request.query)

        if request.store is not None:
            await self.scopes.stores(ctx.tenant)  # `main` is always there
        guarded, stores, scope, shares = await self.ledger.read(
            ctx.tenant, understood, reached=asked.seq or 0
        )
        held = await self.governor.check_recall(ctx, request, guarded)
        if held is not None:
            ctx.facts.proposal_id = held.proposal_id
            return _held_answer(request, held)
        query = analyse(
            request.query, shares, weights.common_from, has_own_vector=request.embedding is not None
        )
        snapshot = Snapshot(query.seq, asked.now)
        vector = await self.embedding.of_query(ctx.tenant, query.embedding_text, request.embedding)
        model = self.embedding.model(ctx.tenant)

        # Every restriction is applied before the best are chosen.
        names = {store.id: store.name for store in stores.values()}
        search = self._search(request, scope, snapshot, query, vector, model, names)
        known = relevance.calibration(model if vector is not None else None)
        floor = relevance.floor(request.min_relevance, known)

        # Second read: find, rank, judge how likely each answers, leave out what is below the floor, show the rest.
        def answered(reader: Reader) -> _Answered:
            found, ranking = self._ranked(reader, search, query, request)
            question = relevance.question_of(query, found.searched)
            sureness = relevance.relevances([item.candidate for item in ranking], known, question)
            kept = [pair for pair in zip(ranking, sureness, strict=True) if pair[1] >= floor]
            best = kept[: min(max(4 * request.k, 20), 2000)]
            ranked = self._fused(reader, request, scope, snapshot, best)
            shown, is_cut = self._shown(reader, request, snapshot, ranked, names, most)
            below = len(sureness) - len(kept)
            return _Answered(shown, is_cut, below, _evidence(found, question) if request.explain else None)

        answer = await self.ledger.read(ctx.tenant, answered, reached=query.seq)
        warnings = (
            () if answer.shown else await warnings_of(self.ledger, scope, snapshot, search.restriction.filter)
        )
        records = [record for _, record in answer.shown]
        self.read_log.recalled(
            ctx, request.agent, scope.store_id, request.k, records, counts=request.count_recall
        )
        ctx.facts.record_ids = tuple(record.id for record in records)
        store = None if scope.store_id is None else stores[scope.store_id]
        ctx.facts.store = store
        return RecallResponse(
            results=tuple(hit for hit, _ in answer.shown),
            fusion_used=request.fusion,
            stores_queried=(self.ledger.name,),
            latency_ms=int((time.perf_counter() - started) * 1000),
            seq=query.seq,
            min_relevance=floor,
            below_floor=answer.below_floor,
            truncated=answer.is_cut,
            evidence=answer.evidence,
            warnings=warnings,
            store=None if store is None else store_view(store),
        )

    def _search(
        self,
        request: RecallRequest,
        scope: Scope,
        snapshot: Snapshot,
        query: Query,
        vector: bytes | None,
        model: str | None,
        store_names: dict[str, str],
    ) -> Search:
        days = request.fresher_than_days
        return Search(
            scope=scope,
            snapshot=snapshot,
            restriction=Restriction(
                session_id=request.session_id,
                types=frozenset(request.types),
                created_from=None if days is None else max(snapshot.now - days * DAY_MS, _BEGINNING),
                filter=canonical(request.filter, plain_names="fields") if request.filter else None,
                without_sensitivity=frozenset({"secret"}) if _leaves_out_secrets(request) else frozenset(),
                without_superseded=not request.include_superseded and request.as_of is None,
                store_names=store_names,
            ),
            text=request.query,
            vector=vector,
            model=model,
            limit=max(self.weights.candidates, request.k),
            context=self.weights.context,
            common_from=self.weights.common_from,
            names=query.names,
            shared_names=query.shared_names,
            users=query.users,
        )

    def _ranked(
        self, source: Source, search: Search, query: Query, request: RecallRequest
    ) -> tuple[Found, list[blending.Blended]]:
        """The candidates in the ledger's own order. On a worker thread."""
        weights = hops.widened(self.weights) if request.hops else self.weights
        found = self.engine.find(source, search)
        ranking = blending.blended(found.candidates, query.subjects, weights, query.users)
        leading = hops.leaders(ranking) if request.hops else []
        if leading:  # the best turns lead on to turns of other sessions that share rare words with them
            members = [item.candidate.id for item in ranking]
            shared = self.engine.shared_words(
                source, search.scope, search.snapshot, leading, members, search.text
            )
            ranking = hops.led_on(ranking, leading, shared)
        return found, ranking

    def _fused(
        self,
        reader: Reader,
        request: RecallRequest,
        scope: Scope,
        snapshot: Snapshot,
        kept: Sequence[tuple[blending.Blended, float]],
    ) -> list[RankedHit]:
        """Fuse rankings, raise linked hits, weigh confidence and demotion; best first."""
        ledger = self.ledger.name
        votes = [fusion.Vote(item.candidate.id, _similarity(item, sure), sure) for item, sure in kept]
        order = fusion.fused({ledger: votes}, request.fusion, quorum_k=request.quorum_k, trusted=ledger)
        near: Mapping[str, hops.LinkDistance] = {}
        if request.hops:
            ids = [item.id for item in order]
            near = self.engine.link_distances(reader, scope, snapshot, ids, request.hops)
        by_id = {item.candidate.id: (item, sure) for item, sure in kept}
        scored: list[tuple[fusion.Fused, float]] = []
        for place in order:
            candidate, link = by_id[place.id][0].candidate, near.get(place.id)
            factor = 1.0 if link is None else hops.factor(link.distance)
            score = fusion.final_score(place.score, factor, candidate.confidence, candidate.is_demoted)
            scored.append((place, score))
        ranked: list[RankedHit] = []
        for place, score in fusion.ordered(scored):
            item, sure = by_id[place.id]
            link = near.get(place.id)
            ranked.append(
                RankedHit(
                    blended=item,
                    relevance=sure,
                    score=score,
                    backends=place.backends,
                    supporting=() if link is None else link.supporting,
                    distance=None if link is None else link.distance,
                )
            )
        return ranked

    def _shown(
        self,
        reader: Reader,
        request: RecallRequest,
        snapshot: Snapshot,
        ranked: Sequence[RankedHit],
        store_names: Mapping[str, str],
        most: int,
    ) -> tuple[list[tuple[Hit, Record]], bool]:
        """The hits with their records, read at the same position, masked, and as many as fit."""
        pairs: list[tuple[Hit, Record]] = []
        for start in range(0, len(ranked), most):  # mostly the first few are all that is needed
            some = ranked[start : start + most]
            records = reader.records([item.blended.candidate.id for item in some], snapshot.seq)
            for item in some:
                record = records.get(item.blended.candidate.id)
                # A record that was erased between search and read is gone here, and that is right.
                if record is None or record.is_emptied or record.is_expired(snapshot.now):
                    continue
                if request.min_trust is not None and _is_less_trusted(record, request.min_trust):
                    continue
                store = store_names.get(record.store_id, "")
                pairs.append((hit_of(item, record, store, len(pairs), request), record))
                if len(pairs) == most:
                    return fitted(pairs, request.max_tokens, _content)
        return fitted(pairs, request.max_tokens, _content)


def _refuse_what_is_missing(request: RecallRequest) -> None:
    """Nothing that was asked for is passed over."""
    if request.sign_for is not None:
        raise UnsupportedError("Hits are not signed here.", reason="sign_for", hint="Leave out `sign_for`.")
    if request.neighbours:
        raise UnsupportedError(
            "Turns beside a hit are not added here.", reason="neighbours", hint="Leave out `neighbours`."
        )


def _held_answer(request: RecallRequest, held: Held) -> RecallResponse:
    """Nothing is shown yet: a person decides."""
    return RecallResponse(
        results=(),
        fusion_used=request.fusion,
        stores_queried=(),
        latency_ms=0,
        pending_approval=True,
        approval_url=held.approval_url,
    )


def _leaves_out_secrets(request: RecallRequest) -> bool:
    """Masked memories are left out where a filter could otherwise be used to guess what the mask hides."""
    return request.redact == "omit" or (request.redact == "mask" and bool(request.filter))


def _content(record: Record) -> str:
    return record.content


def _is_less_trusted(record: Record, than: Trust) -> bool:
    return TRUST_ORDER.index(record.provenance.trust) > TRUST_ORDER.index(than)


def _similarity(item: blending.Blended, sure: float) -> float:
    cosine = item.candidate.cosine
    return sure if cosine is None else min(1.0, max(0.0, cosine))


def _evidence(found: Found, question: relevance.Question) -> dict[str, Any]:
    """What speaks for there being an answer at all, and against it."""
    best = relevance.evidence(found.candidates, question)
    return {
        "cosine": round(best.cosine, 4),
        "coverage": round(best.coverage, 4),
        "compared": question.compared,
        "users": sorted(question.users),
        "unknown_person": question.names_unknown_person,
        "shortened": question.is_shortened,
    }
