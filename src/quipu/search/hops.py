"""What links are worth when memories are ranked, and how the best hits lead on to others.

Two things happen when a recall asks for hops. What is linked with other hits is lifted by its distance (`distances`,
`factor`); that never looks at the texts. And before that, the ledger's own ranking is widened, for questions whose
evidence is spread over several sessions:

1. A turn that has rare words in common with one of the best turns of another session gains (`led_on`).
2. Each further turn of one session loses a little, so that other sessions come up too.

Without hops the ranking is what it was. The weights are from a plateau of the development conversations.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quipu.model.search import SharedWord
from quipu.search.blending import Blended, by_score_and_id, standardised

MAX_SUPPORTING: Final = 10
#: So many of the best turns lead on to others.
LEADERS: Final = 5
#: A word that a larger share of the records has says nothing about what belongs together.
RARE: Final = 0.05
_WORDS: Final = 0.3
_SPREAD: Final = 0.3
#: A leader that is so far behind the best one counts e times less.
_BEHIND: Final = 2.0
#: Added to a length, so that a turn of three words is not drawn by one of them.
_SHORT: Final = 5


@dataclass(frozen=True, slots=True)
class LinkDistance:
    """The smallest number of links to another hit, and the hits that are near, nearest first."""

    distance: int
    supporting: tuple[str, ...]


def distances(
    neighbours: Mapping[str, frozenset[str]], members: Collection[str], hops: int
) -> dict[str, LinkDistance]:
    """For each member that has another member within `hops` links: how near, and which.

    A link counts in both directions. A way may lead through records that are no members.
    """
    graph: dict[str, set[str]] = {}
    for id, others in neighbours.items():
        graph.setdefault(id, set()).update(others)
        for other in others:
            graph.setdefault(other, set()).add(id)
    wanted = frozenset(members)
    near = {member: _supporting(graph, wanted, member, hops) for member in sorted(wanted)}
    return {
        member: LinkDistance(found[0][0], tuple(id for _, id in found[:MAX_SUPPORTING]))
        for member, found in near.items()
        if found
    }


def factor(distance: int) -> float:
    """What a neighbour at this distance multiplies a score by."""
    return 1 + 0.1 / (1 + distance)


def leaders(ranking: Sequence[Blended]) -> list[str]:
    """The best turns of a ranking; none where there are not two sessions to lead from and to."""
    turns = [item.candidate for item in ranking if item.candidate.session_id is not None]
    if len({turn.session_id for turn in turns}) < 2:
        return []
    return [turn.id for turn in turns[:LEADERS]]


def led_on(ranking: Sequence[Blended], leading: Sequence[str], shared: Sequence[SharedWord]) -> list[Blended]:
    """The ranking after the best turns have led on to other sessions. What is no turn keeps its score."""
    pulls = standardised(_pulls(ranking, leading, shared))
    pulled = sorted(
        (_moved(item, _WORDS * pull) for item, pull in zip(ranking, pulls, strict=True)), key=by_score_and_id
    )
    seen: Counter[str | None] = Counter()
    spread: list[Blended] = []
    for item in pulled:
        session = item.candidate.session_id
        spread.append(_moved(item, -_SPREAD * math.log1p(seen[session])))
        seen[session] += 1
    return sorted(spread, key=by_score_and_id)


def _supporting(
    graph: Mapping[str, set[str]], wanted: frozenset[str], start: str, hops: int
) -> list[tuple[int, str]]:
    """The other members within reach with their distance, nearest first, then by id; stops once enough are found."""
    found: list[tuple[int, str]] = []
    seen = {start}
    frontier = {start}
    for distance in range(1, hops + 1):
        frontier = {other for id in frontier for other in graph.get(id, ())} - seen
        seen |= frontier
        found.extend((distance, id) for id in sorted(frontier & wanted))
        if len(found) >= MAX_SUPPORTING or not frontier:
            break
    return found


def _pulls(
    ranking: Sequence[Blended], leading: Sequence[str], shared: Sequence[SharedWord]
) -> list[float | None]:
    """How strongly the rare words of leaders in other sessions draw each turn; None for what is no turn."""
    by_id = {item.candidate.id: item for item in ranking}
    best = by_id[leading[0]].score if leading else 0.0
    trust = {id: math.exp((by_id[id].score - best) / _BEHIND) for id in leading}
    drawn: dict[str, float] = {}
    for word in shared:
        meaning = -math.log(word.share)
        sources = [(by_id[id].candidate.session_id, trust[id]) for id in word.leaders if id in trust]
        for id in word.members & by_id.keys():
            own = by_id[id].candidate.session_id
            drawn[id] = drawn.get(id, 0.0) + meaning * max(
                (weight for session, weight in sources if session != own), default=0.0
            )
    return [
        None
        if item.candidate.session_id is None
        else drawn.get(item.candidate.id, 0.0) / math.sqrt(item.candidate.length + _SHORT)
        for item in ranking
    ]


def _moved(item: Blended, by: float) -> Blended:
    if item.candidate.session_id is None or not by:
        return item
    return replace(item, score=item.score + by, hops=item.hops + by)
