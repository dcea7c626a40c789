"""Which votes of a ranking count, so that backends that lie move nothing while most are honest.

A rogue that invents ids has one voice for each. One that repeats ids which the honest ones return as well, and leaves
the right ones out, has the casting vote of every item under the plain sum. So some votes are left out:

- Three equals or more: all of an item's votes but the (f + 1)th best, f = floor((N - 1) / 2). So an item is worth what
  f + 1 of them grant it. While at most f lie, one of these is honest, and there are f + 1 honest ones: what counts lies
  between the best honest vote for the item and the (f + 1)th best honest one.
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
#: Of fewer equals nobody can tell who lies.
FEWEST_EQUALS: Final = 3


def liars(equals: int) -> int:
    """How many of so many may lie while most are honest."""
    return max(0, (equals - 1) // 2)


@dataclass(frozen=True, slots=True)
class Trim:
    """How votes are left out where so many take part."""

    voters: int
    #: The one whose own ranking is believed; None among equals.
    trusted: str | None = None

    def score(self, shares: Mapping[str, float]) -> float:
        """What an item is worth, by whoever voted for it."""
        counted = self._counted(shares)
        return counted if counted > 0 else OUTVOTED * math.fsum(shares.values())

    def left_out(self, shares: Mapping[str, float]) -> tuple[str, ...]:
        """Who voted for it without being counted, by name."""
        if self.trusted is not None:
            kept = {self.trusted} if self.trusted in shares else set[str]()
        else:
            best_first = sorted(shares, key=lambda name: (-shares[name], name))
            kept = set(best_first[liars(self.voters) : liars(self.voters) + 1])
        return tuple(sorted(shares.keys() - kept))

    def _counted(self, shares: Mapping[str, float]) -> float:
        if self.trusted is not None:
            return shares.get(self.trusted, 0.0)
        best_first = sorted(shares.values(), reverse=True)
        best = liars(self.voters)
        return best_first[best] if len(best_first) > best else 0.0


def trim_of(voters: int, trusted: str | None) -> Trim | None:
    """How votes are left out; None where there is nobody to believe: one alone, or two equals."""
    if trusted is not None:
        return Trim(voters, trusted) if voters > 1 else None
    return Trim(voters) if voters >= FEWEST_EQUALS else None
