"""What a router of equals may show: nothing that those who lie could have made up by themselves.

Of `listed` peers at most f = floor((listed - 1) / 2) lie while most are honest. What f + 1 of them show with one text has
an honest voucher among them. What fewer show is judged by what the router knows itself, its map of what it wrote:

- A memory that it wrote needs f + 1 vouchers, f of those that answered, or all that were given it and answered where
  these are fewer: one that only one peer took is shown by that one.
- What it did not write needs f + 1 vouchers, f of those that are listed, so that it helps nobody to keep others silent.
- What a peer alone shows that has *contents of its own* is shown all the same, last and marked as foreign: nobody else
  can know it. This is the one place that is left to who lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quipu.model.operations import Fusion
from quipu.rules.fusion import Fused
from quipu.rules.fusion_trimmed import FEWEST_EQUALS, liars


def is_asked_for(listed: int, method: Fusion) -> bool:
    """Whether so many peers vouch for one another. Two cannot, and `max` and `weighted` believe what each says."""
    return method is Fusion.RRF and listed >= FEWEST_EQUALS


@dataclass(frozen=True, slots=True)
class Vouching:
    """Who may vouch in one recall."""

    listed: int
    answered: int
    #: Peers that hold memories which nobody else was given.
    own: frozenset[str] = frozenset()
    #: Of ids that the router wrote: how many peers took each and answered now. All other ids it did not write.
    holders: Mapping[str, int] = field(default_factory=dict[str, int])

    def is_vouched(self, item: Fused) -> bool:
        """Whether somebody honest stands behind it, or the router itself."""
        return len(item.backends) >= self._needed(item.id)

    def is_own(self, item: Fused) -> bool:
        """Whether a peer shows it that may know what nobody else does."""
        return not self.own.isdisjoint(item.backends)

    def _needed(self, id: str) -> int:
        if holders := self.holders.get(id, 0):
            return min(liars(self.answered) + 1, holders)
        return min(liars(self.listed) + 1, self.answered)


@dataclass(frozen=True, slots=True)
class Vouched:
    """A ranking that may be shown: what is vouched for, behind it what is foreign, and how many were left out."""

    known: tuple[Fused, ...]
    foreign: tuple[Fused, ...] = ()
    left_out: int = 0

    @property
    def order(self) -> tuple[Fused, ...]:
        """Everything, best first."""
        return self.known + self.foreign


def vouched(order: Iterable[Fused], vouching: Vouching | None) -> Vouched:
    """What of a common ranking may be shown; all of it where nobody can tell who lies (None)."""
    if vouching is None:
        return Vouched(tuple(order))
    known, rest = list[Fused](), list[Fused]()
    for item in order:
        (known if vouching.is_vouched(item) else rest).append(item)
    foreign = tuple(item for item in rest if vouching.is_own(item))
    return Vouched(tuple(known), foreign, len(rest) - len(foreign))
