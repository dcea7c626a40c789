"""Which votes of a ranking count, so that backends that lie move nothing while most are honest.

A rogue that invents ids has one voice for each. One that repeats ids which the honest ones return as well, and leaves
the right ones out, has the casting vote of every item under the plain sum. So some votes are left out:

- Three equals or more: the f best and f worst votes of an item, f = floor((N - 1) / 2), an absent vote counting as 0.
  While the rogues are a minority, what is left lies between two honest votes.
- Beside a trusted one (the ledger), two or more: everybody else's votes. What it found stands in its own order.
- What no counted vote stands behind is *outvoted*: it comes behind everything else, in the order of the plain sum, so
  that what one backend alone knows is still found where places are free, and where nobody agrees on anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: What an outvoted item's sum is worth: less than the smallest vote there is, whatever many backends agree on it.
OUTVOTED: Final = 0.001
_FEWEST_EQUALS: Final = 3


@dataclass(frozen=True, slots=True)
class Trim:
    """How votes are left out where so many take part."""

    voters: int
    #: The one whose own ranking is believed; None among equals.
    trusted: str | None = None

    @property
    def each_side(self) -> int:
        """How many of the best votes are left out, and how many of the worst."""
        return (self.voters - 1) // 2

    def score(self, shares: Mapping[str, float]) -> float:
        """What an item is worth, by whoever voted for it."""
        counted = self._counted(shares)
        return counted if counted > 0 else OUTVOTED * math.fsum(shares.values())

    def left_out(self, shares: Mapping[str, float]) -> tuple[str, ...]:
        """Who voted for it without being counted, by name."""
        if self.trusted is not None:
            kept = {self.trusted} if self.trusted in shares else set[str]()
        else:
            best_last = sorted(shares, key=lambda name: (shares[name], name))
            absent = self.voters - len(shares)
            first, last = self.each_side - absent, self.voters - self.each_side - absent
            kept = set(best_last[max(0, first) : max(0, last)])
        return tuple(sorted(shares.keys() - kept))

    def _counted(self, shares: Mapping[str, float]) -> float:
        if self.trusted is not None:
            return shares.get(self.trusted, 0.0)
        everybody = sorted([0.0] * (self.voters - len(shares)) + list(shares.values()))
        return math.fsum(everybody[self.each_side : self.voters - self.each_side])


def trim_of(voters: int, trusted: str | None) -> Trim | None:
    """How votes are left out; None where there is nobody to believe: one alone, or two equals."""
    if trusted is not None:
        return Trim(voters, trusted) if voters > 1 else None
    return Trim(voters) if voters >= _FEWEST_EQUALS else None
