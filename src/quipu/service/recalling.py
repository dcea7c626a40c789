"""Recall: search, judge, rank, cut, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import assert_never

from quipu.errors import DeadlineError, NotFoundError
from quipu.model.journal import Draft, Mention, Op
from quipu.model.operations import RecallRequest, Redact
from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, Sensitivity
from quipu.model.search import Found, Restriction, Scope, Search, Snapshot, WordShares
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import fusion, hops, moments, relevance, runs_states, texts, validation
from quipu.rules.blending import Blended, blended
from quipu.rules.expiry import DAY_MS
from quipu.service import strangers
from quipu.service.access import Access
from quipu.service.asking import Asked, Asking, Heard
from quipu.service.embedding import Vectors
from quipu.service.hits import Hits, Ranked
from quipu.service.notes import ReadNotes

#: Earlier than any record, and still 64 bits.
_BEFORE_ALL = -(1 << 62)


class Recalling:
    """The read half of memory that ranks."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, notes: ReadNotes) -> None:
        self._parts, self._access, self._vectors, self._notes = parts, access, vectors, notes
        self.asking, self._shown = Asking(parts, access), Hits(parts, access)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        self._access.authorise(principal, Permission.READ, request.agent_id)
        validation.checked_recall(request, self._parts.limits)
        stores = 1 + len(self._parts.mirrors)
        fusion.checked_quorum(request.quorum_k, configured=stores, answered=stores)
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
        search = await self._search(request, scope, snapshot, shares)
        wanted = min(max(4 * request.k, 20), 2000)
        found, heard = await self._found(request, search, wanted, started)
        fusion.checked_quorum(
            request.quorum_k, configured=1 + len(self._parts.mirrors), answered=1 + len(heard.rankings)
        )
        known = relevance.calibration(self._model(principal.tenant) if search.vector else None)
        floor = relevance.floor(request.min_relevance, known)
        weights = hops.widened(self._parts.weights) if request.hops else self._parts.weights
        ranking = blended(found.candidates, shares.subjects, weights, shares.users)
        if request.hops:
            ranking = await self._led(search, ranking)
        question = relevance.Question(
            compared=min(shares.theirs, found.searched) if shares.users else found.searched,
            users=shares.users,
            has_stranger=texts.has_stranger(shares),
            is_shortened=request.embedding is None and texts.is_shortened(shares, weights.common_from),
        )
        if heard.candidates:  # what only mirrors found comes behind the ledger's own ranking
            ranking += blended(heard.candidates, shares.subjects, weights, shares.users)
        # Without a floor all of them are kept, and without mirrors nobody asks for any but the first.
        first = wanted if floor <= 0 and not heard.rankings else None
        sureness = relevance.relevances([item.candidate for item in ranking], known, question, first)
        kept = [pair for pair in zip(ranking, sureness, strict=False) if pair[1] >= floor]
        below_floor = len(sureness) - len(kept)
        if not heard.rankings:
            del kept[wanted:]
        strange = await self._strange(request, search, found, heard, len(kept), (known, question, floor))
        # Each backend gives fusion so many candidates, the ledger too.
        added = heard.added
        own = [item.candidate.id for item, _ in kept if item.candidate.id not in added][:wanted]
        with self._parts.observer.phase("fuse"):
            lists = self._lists(own, kept, strange, heard)
            ranked = await self._ranked(request, scope, snapshot, lists, kept, strange)
        hits, is_cut = await self._shown.hits(principal, request, snapshot, ranked, strange)
        self._note(principal, request, scope, hits)
        await self._notes.leave_turn()
        extensions: dict[str, Json] = {
            "seq": snapshot.seq,
            "min_relevance": floor,
            "below_floor": below_floor,
            "truncated": is_cut,
        }
        if request.as_of is not None:
            extensions["as_of"] = snapshot.seq
        if heard.failed:
            extensions["stores_failed"] = [
                {"store": name, "reason": reason} for name, reason in sorted(heard.failed.items())
            ]
        if request.explain:
            extensions["evidence"] = _evidence(found, question)
        return RecallResponse(
            results=tuple(hit for hit, _ in hits),
            fusion_used=request.fusion,
            stores_queried=(self._parts.ledger.name, *heard.rankings),
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
            case moments.RunStart(run_id):
                run = await self._parts.ledger.run(tenant, run_id)
                if run is None or run.view is None:
                    raise NotFoundError("There is no such run.", reason="snapshot_unavailable")
                position = moments.checked_position(run.view.seq, head)
                return Snapshot(position, runs_states.expiry_clock(run, now))
            case _:
                assert_never(named)

    def _model(self, tenant: str) -> str | None:
        space = self._vectors.last_seen(tenant)
        return None if space is None else space.model

    async def _found(
        self, request: RecallRequest, search: Search, wanted: int, started: float
    ) -> tuple[Found, Heard]:
        """What the ledger finds, and mirrors at the same time. The past is the ledger's alone."""
        has_mirrors = bool(self._parts.mirrors) and request.as_of is None
        asked: Asked = self.asking.begun(search, wanted) if has_mirrors else {}
        try:
            with self._parts.observer.phase("search"):
                found = await self._parts.ledger.search(search)
        except BaseException:
            for task in asked.values():
                task.cancel()
            raise
        patience = self._parts.routing.deadline_ms
        if request.deadline_ms is not None:  # the rest of the work needs its time too
            patience = min(patience, request.deadline_ms * 8 // 10)
        left = patience / 1000 - (time.perf_counter() - started)
        return found, await self.asking.heard(asked, search, found, left)

    async def _search(
        self, request: RecallRequest, scope: Scope, snapshot: Snapshot, shares: WordShares
    ) -> Search:
        """Both legs of the search. What the query shares with everything says nothing, so its vector goes without."""
        weights = self._parts.weights
        stripped = texts.stripped(request.query, shares, weights.common_from)
        with self._parts.observer.phase("embed"):
            vector = await self._vectors.of_query(scope.tenant, stripped, request.embedding)
        return Search(
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
            shared_names=texts.shared_names(shares),
            users=shares.users,
        )

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

    async def _strange(
        self,
        request: RecallRequest,
        search: Search,
        found: Found,
        heard: Heard,
        kept: int,
        judging: tuple[relevance.Calibration, relevance.Question, float],
    ) -> dict[str, strangers.Judged]:
        """Foreign hits that may be shown, by id. Where our own fill the answer, nobody looks at them."""
        place, (known, question, floor) = self._parts.routing.foreign, judging
        is_full = place is not fusion.Foreign.MIX and kept >= request.k
        if is_full or not heard.strangers:
            return {}
        told = await strangers.judged(
            self._parts,
            strangers.believed(heard.strangers.values(), self._parts.routing)[: 4 * request.k],
            search,
            found.candidates,
            known,
            question,
        )
        return {one.stranger.id: one for one in told if one.relevance >= floor}

    def _lists(
        self,
        own: Sequence[str],
        kept: Sequence[tuple[Blended, float]],
        strange: Mapping[str, strangers.Judged],
        heard: Heard,
    ) -> dict[str, list[fusion.Vote]]:
        """Each backend's ranking of what may be shown. Of records the similarity is ours, of foreign hits theirs."""
        listed = {*own}.union(*heard.rankings.values())  # of many candidates few are ranked by anybody
        votes = {
            item.candidate.id: fusion.Vote(item.candidate.id, _similarity(item.candidate.cosine, sure), sure)
            for item, sure in kept
            if item.candidate.id in listed
        }
        for name, one in strange.items():
            votes[name] = fusion.Vote(
                id=name, similarity=one.similarity, relevance=one.relevance, foreign=True
            )
        lists = {
            name: [votes[id] for id in ranking if id in votes] for name, ranking in heard.rankings.items()
        }
        if self._parts.routing.ledger_votes or not heard.rankings:
            lists[self._parts.ledger.name] = [votes[id] for id in own]
        return lists

    async def _ranked(
        self,
        request: RecallRequest,
        scope: Scope,
        snapshot: Snapshot,
        lists: Mapping[str, Sequence[fusion.Vote]],
        kept: Sequence[tuple[Blended, float]],
        strange: Mapping[str, strangers.Judged],
    ) -> list[Ranked]:
        """Fuse, boost linked hits, weigh confidence and standing; as many as are wanted, best first."""
        routing = self._parts.routing
        weights = {mirror.name: mirror.weight for mirror in self._parts.mirrors}
        ledger = self._parts.ledger.name
        order = fusion.fused(
            lists,
            request.fusion,
            weights,
            quorum_k=request.quorum_k,
            trim_votes=routing.trim_votes,
            trusted=ledger,
        )
        is_told = request.explain and len(lists) > 1
        trim = fusion.trimmed(lists, request.fusion, ledger) if is_told and routing.trim_votes else None
        by_id = {item.candidate.id: (item, sure) for item, sure in kept}
        by_id |= {name: (one.blended, one.relevance) for name, one in strange.items()}
        near = await self._nearness(
            request.hops, scope, snapshot, [item.id for item in order if not item.foreign]
        )
        scored: list[tuple[fusion.Fused, float]] = []
        for place in order:
            item, _ = by_id[place.id]
            link = near.get(place.id)
            score = fusion.final_score(
                place.score,
                1.0 if link is None else hops.factor(link.distance),
                item.candidate.confidence,
                item.candidate.is_demoted,
                confidence_weight=self._parts.confidence_weight,
                demote_factor=self._parts.demote_factor,
            )
            scored.append((place, score))
        ranked: list[Ranked] = []
        for place, score in fusion.ordered(scored, routing.foreign)[: request.k]:
            item, sure = by_id[place.id]
            link = near.get(place.id)
            found = Ranked(item, sure, score, place.backends, () if link is None else link.supporting)
            found.hop = None if link is None else link.distance
            if is_told:
                found.votes = fusion.votes_for(place.id, lists, trim)
            ranked.append(found)
        return ranked

    async def _led(self, search: Search, ranking: list[Blended]) -> list[Blended]:
        """The ledger's ranking after its best turns have led on to turns of other sessions."""
        leading = hops.leaders(ranking)
        if not leading:
            return ranking
        shared = await self._parts.ledger.shared_words(
            search.scope, search.snapshot, leading, [item.candidate.id for item in ranking], search.text
        )
        return hops.led(ranking, leading, shared)

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

    def _note(
        self,
        principal: Principal,
        request: RecallRequest,
        scope: Scope,
        hits: Sequence[tuple[Hit, Record | None]],
    ) -> None:
        draft = Draft(
            op=Op.RECALL,
            actor=principal.name,
            at=self._parts.clock(),
            store=scope.store_id,
            agent=request.agent_id,
            detail={"k": request.k, "returned": len(hits)},
        )
        mentions = [
            Mention(record.id, record.version, record.digest) for _, record in hits if record is not None
        ]
        self._notes.add(principal.tenant, draft, mentions, is_recall=True)


def _leaves_out_secrets(request: RecallRequest) -> bool:
    """Masked records are left out where a filter could otherwise be used to guess what the mask hides."""
    return request.redact is Redact.OMIT or (request.redact is Redact.MASK and bool(request.filter))


def _similarity(cosine: float | None, sure: float) -> float:
    return sure if cosine is None else 0.0 if cosine < 0.0 else 1.0 if cosine > 1.0 else cosine


def _evidence(found: Found, question: relevance.Question) -> dict[str, Json]:
    """What speaks for there being an answer at all, and against it."""
    best = relevance.evidence(found.candidates, question)
    return {
        "cosine": round(best.cosine, 4),
        "coverage": round(best.coverage, 4),
        "compared": question.compared,
        "users": sorted(question.users),
        "stranger": question.has_stranger,
        "shortened": question.is_shortened,
    }
