"""Recall: search, judge, rank, cut, answer. All of one journal position."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from quipu.errors import DeadlineError, UnsupportedError
from quipu.fields import DAY_MS
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory import operations as ops
from quipu.memory.embedding import Embedding
from quipu.memory.model import FailedStore, Hit, MemoryView, RecallRequest, RecallResponse
from quipu.memory.pipeline import Held
from quipu.memory.read import Read
from quipu.memory.read_log import ReadLog, RecallBudget
from quipu.memory.recall.hits import RankedHit, Room, fitted, foreign_hit_of, hit_of
from quipu.memory.recall.mirror_search import ForeignHit, MirrorAnswers, MirrorSearch
from quipu.memory.recall.ranking import Asked, Ranked, Ranking
from quipu.memory.recall.signed_hits import HitSigner, signed
from quipu.memory.remember import store_view
from quipu.memory.scope import Scopes, scope_among, warnings_of
from quipu.memory.snapshots import Snapshots
from quipu.memory.views import is_secret, memory_fields
from quipu.model.record import TRUST_ORDER, Record, Trust
from quipu.model.search import Candidate, Found, Restriction, Scope, Search, Snapshot, WordShares
from quipu.model.store import Store
from quipu.operation import AnyBinding, Binding, Context
from quipu.search import blending, fusion, newer, relevance
from quipu.search.engine import SearchEngine
from quipu.search.filters import canonical
from quipu.search.query import Query, analyse

#: Earlier than any record, and still 64 bits.
_BEGINNING = -(2**62)


class RecallGovernor(Protocol):
    """Rules that name recalls."""

    async def check_recall(self, ctx: Context, request: RecallRequest, checked_at: int) -> Held | None:
        """By the rules of this position or a later one. None: go ahead. Raises ForbiddenError where a rule denies it."""
        ...


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A hit that no record stands behind, judged like the others."""

    hit: ForeignHit
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class _Answered:
    """What is shown."""

    shown: Sequence[tuple[Hit, Record | None]]
    #: The turns around them.
    around: Sequence[Record]
    is_cut: bool
    floor: float
    below_floor: int
    evidence: dict[str, Any] | None


