"""What several peers show, as one: whose hits are the same, whose text stands, and who does not vote for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.record import Trust
from quipu.model.value import Json
from quipu.rules import budget, fusion
from quipu.rules.agreement import agreed
from quipu.rules.fusion_trimmed import Trim
from quipu.rules.peer_rankings import HOP, Claim, as_searched, hop, near, weighed
from quipu.rules.peers import claimed
from quipu.rules.vouching import Vouched


def hits_by_id(
    told: Mapping[str, RecallResponse], ours: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Hit]]:
    """Each peer's hits by the router's id, as its search ranked them. What nobody noted is one where its text is the same."""
    found: dict[str, dict[str, Hit]] = {}
    by_text: dict[tuple[str, str], str] = {}
    for peer in sorted(told):
        mine: dict[str, Hit] = {}
        for hit in as_searched(told[peer].results):
            known = ours[peer].get(hit.id)
            id = known or by_text.setdefault((hit.type.value, str(hit.content)), hit.id)
            mine.setdefault(id, hit)
        found[peer] = mine
    return found


def contradicting(
    hits: Mapping[str, Mapping[str, Hit]], liars: int, own: Collection[str] = ()
) -> frozenset[tuple[str, str]]:
    """Which peer shows which id with another text than most do: it does not vote for what the others show.

    Where no text has more tellers than may lie, one of a peer with contents of its own stands: it may be alone in
    knowing it, and nobody takes it away by showing its id.
    """
    versions: dict[str, list[tuple[int, str, str]]] = {}
    for peer, ranking in hits.items():
        for rank, (id, hit) in enumerate(ranking.items()):
            versions.setdefault(id, []).append((rank, peer, str(hit.content)))
    found: set[tuple[str, str]] = set()
    for id, told in versions.items():
        told.sort()
        texts = [text for _, _, text in told]
        text = texts[agreed(texts)]
        theirs = [text for _, peer, text in told if peer in own]
        if theirs and texts.count(text) <= liars:
            text = theirs[agreed(theirs)]
        found |= {(peer, id) for _, peer, other in told if other != text}
    return frozenset(found)


def votes(
    hits: Mapping[str, Mapping[str, Hit]], contradicting: Collection[tuple[str, str]]
) -> dict[str, list[fusion.Vote]]:
    """Each peer's ranking, without what it does not vote for."""
    return {
        peer: [
            fusion.Vote(id=id, similarity=hit.relevance, relevance=hit.relevance)
            for id, hit in ranking.items()
            if (peer, id) not in contradicting
        ]
        for peer, ranking in hits.items()
    }


def explained(
    hit: Hit,
    lists: Mapping[str, Sequence[fusion.Vote]],
    trim: Trim | None,
    contradicting: Collection[tuple[str, str]],
) -> Hit:
    """The hit with its votes: beside what the peer that tells it says of its own search."""
    told = fusion.votes_for(hit.id, lists, trim)
    other_text: list[Json] = [peer for peer in sorted(lists) if (peer, hit.id) in contradicting]
    if other_text:
        told["other_text"] = other_text
    return replace(hit, why={**(hit.why or {}), "votes": told})


def hits_of(answer: RecallResponse, most: int) -> tuple[Hit, ...]:
    """The first hits of an answer, whatever else a peer has put there."""
    return tuple(hit for hit in answer.results[:most] if isinstance(cast("object", hit), Hit))


def fitted(hits: Sequence[Hit], max_tokens: int | None) -> tuple[list[Hit], bool]:
    """Whole hits in rank order while they fit the budget, and whether something did not."""
    passages = [
        budget.Passage(
            hit.content if isinstance(hit.content, str) else json.dumps(dict(hit.content)),
            isinstance(hit.content, str),
        )
        for hit in hits
    ]
    fit = budget.fitted(passages, max_tokens)
    kept = [hits[place] for place in fit.kept]
    if fit.cut is not None:
        kept[0] = replace(kept[0], content=fit.cut, truncated=True)
    return kept, len(kept) < len(hits) or fit.cut is not None


class Telling:
    """How one recall tells what its peers returned. `needed`: so many tellers of a link are believed."""

    def __init__(
        self, hits: Mapping[str, Mapping[str, Hit]], ours: Mapping[str, Mapping[str, str]], needed: int
    ) -> None:
        self._hits, self._ours, self._needed = hits, ours, needed

    def results(self, found: Vouched) -> list[Hit]:
        """Every hit that may be shown, weighed, best first; what is foreign comes behind the rest."""
        members = {place.id for place in found.known}
        known = [(place, *self._weighed(place, members)) for place in found.known]
        foreign = [(place, *self._weighed(place, frozenset[str]())) for place in found.foreign]
        told = [*_best_first(known), *(_as_foreign(hit) for hit in _best_first(foreign))]
        return [replace(hit, rank=rank) for rank, hit in enumerate(told, 1)]

    def copies(self, hit: Hit) -> dict[str, Hit]:
        """The hit as each of its tellers gave it."""
        return {peer: self._hits[peer][hit.id] for peer in hit.stores}

    def _weighed(self, place: fusion.Fused, members: Collection[str]) -> tuple[Hit, float]:
        """The hit with its links, and its score after all."""
        hit = self._as_most_tell(place)
        claims = [
            Claim(hop(told), tuple(self._ours[peer].get(id, id) for id in told.supporting))
            for peer in place.backends
            if (told := self._hits[peer][place.id]).supporting
        ]
        if not claims:
            return hit, weighed(place.score, hit, None)
        link = near(claims, members, min(self._needed, len(place.backends)))
        why = hit.why if link.distance is None else {**(hit.why or {}), HOP: link.distance}
        if link.distance is None and why:
            why = {name: value for name, value in why.items() if name != HOP}
        hit = replace(hit, supporting=link.supporting, why=why)
        return hit, weighed(place.score, hit, link.distance)

    def _as_most_tell(self, place: fusion.Fused) -> Hit:
        """As most of the peers that returned it tell it; of equally many, as the one that ranked it best."""
        versions = [self._hits[peer][place.id] for peer in place.backends]
        if len(versions) > 1:
            text = versions[agreed([str(hit.content) for hit in versions])].content
            versions = [hit for hit in versions if hit.content == text]
            versions = [versions[agreed([claimed(hit) for hit in versions])]]
        return replace(
            versions[0], id=place.id, supporting=(), source_store=place.source, stores=place.backends
        )


def _best_first(told: Sequence[tuple[fusion.Fused, Hit, float]]) -> list[Hit]:
    by_id = {place.id: hit for place, hit, _ in told}
    ranking = fusion.ordered((place, score) for place, _, score in told)
    return [replace(by_id[place.id], score=score) for place, score in ranking]


def _as_foreign(hit: Hit) -> Hit:
    return replace(hit, foreign=True, provenance=replace(hit.provenance, trust=Trust.EXTERNAL))
