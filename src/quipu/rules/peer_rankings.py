"""What a router makes of the rankings that its peers send: links, confidence and demotion are weighed once, by the router.

A peer has weighed them already. Counted by places, that would be half a weight; counted by relevance, none at all. So
each ranking is taken back to what the search found (`as_searched`), the rankings are fused, and the result is weighed
as a memory weighs its own (`quipu.rules.fusion.final_score`). A router over one memory then answers as that memory does.

Which hits are linked only the peers know. How near a hit is to another one is what enough of its tellers say.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from quipu.model.outcomes import Hit
from quipu.rules import fusion, hops

#: The member of a hit's `why` that tells the distance to the nearest linked hit.
HOP = "hop"
_DISTANCES = range(1, 4)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one peer tells of a hit's links: the nearest other hit's distance, and the hits, nearest first."""

    distance: int | None
    supporting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Near:
    """What is believed of them. Without a distance nothing is lifted."""

    distance: int | None = None
    supporting: tuple[str, ...] = ()


def as_searched(ranking: Sequence[Hit]) -> list[Hit]:
    """A peer's ranking before it weighed anything. One that is not in the order of its scores is taken as it is."""
    if all(_is_plain(hit) for hit in ranking):
        return list(ranking)
    if not all(math.isfinite(hit.score) for hit in ranking):
        return list(ranking)
    if any(worse.score > better.score for better, worse in pairwise(ranking)):
        return list(ranking)
    return sorted(ranking, key=_found)


def weighed(score: float, hit: Hit, distance: int | None) -> float:
    """A fused score after links, confidence and demotion. A confidence that is none counts as the nearest that is."""
    sure = 0.0 if math.isnan(hit.confidence) else min(max(hit.confidence, 0.0), 1.0)
    lift = 1.0 if distance is None else hops.factor(distance)
    return fusion.final_score(score, lift, sure, hit.demoted)


def hop(hit: Hit) -> int | None:
    """How far the nearest linked hit is, if the peer tells."""
    told = (hit.why or {}).get(HOP)
    return told if isinstance(told, int) and told in _DISTANCES and told is not True else None


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
    believed = {id: sorted(told)[needed - 1] for id, told in places.items() if len(told) >= needed}
    supporting = sorted(believed, key=lambda id: (believed[id], id))[: hops.MAX_SUPPORTING]
    if not supporting or len(distances) < needed:
        return Near(None, tuple(supporting))
    return Near(sorted(distances)[needed - 1], tuple(supporting))


def _found(hit: Hit) -> tuple[float, float, str]:
    """Sorts by what the score was before; what was equal then has the same order whatever was weighed since."""
    return (-round(hit.score / weighed(1.0, hit, hop(hit)), fusion.TIE_DECIMALS), -hit.relevance, hit.id)


def _is_plain(hit: Hit) -> bool:
    """Whether the peer had nothing to weigh: most hits are sure, not demoted, and not linked."""
    return hit.confidence == 1.0 and not hit.demoted and not hit.why
