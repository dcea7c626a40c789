"""What several peers show, as one ranking: whose hits are the same, whose text stands, and what links are worth.

A peer has weighed links, confidence and demotion already. Counted by places, that would be half a weight; counted by
scores, twice. So each ranking is taken back to what its search found (`as_searched`), the rankings are fused, and the
result is weighed once, as a memory weighs its own. A router over one memory then answers as that memory does.

Which hits are linked only the peers know. How near a hit is to another one is what enough of its tellers say.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from quipu.memory.model import Fusion, Hit, RecallResponse
from quipu.memory.recall.hits import fitted
from quipu.router.ids import Known, told
from quipu.router.replicas import agreed
from quipu.search import fusion, hops

#: The member of a hit's `why` that tells the distance to the nearest linked hit.
HOP: Final = "hop"
_DISTANCES = range(1, 4)

#: By peer, and then by the router's id, in the peer's order.
Shown = Mapping[str, Mapping[str, Hit]]


@dataclass(frozen=True, slots=True)
class Near:
    """What is believed of a hit's links. Without a distance nothing is lifted."""

    distance: int | None = None
    supporting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What one peer tells of a hit's links: the nearest other hit's distance, and the hits, nearest first."""

    distance: int | None
    supporting: tuple[str, ...]


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


def near(claims: Iterable[Claim], members: Collection[str], needed: int) -> Near:
    """What at least so many tellers agree on: as near as that many say it is, and what that many name beside it.

    Only hits of the common ranking count, so nothing is lifted by what nobody else may see. Where the nearest one is
    not among them, that teller's distance is another hit's and says nothing.
    """
    distances: list[int] = []
    places: dict[str, list[int]] = {}
    for claim in claims:
        if claim.distance is not None and claim.supporting and claim.supporting[0] in members:
            distances.append(claim.distance)
        for place, id in enumerate(dict.fromkeys(claim.supporting)):
            if id in members:
                places.setdefault(id, []).append(place)
    believed = {id: sorted(said)[needed - 1] for id, said in places.items() if len(said) >= needed}
    supporting = sorted(believed, key=lambda id: (believed[id], id))[: hops.MAX_SUPPORTING]
    if not supporting or len(distances) < needed:
        return Near(None, tuple(supporting))
    return Near(sorted(distances)[needed - 1], tuple(supporting))


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
            Claim(
                hop(said), tuple(self.known.own(peer, id) or self._named(peer, id) for id in said.supporting)
            )
            for peer in place.backends
            if (said := self.shown[peer][place.id]).supporting
        ]
        if not claims:
            return hit, None
        link = near(claims, members, min(self.needed, len(place.backends)))
        why = {name: value for name, value in (hit.why or {}).items() if name != HOP}
        if link.distance is not None:
            why[HOP] = link.distance
        return hit.model_copy(update={"supporting": link.supporting, "why": why or None}), link.distance

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