_NOBODY = MirrorAnswers()


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
    ranking: Ranking
    mirrors: MirrorSearch | None = None
    signer: HitSigner | None = None

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (Binding(ops.RECALL, self.recall),)

    async def recall(self, ctx: Context, request: RecallRequest) -> RecallResponse:
        configured = 1 + len(self._mirrors_of(request))
        fusion.check_quorum(request.quorum_k, configured=configured, answered=configured)
        if request.sign_for is not None and self.signer is None:
            raise UnsupportedError("This memory has no key to sign hits with.", reason="sign_for")
        try:
            async with asyncio.timeout(None if request.deadline_ms is None else request.deadline_ms / 1000):
                # Reserved before anything is read; what is not shown is given back.
                most = request.k * (1 + 2 * request.neighbours)
                async with self.budget.reserved(ctx, request.agent, most) as allowed:
                    answer = await self._recalled(ctx, request, allowed.count)
                    shown = sum(1 + len(hit.neighbours) for hit in answer.results)
                    allowed.spend(shown)
        except TimeoutError as late:
            raise DeadlineError("The recall was not done in time.", reason="deadline") from late
        is_cut = allowed.is_cut and shown == allowed.count
        return answer.model_copy(update={"budget_cut": True}) if is_cut else answer

    async def _recalled(self, ctx: Context, request: RecallRequest, most: int) -> RecallResponse:
        started = time.perf_counter()
        asked = await self.snapshots.of(ctx, request.as_of)

        # First read: whom it reaches, and what the query means there. From here on everything is of one position.
        def understood(reader: Reader) -> tuple[int, Mapping[str, Store], Scope, WordShares]:
            guarded, stores = self.scopes.read(reader)
            scope = scope_among(stores, ctx.principal, request.agent, request.user_id, request.store)
            return guarded, stores, scope, self.engine.word_shares(reader, scope, asked, request.query)

        if request.store is not None:
            await self.scopes.stores(ctx.tenant)  # `main` is always there
        own = Scope(tenant=ctx.tenant, agent_id=request.agent)
        is_brief = request.store is None and self.engine.is_brief(own)
        guarded, stores, scope, shares = await self.ledger.read(
            ctx.tenant, understood, reached=asked.seq or 0, is_brief=is_brief
        )
        held = await self.governor.check_recall(ctx, request, guarded)
        if held is not None:
            ctx.facts.proposal_id = held.proposal_id
            return _held_answer(request, held)
        query = analyse(request.query, shares)
        snapshot = Snapshot(query.seq, asked.now)
        vector = await self.embedding.of_query(ctx.tenant, query.embedding_text, request.embedding)
        model = self.embedding.model(ctx.tenant)
        known = relevance.calibration(self.embedding.calibration, has_vector=vector is not None)
        names = {store.id: store.name for store in stores.values()}
        ask = Asked(
            request=request,
            scope=scope,
            query=query,
            # Every restriction is applied before the best are chosen.
            search=self._search(request, scope, snapshot, query, vector, model, names),
            known=known,
            store_names=names,
            most=most,
        )
        # Second read: find, rank, judge how likely each answers, leave out what is below the floor, show the rest.
        answer, mirrors = await self._answers(ctx.tenant, ask, started)
        warnings = (
            ()
            if answer.shown
            else await warnings_of(self.ledger, scope, snapshot, ask.search.restriction.filter)
        )
        hits: Sequence[Hit] = [hit for hit, _ in answer.shown]
        if request.sign_for is not None and self.signer is not None:
            hits = signed(hits, request.sign_for, request.query, self.signer, ctx.clock())
        records = [record for _, record in answer.shown if record is not None] + list(answer.around)
        self.read_log.recalled(
            ctx, request.agent, scope.store_id, request.k, records, counts=request.count_recall
        )
        ctx.facts.record_ids = tuple(record.id for record in records)
        store = None if scope.store_id is None else stores[scope.store_id]
        ctx.facts.store, ctx.facts.checked_at = store, guarded
        return RecallResponse(
            results=tuple(hits),
            fusion_used=request.fusion,
            stores_queried=(self.ledger.name, *mirrors.rankings),
            latency_ms=int((time.perf_counter() - started) * 1000),
            seq=query.seq,
            min_relevance=answer.floor,
            below_floor=answer.below_floor,
            truncated=answer.is_cut,
            stores_failed=tuple(
                FailedStore(store=name, reason=reason) for name, reason in sorted(mirrors.failed.items())
            ),
            evidence=answer.evidence,
            warnings=warnings,
            store=None if store is None else store_view(store),
        )

    def _mirrors_of(self, request: RecallRequest) -> Mapping[str, float]:
        """Those that are asked, with their weights. The past is the ledger's alone."""
        return {} if self.mirrors is None or request.as_of is not None else self.mirrors.weights

    async def _answers(self, tenant: str, ask: Asked, started: float) -> tuple[_Answered, MirrorAnswers]:
        """In one read of the ledger; where mirrors are asked, in two, of the same position."""
        mirrors, reached = self.mirrors, ask.query.seq

        def rank(reader: Reader) -> Ranked:
            return self.ranking.ranked(reader, ask)

        if mirrors is None or not self._mirrors_of(ask.request):
            return await self.ledger.read(
                tenant,
                lambda reader: self._answered(reader, ask, rank(reader)),
                reached=reached,
                is_brief=self.engine.is_brief(ask.scope),
            ), _NOBODY
        async with mirrors.asked(ask.search, ask.wanted) as question:
            ranked = await self.ledger.read(tenant, rank, reached=reached)
            patience = mirrors.deadline_ms
            if ask.request.deadline_ms is not None:  # the rest of the work needs its time too
                patience = min(patience, ask.request.deadline_ms * 8 // 10)
            answers = await question.answers(patience / 1000 - (time.perf_counter() - started))
        quorum = ask.request.quorum_k
        fusion.check_quorum(quorum, configured=1 + len(mirrors.weights), answered=1 + len(answers.rankings))
        foreign = await self._foreign(mirrors, ask, ranked, answers)
        return await self.ledger.read(
            tenant, lambda reader: self._answered(reader, ask, ranked, answers, foreign), reached=reached
        ), answers

    async def _foreign(
        self, mirrors: MirrorSearch, ask: Asked, ranked: Ranked, answers: MirrorAnswers
    ) -> Sequence[_Foreign]:
        """Foreign hits with what can be said of them; none where our own fill the answer, or a trusted writer is wanted."""
        request = ask.request
        least = request.min_trust
        if not answers.foreign or (
            least is not None and TRUST_ORDER.index(least) < TRUST_ORDER.index("external")
        ):
            return ()
        question = relevance.question_of(ask.query, ranked.found.searched)
        floor = relevance.floor(request.min_relevance, ask.known, question)
        sureness = relevance.relevances([item.candidate for item in ranked.ranking], ask.known, question)
        if sum(sure >= floor for sure in sureness) >= request.k:
            return ()
        some = list(answers.foreign.values())[: 4 * request.k]
        judged = await mirrors.candidates(some, ask.search)
        return [_Foreign(hit, candidate) for hit, candidate in zip(some, judged, strict=True)]

    def _answered(
        self,
        reader: Reader,
        ask: Asked,
        ranked: Ranked,
        answers: MirrorAnswers = _NOBODY,
        foreign: Sequence[_Foreign] = (),
    ) -> _Answered:
        theirs = self.ranking.only_theirs(reader, ask, ranked, answers)
        ranking = [*ranked.ranking, *theirs]  # behind the ledger's own
        question = relevance.question_of(ask.query, ranked.found.searched)
        floor = relevance.floor(ask.request.min_relevance, ask.known, question)
        sureness = relevance.relevances([item.candidate for item in ranking], ask.known, question)
        kept = [pair for pair in zip(ranking, sureness, strict=True) if pair[1] >= floor]
        below = len(sureness) - len(kept)
        judged = relevance.relevances([one.candidate for one in foreign], ask.known, question)
        for one, sure in zip(foreign, judged, strict=True):
            if sure >= floor:
                kept.append((blending.Blended(one.candidate, 0, 0, 0, 0, 0, 0), sure))
        order = self.ranking.fused(reader, ask, kept, answers, {item.candidate.id for item in theirs})
        current = self._newer_first(reader, ask, order)
        shown, is_cut = self._shown(reader, ask, current, {one.hit.id: one.hit for one in foreign})
        evidence = _evidence(ranked.found, question) if ask.request.explain else None
        if not ask.request.neighbours:
            return _Answered(shown, (), is_cut, floor, below, evidence)
        hits, around, is_shortened = self._with_turns(reader, ask, [hit for hit, _ in shown])
        shown = [(hit, record) for hit, (_, record) in zip(hits, shown, strict=True)]
        return _Answered(shown, around, is_cut or is_shortened, floor, below, evidence)

    def _newer_first(self, reader: Reader, ask: Asked, ranked: Iterator[RankedHit]) -> Iterator[RankedHit]:
        """The best hits, of those that contradict each other the newer first; unless the past is asked for."""
        best = {
            item.blended.candidate.id: item for item in islice(ranked, max(ask.request.k, newer.LOOKED_AT))
        }
        leading = list(best)[: newer.LOOKED_AT]
        pairs = self.engine.near_each_other(reader, ask.scope, ask.snapshot, leading, newer.NEARNESS)
        ids = sorted({name for pair in pairs for name in pair})
        records = reader.records(ids, ask.snapshot.seq) if ids else {}
        found = newer.contradictions(ask.query.text, pairs, records)
        order = list(best)
        if found and ask.request.as_of is None and not newer.is_about_the_past(ask.query.text):
            order = newer.newer_first(order, found, records)
        for name in order:
            yield replace(best[name], contradicts=found[name]) if name in found else best[name]
        yield from ranked

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
            limit=max(self.ranking.weights.candidates, request.k),
            context=self.ranking.weights.context,
            people=query.people,
            names=query.names,
            shared_names=query.shared_names,
            users=query.users,
        )

    def _shown(
        self,
        reader: Reader,
        ask: Asked,
        ranked: Iterator[RankedHit],
        foreign: Mapping[str, ForeignHit],
    ) -> tuple[list[tuple[Hit, Record | None]], bool]:
        """The hits with their records, read at the same position, masked, and as many as fit."""
        request, snapshot, most = ask.request, ask.snapshot, min(ask.most, ask.request.k)
        pairs: list[tuple[Hit, Record | None]] = []
        while some := list(islice(ranked, most)):  # mostly the first few are all that is needed
            ids = [item.blended.candidate.id for item in some]
            records = reader.records([name for name in ids if name not in foreign], snapshot.seq)
            for name, item in zip(ids, some, strict=True):
                if name in foreign:
                    pairs.append((foreign_hit_of(item, foreign[name], len(pairs), request), None))
                elif (record := records.get(name)) is not None and _is_shown(record, request, snapshot):
                    store = ask.store_names.get(record.store_id, "")
                    pairs.append((hit_of(item, record, store, len(pairs), request), record))
                if len(pairs) == most:
                    return fitted(pairs, request.max_tokens, _content)
        return fitted(pairs, request.max_tokens, _content)

    def _with_turns(
        self, reader: Reader, ask: Asked, hits: Sequence[Hit]
    ) -> tuple[list[Hit], list[Record], bool]:
        """Each hit with the turns around it, as far as the credential's budget and `max_tokens` go."""
        request, snapshot = ask.request, ask.snapshot
        around = self.engine.turns_around(
            reader, ask.scope, snapshot, [hit.id for hit in hits if not hit.foreign], request.neighbours
        )
        records = reader.records([name for names in around.values() for name in names], snapshot.seq)
        room = Room(ask.most - len(hits), request.max_tokens, hits)
        seen = {hit.id for hit in hits}
        told: list[Record] = []
        shown: list[Hit] = []
        for hit in hits:
            turns: list[MemoryView] = []
            for name in around.get(hit.id, ()):
                record = records.get(name)
                if name in seen or record is None or not _is_shown(record, request, snapshot):
                    continue
                if not _is_context(record, request, snapshot):
                    continue
                store = ask.store_names.get(record.store_id, "")
                is_masked = is_secret(record) and request.redact != "none"
                view = MemoryView(**memory_fields(record, store, is_masked=is_masked))
                if not room.takes(view):
                    continue
                seen.add(name)
                told.append(record)
                turns.append(view)
            shown.append(hit.model_copy(update={"neighbours": tuple(turns)}) if turns else hit)
        return shown, told, room.is_cut


