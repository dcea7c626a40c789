"""What several peers show, as one: whose hits are the same, whose text stands, and who does not vote for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.record import Trust
from quipu.model.value import Json
from quipu.rules import fusion
from quipu.rules.agreement import agreed
from quipu.rules.fusion_trimmed import Trim
from quipu.rules.peers import claimed


def hits_by_id(
    told: Mapping[str, RecallResponse], ours: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Hit]]:
    """Each peer's hits by the router's id, in their order. What nobody noted is one where its text is the same."""
    found: dict[str, dict[str, Hit]] = {}
    by_text: dict[tuple[str, str], str] = {}
    for peer in sorted(told):
        mine: dict[str, Hit] = {}
        for hit in told[peer].results:
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


def as_most_tell(
    place: fusion.Fused,
    rank: int,
    hits: Mapping[str, Mapping[str, Hit]],
    ours: Mapping[str, Mapping[str, str]],
    *,
    is_foreign: bool,
) -> Hit:
    """As most of the peers that returned it tell it; of equally many, as the one that ranked it best."""
    versions = [(peer, hits[peer][place.id]) for peer in place.backends]
    text = versions[agreed([str(hit.content) for _, hit in versions])][1].content
    versions = [(peer, hit) for peer, hit in versions if hit.content == text]
    peer, chosen = versions[agreed([claimed(hit) for _, hit in versions])]
    if is_foreign:
        provenance = replace(chosen.provenance, trust=Trust.EXTERNAL)
        chosen = replace(chosen, foreign=True, provenance=provenance)
    return replace(
        chosen,
        id=place.id,
        score=place.score,
        rank=rank,
        relevance=chosen.relevance,
        source_store=place.source,
        stores=place.backends,
        supporting=tuple(ours[peer].get(other, other) for other in chosen.supporting),
    )
