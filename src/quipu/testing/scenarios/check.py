"""How assertions are counted, what ends a scenario, and how much the large ones write."""

from collections.abc import Awaitable
from dataclasses import dataclass

from quipu.errors import QuipuError


class Unpromised(Exception):
    """What a scenario is about is not promised by the memory, or cannot be looked at from here."""


class Broken(AssertionError):
    """Something that a scenario says does not hold."""


class Check:
    """Counts what was asserted; the first thing that does not hold ends the scenario."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, holds: object, what: str) -> None:
        self.count += 1
        if not holds:
            raise Broken(what)

    def equal(self, found: object, expected: object, what: str) -> None:
        self(found == expected, f"{what}: expected {expected!r}, found {found!r}")

    async def refused(self, call: Awaitable[object], code: str, reason: str | None = None) -> QuipuError:
        """The call fails with this code (and reason); what it raised."""
        try:
            await call
        except QuipuError as error:
            self.equal(error.code, code, "the error's code")
            if reason is not None:
                self.equal(error.reason, reason, "the error's reason")
            return error
        raise Broken(f"expected {code}, and nothing was refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much the large scenarios write. What they say is the same at every size."""

    #: So many nearer neighbours stand between a query and its answer.
    crowd: int
    #: So many people share one memory, and each has so many memories in it.
    users: int
    each: int
    #: So many memories of one kind, for a large `k`.
    rows: int
    #: So many recalls in a row, to see that they do not write.
    recalls: int


FULL = Size(crowd=2_000, users=40, each=50, rows=1_500, recalls=300)
MODEST = Size(crowd=300, users=8, each=20, rows=1_050, recalls=50)
SMALL = Size(crowd=84, users=4, each=10, rows=260, recalls=10)