def recall_over(
    read: Read,
    *,
    embedding: Embedding,
    engine: SearchEngine,
    governor: RecallGovernor,
    mirrors: MirrorSearch | None = None,
    signer: HitSigner | None = None,
) -> Recall:
    """Recall over what else reads."""
    return Recall(
        ledger=read.ledger,
        scopes=read.scopes,
        snapshots=read.snapshots,
        embedding=embedding,
        engine=engine,
        read_log=read.read_log,
        budget=read.budget,
        governor=governor,
        ranking=Ranking(ledger=read.ledger.name, engine=engine, weights=blending.Weights(), mirrors=mirrors),
        mirrors=mirrors,
        signer=signer,
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


def _content(record: Record | None) -> str:
    return "" if record is None else record.content


def _is_shown(record: Record, request: RecallRequest, snapshot: Snapshot) -> bool:
    """A record that was erased between search and read is gone here, and that is right."""
    if record.is_emptied or record.is_expired(snapshot.now):
        return False
    return request.min_trust is None or not _is_less_trusted(record, request.min_trust)


def _is_context(record: Record, request: RecallRequest, snapshot: Snapshot) -> bool:
    """Whether a turn may stand beside a hit. It need not fit the filter, which is for what is looked for."""
    is_over = record.valid_until is not None and record.valid_until <= snapshot.now
    is_current = not is_over or request.include_superseded or request.as_of is not None
    is_left_out = request.redact == "omit" and is_secret(record)
    return is_current and not is_left_out and (not request.types or record.type in request.types)


def _is_less_trusted(record: Record, than: Trust) -> bool:
    return TRUST_ORDER.index(record.provenance.trust) > TRUST_ORDER.index(than)


def _evidence(found: Found, question: relevance.Question) -> dict[str, Any]:
    """What speaks for there being an answer at all, and against it."""
    cosines = (one.cosine for one in found.candidates if one.cosine is not None)
    return {
        "cosine": round(max(cosines, default=0.0), 4),
        "coverage": round(max((one.coverage for one in found.candidates), default=0.0), 4),
        "compared": question.compared,
        "users": sorted(question.users),
        "unknown_person": question.names_unknown_person,
    }
