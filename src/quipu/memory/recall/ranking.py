"""From candidates to one order: the ledger's own ranking, fused with those of mirrors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quipu.ledger.reader import Reader
from quipu.memory.model import RecallRequest
from quipu.memory.recall.hits import RankedHit
from quipu.memory.recall.mirror_search import MirrorAnswers, MirrorSearch
from quipu.model.search import Found, Scope, Search, Snapshot
from quipu.search import blending, fusion, hops, relevance
from quipu.search.engine import SearchEngine
from quipu.search.query import Query
from quipu.search.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A recall on its way, after the first read: everything is of the position of its snapshot."""

    request: RecallRequest
    scope: Scope
    query: Query
    search: Search
    known: relevance.Calibration
    store_names: Mapping[str, str]
    #: So many may be shown.
    most: int

    @property
    def snapshot(self) -> Snapshot:
        return self.search.snapshot

    @property
    def wanted(self) -> int:
        """How many places of each ranking count."""
        return min(max(4 * self.request.k, 20), 2000)


@dataclass(frozen=True, slots=True)
class Ranked:
    """What the ledger found by itself, in its own order."""

    found: Found
    ranking: Sequence[blending.Blended]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Ranks for recalls. What it is given to read is a ledger at one position; it runs on a worker thread."""

    #: What answers call the ledger.
    ledger: str
    engine: SearchEngine
    weights: blending.Weights
    mirrors: MirrorSearch | None = None

    def ranked(self, source: Source, ask: Asked) -> Ranked:
        """The candidates in the ledger's own order. On a worker thread."""
        search = ask.search
        found = self.engine.find(source, search)
        ranking = self._blended(found, ask)
        leading = hops.leaders(ranking) if ask.request.hops else []
        if leading:  # the best turns lead on to turns of other sessions that share rare words with them
            members = [item.candidate.id for item in ranking]
            shared = self.engine.shared_words(
                source, search.scope, search.snapshot, leading, members, search.text
            )
            ranking = hops.led_on(ranking, leading, shared)
        return Ranked(found, ranking)

    def only_theirs(
        self, reader: Reader, ask: Asked, ranked: Ranked, answers: MirrorAnswers
    ) -> Sequence[blending.Blended]:
        """Records that only mirrors found, as far as the ledger's own search could have returned them."""
        ids = answers.record_ids() - {item.candidate.id for item in ranked.ranking}
        if not ids:
            return ()
        narrowed = replace(ask.search.restriction, ids=ids)
        found = self.engine.find(reader, replace(ask.search, restriction=narrowed, limit=len(ids)))
        return self._blended(found, ask)

    def _blended(self, found: Found, ask: Asked) -> list[blending.Blended]:
        query = ask.query
        return blending.blended(
            found.candidates,
            query.subjects,
            self.weights,
            query.users,
            is_about_oneself=query.is_about_oneself,
        )

    def fused(
        self,
        reader: Reader,
        ask: Asked,
        kept: Sequence[tuple[blending.Blended, float]],
        answers: MirrorAnswers,
        only_theirs: Collection[str],
    ) -> Iterator[RankedHit]:
        """Fuse rankings, raise linked hits, weigh confidence and demotion; best first. Few of them are ever shown."""
        request, ledger = ask.request, self.ledger
        by_id = {item.candidate.id: (item, sure) for item, sure in kept}
        rankings = self._rankings(ask, by_id, answers, only_theirs)
        weighs: Mapping[str, float] = {} if self.mirrors is None else self.mirrors.weights
        counts = self.mirrors is not None and self.mirrors.counts_votes
        order = fusion.fused(
            rankings,
            request.fusion,
            weighs,
            quorum_k=request.quorum_k,
            trusted=None if counts else ledger,
        )
        near: Mapping[str, hops.LinkDistance] = {}
        if request.hops:
            ids = [item.id for item in order if not item.is_foreign]
            near = self.engine.link_distances(reader, ask.scope, ask.snapshot, ids, request.hops)
        scored: list[tuple[fusion.Fused, float]] = []
        for place in order:
            candidate, link = by_id[place.id][0].candidate, near.get(place.id)
            factor = 1.0 if link is None else hops.factor(link.distance)
            score = fusion.final_score(place.score, factor, candidate.confidence, candidate.is_demoted)
            scored.append((place, score))
        for place, score in fusion.ordered(scored):
            item, sure = by_id[place.id]
            link = near.get(place.id)
            yield RankedHit(
                blended=item,
                relevance=sure,
                score=score,
                backends=place.backends,
                supporting=() if link is None else link.supporting,
                distance=None if link is None else link.distance,
            )

    def _rankings(
        self,
        ask: Asked,
        kept: Mapping[str, tuple[blending.Blended, float]],
        answers: MirrorAnswers,
        only_theirs: Collection[str],
    ) -> dict[str, list[fusion.Vote]]:
        """Each backend's ranking of what may be shown. Of records the similarity is ours, of foreign hits theirs."""
        foreign = answers.foreign
        own = [name for name in kept if name not in only_theirs and name not in foreign][: ask.wanted]
        listed = {*own}.union(*answers.rankings.values())  # of many candidates few are ranked by anybody
        votes = {
            name: fusion.Vote(name, foreign[name].score, kept[name][1], is_foreign=True)
            if name in foreign
            else fusion.Vote(name, _similarity(*kept[name]), kept[name][1])
            for name in kept
            if name in listed
        }
        rankings = {
            mirror: [votes[name] for name in ranking if name in votes]
            for mirror, ranking in answers.rankings.items()
        }
        if self.mirrors is None or self.mirrors.ledger_ranks:
            rankings[self.ledger] = [votes[name] for name in own]
        return rankings


def _similarity(item: blending.Blended, sure: float) -> float:
    cosine = item.candidate.cosine
    return sure if cosine is None else min(1.0, max(0.0, cosine))
