"""What several peers show, as one ranking: whose hits are the same, whose text stands, and what links are worth.

A peer has weighed links, confidence and demotion already. Counted by places, that would be half a weight; counted by
scores, twice. So each ranking is taken back to what its search found (`as_searched`), the rankings are fused, and the
result is weighed once, as a memory weighs its own. A router over one memory then answers as that memory does.

Which hits are linked only the peers know. How near a hit is to another one is what enough of its tellers say.

A router of replicas shows nothing that a minority of them could have made up. Of `listed` peers at most
f = floor((listed - 1) / 2) lie while most are honest. What f + 1 of them show with one text has an honest voucher among
them. What fewer show is judged by what the router knows itself, its map of what it wrote:

- A memory that it wrote needs f + 1 vouchers, f of those that answered, or all that were given it and answered where
  these are fewer: one that only one peer took is shown by that one.
- What it did not write needs f + 1 vouchers, f of those that are listed, so that it helps nobody to keep others silent.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

from quipu.memory.model import Fusion, Hit, RecallResponse
from quipu.memory.recall.hits import fitted
from quipu.router.ids import Known, told
from quipu.search import fusion, hops

#: The member of a hit's `why` that tells the distance to the nearest linked hit.
HOP: Final = "hop"
_DISTANCES = range(1, 4)

#: By peer, and then by the router's id, in the peer's order.
Shown = Mapping[str, Mapping[str, Hit]]


#: The distance of the nearest linked hit, and the linked hits, nearest first. Without a distance nothing is lifted.
Links: TypeAlias = tuple[int | None, tuple[str, ...]]


# -- whose hits are the same ------------------------------------------------------------------------------------------


def by_id(answers: Mapping[str, RecallResponse], known: Known) -> dict[str, dict[str, Hit]]:
    """Each peer's hits by the router's id, as its search ranked them.

    What nobody noted is one with another peer's where type and text are the same. Two of one peer are two.
    """
    found: dict[str, dict[str, Hit]] = {}
    by_text: dict[tuple[str, str], str] = {}
    taken: dict[str, tuple[str, str]] = {}
    for peer in sorted(answers):
        mine: dict[str, Hit] = {}
        for hit in as_searched(answers[peer].results):
            id, text = known.own(peer, hit.id), (hit.type, str(hit.content))
            if id is None:
                id = by_text.get(text)
            if id is None or id in mine:
                # Another peer may have this very id for something else.
                id = hit.id if taken.get(hit.id, text) == text and hit.id not in mine else f"{peer}:{hit.id}"
                by_text.setdefault(text, id)
                taken.setdefault(id, text)
            mine.setdefault(id, hit)
        found[peer] = mine
    return found


def as_searched(ranking: Sequence[Hit]) -> list[Hit]:
    """A peer's ranking before it weighed anything. One that is not in the order of its scores is taken as it is."""
    is_plain = all(hit.confidence == 1.0 and not hit.demoted and not hit.why for hit in ranking)
    if is_plain or not all(math.isfinite(hit.score) for hit in ranking):
        return list(ranking)
    if any(worse.score > better.score for better, worse in pairwise(ranking)):
        return list(ranking)
    # What was equal then has the same order whatever was weighed since.
    return sorted(
        ranking, key=lambda hit: (-round(_searched(hit), fusion.TIE_DECIMALS), -hit.relevance, hit.id)
    )


def votes(shown: Shown, left_out: Collection[tuple[str, str]] = ()) -> dict[str, list[fusion.Vote]]:
    """Each peer's ranking with the scores of its search, without what it does not vote for."""
    return {
        peer: [
            fusion.Vote(id=id, score=_searched(hit), relevance=hit.relevance)
            for id, hit in ranking.items()
            if (peer, id) not in left_out
        ]
        for peer, ranking in shown.items()
    }


def _searched(hit: Hit) -> float:
    return hit.score / _weighed(1.0, hit, hop(hit))


# -- what links are worth ---------------------------------------------------------------------------------------------


def hop(hit: Hit) -> int | None:
    """How far the nearest linked hit is, if the peer tells."""
    said = (hit.why or {}).get(HOP)
    return said if isinstance(said, int) and said in _DISTANCES and said is not True else None


def near(claims: Iterable[Links], members: Collection[str], needed: int) -> Links:
    """What at least so many tellers agree on: as near as that many say it is, and what that many name beside it.

    Only hits of the common ranking count, so nothing is lifted by what nobody else may see. Where the nearest one is
    not among them, that teller's distance is another hit's and says nothing.
    """
    distances: list[int] = []
    places: dict[str, list[int]] = {}
    for distance, supporting in claims:
        if distance is not None and supporting and supporting[0] in members:
            distances.append(distance)
        for place, id in enumerate(dict.fromkeys(supporting)):
            if id in members:
                places.setdefault(id, []).append(place)
    believed = {id: sorted(said)[needed - 1] for id, said in places.items() if len(said) >= needed}
    linked = tuple(sorted(believed, key=lambda id: (believed[id], id))[: hops.MAX_SUPPORTING])
    return (sorted(distances)[needed - 1] if linked and len(distances) >= needed else None, linked)


def _weighed(score: float, hit: Hit, distance: int | None) -> float:
    """A score after links, confidence and demotion. A confidence that is none counts as the nearest that is."""
    sure = min(max(hit.confidence, 0.0), 1.0)
    lift = 1.0 if distance is None else hops.factor(distance)
    return fusion.final_score(score, lift, sure, hit.demoted)


