"""What a router of replicas may show: nothing that a minority of them could have made up.

Of `listed` peers at most f = floor((listed - 1) / 2) lie while most are honest. What f + 1 of them show with one text has
an honest voucher among them. What fewer show is judged by what the router knows itself, its map of what it wrote:

- A memory that it wrote needs f + 1 vouchers, f of those that answered, or all that were given it and answered where
  these are fewer: one that only one peer took is shown by that one.
- What it did not write needs f + 1 vouchers, f of those that are listed, so that it helps nobody to keep others silent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quipu.memory.model import Fusion, Hit
from quipu.search.fusion import Fused

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


@dataclass(frozen=True, slots=True)
class Vouching:
    """Who may vouch in one recall."""

    listed: int
    answered: int
    #: Of ids that the router wrote: how many peers took each and answered now. All other ids it did not write.
    holders: Mapping[str, int] = field(default_factory=dict[str, int])

    def is_vouched(self, item: Fused) -> bool:
        """Whether somebody honest stands behind it, or the router itself."""
        if holders := self.holders.get(item.id, 0):
            return len(item.backends) >= min(liars(self.answered) + 1, holders)
        return len(item.backends) >= min(liars(self.listed) + 1, self.answered)

    def vouched(self, order: Iterable[Fused]) -> list[Fused]:
        return [item for item in order if self.is_vouched(item)]


def contradicting(hits: Mapping[str, Mapping[str, Hit]]) -> frozenset[tuple[str, str]]:
    """Which peer shows which id with another text than most do: it does not vote for what the others show."""
    versions: dict[str, list[tuple[int, str, str]]] = {}
    for peer, ranking in hits.items():
        for rank, (id, hit) in enumerate(ranking.items()):
            versions.setdefault(id, []).append((rank, peer, str(hit.content)))
    found: set[tuple[str, str]] = set()
    for id, told in versions.items():
        texts = [text for _, _, text in sorted(told)]
        text = texts[agreed(texts)]
        found |= {(peer, id) for _, peer, other in told if other != text}
    return frozenset(found)
