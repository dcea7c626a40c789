"""What several peers show, as one: whose hits are the same, whose text stands, and who does not vote for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.value import Json
from quipu.rules import fusion
from quipu.rules.agreement import agreed
from quipu.rules.fusion_trimmed import Trim


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


def contradicting(hits: Mapping[str, Mapping[str, Hit]]) -> frozenset[tuple[str, str]]:
    """Which peer shows which id with another text than most do: it does not vote for what the others show."""
    versions: dict[str, list[tuple[int, str, str]]] = {}
    for peer, ranking in hits.items():
        for rank, (id, hit) in enumerate(ranking.items()):
            versions.setdefault(id, []).append((rank, peer, str(hit.content)))
    found: set[tuple[str, str]] = set()
    for id, told in versions.items():
        told.sort()
        text = told[agreed([text for _, _, text in told])][2]
        found |= {(peer, id) for _, peer, other in told if other != text}
    return frozenset(found)


def explained(
    hit: Hit,
    lists: Mapping[str, Sequence[fusion.Vote]],
    trim: Trim | None,
    contradicting: Collection[tuple[str, str]],
) -> Hit:
    """The hit with its votes: beside what the peer that tells it says of its own search."""
    votes = fusion.votes_for(hit.id, lists, trim)
    other_text: list[Json] = [peer for peer in sorted(lists) if (peer, hit.id) in contradicting]
    if other_text:
        votes["other_text"] = other_text
    return replace(hit, why={**(hit.why or {}), "votes": votes})


def as_most_tell(
    place: fusion.Fused,
    rank: int,
    hits: Mapping[str, Mapping[str, Hit]],
    ours: Mapping[str, Mapping[str, str]],
) -> Hit:
    """As most of the peers that returned it tell it; of equally many, as the one that ranked it best."""
    versions = [(peer, hits[peer][place.id]) for peer in place.backends]
    peer, chosen = versions[agreed([str(hit.content) for _, hit in versions])]
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