# -- what is shown ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Showing:
    """How one recall shows what its peers returned. `needed`: so many tellers of a link are believed."""

    shown: Shown
    known: Known
    needed: int = 1

    def results(self, order: Sequence[fusion.Fused]) -> list[Hit]:
        """Every hit of the common ranking, weighed, best first."""
        members = {place.id for place in order}
        scored: list[tuple[fusion.Fused, float]] = []
        hits: dict[str, Hit] = {}
        for place in order:
            hit, distance = self._linked(place, self._as_most_tell(place), members)
            hits[place.id] = hit
            scored.append((place, _weighed(place.score, hit, distance)))
        return [
            hits[place.id].model_copy(update={"score": score, "rank": rank})
            for rank, (place, score) in enumerate(fusion.ordered(scored))
        ]

    def copies(self, hit: Hit) -> dict[str, Hit]:
        """The hit as each of its tellers gave it."""
        return {peer: self.shown[peer][hit.id] for peer in hit.found_by}

    def _as_most_tell(self, place: fusion.Fused) -> Hit:
        """As most of the peers that returned it tell it; of equally many, as the one that ranked it best."""
        versions = [(peer, self.shown[peer][place.id]) for peer in place.backends]
        if len(versions) > 1:
            text = versions[agreed([str(hit.content) for _, hit in versions])][1].content
            versions = [(peer, hit) for peer, hit in versions if hit.content == text]
            versions = [versions[agreed([_claimed(hit) for _, hit in versions])]]
        peer, hit = versions[0]
        return hit.model_copy(
            update={"id": place.id, "supporting": (), "source_store": peer, "found_by": place.backends}
        )

    def _linked(self, place: fusion.Fused, hit: Hit, members: Collection[str]) -> tuple[Hit, int | None]:
        claims = [
            (hop(said), tuple(self.known.own(peer, id) or self._named(peer, id) for id in said.supporting))
            for peer in place.backends
            if (said := self.shown[peer][place.id]).supporting
        ]
        if not claims:
            return hit, None
        distance, supporting = near(claims, members, min(self.needed, len(place.backends)))
        why = {name: value for name, value in (hit.why or {}).items() if name != HOP}
        if distance is not None:
            why[HOP] = distance
        return hit.model_copy(update={"supporting": supporting, "why": why or None}), distance

    def _named(self, peer: str, native_id: str) -> str:
        """What is shown of a peer under another name than its own."""
        names = (id for id, hit in self.shown[peer].items() if hit.id == native_id)
        return next(names, native_id)


def _claimed(hit: Hit) -> str:
    """All that honest peers tell alike of one memory, in a form that can be compared."""
    parts = (sorted(hit.metadata.items()), sorted(hit.details.items()), sorted(hit.tags))
    return repr((told(hit), parts, hit.confidence, hit.demoted))


def explained(
    hit: Hit,
    rankings: Mapping[str, Sequence[fusion.Vote]],
    method: Fusion,
    left_out: Collection[tuple[str, str]],
) -> Hit:
    """The hit with its votes, beside what the peer that tells it says of its own search."""
    said: dict[str, Any] = {"places": dict(fusion.votes(hit.id, rankings, method).places)}
    if other_text := sorted(peer for peer, id in left_out if id == hit.id):
        said["other_text"] = other_text
    return hit.model_copy(update={"why": {**(hit.why or {}), "votes": said}})


def cut(hits: Sequence[Hit], max_tokens: int | None) -> tuple[list[Hit], bool]:
    """As many as fit, and whether something did not."""
    pairs, is_cut = fitted([(hit, hit) for hit in hits], max_tokens, lambda hit: json.dumps(hit.content))
    return [hit for hit, _ in pairs], is_cut


# -- replicas -------------------------------------------------------------------------------------------------------

#: Two cannot tell who of them lies.
FEWEST: Final = 3


def liars(peers: int) -> int:
    """How many may lie while most are honest."""
    return max(0, (peers - 1) // 2)


def is_asked_for(listed: int, method: Fusion) -> bool:
    """Whether so many peers vouch for one another; `max` and `weighted` believe what each of them says."""
    return method == "rrf" and listed >= FEWEST


def agreed(versions: Sequence[str]) -> int:
    """The place of the version that most tell; of equally many, the one that stands first."""
    counts = Counter(versions)
    most = max(counts.values())
    return next(place for place, version in enumerate(versions) if counts[version] == most)


def is_vouched(item: fusion.Fused, *, listed: int, answered: int, holders: int = 0) -> bool:
    """Whether somebody honest stands behind a hit, or the router itself.

    holders: How many peers took it and answered now; 0: the router did not write it.
    """
    if holders:
        return len(item.backends) >= min(liars(answered) + 1, holders)
    return len(item.backends) >= min(liars(listed) + 1, answered)


def contradicting(hits: Mapping[str, Mapping[str, Hit]]) -> frozenset[tuple[str, str]]:
    """Which peer shows which id with another text than most do: it does not vote for what the others show."""
    versions: dict[str, list[tuple[int, str, str]]] = {}
    for peer, ranking in hits.items():
        for rank, (id, hit) in enumerate(ranking.items()):
            versions.setdefault(id, []).append((rank, peer, str(hit.content)))
    found: set[tuple[str, str]] = set()
    for id, shown in versions.items():
        texts = [text for _, _, text in sorted(shown)]
        text = texts[agreed(texts)]
        found |= {(peer, id) for _, peer, other in shown if other != text}
    return frozenset(found)
