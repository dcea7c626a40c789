"""What is told about mirrors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Difference(StrEnum):
    """How a mirror differs from the ledger."""

    #: A record that should be there is not.
    MISSING = "missing"
    #: Its text is another than the ledger's.
    ALTERED = "altered"
    #: Something of ours is there that should not be: forgotten, or a second copy.
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class MirrorFault:
    """One difference."""

    kind: Difference
    record_id: str
    native_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorReport:
    """A mirror held against the ledger."""

    mirror: str
    #: Records that were compared, and things in its containers that are none of ours.
    checked: int
    foreign: int
    faults: tuple[MirrorFault, ...] = ()
    #: After mending: how many faults are no more.
    mended: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorNumbers:
    """A mirror over all tenants, for whoever watches."""

    name: str
    waiting: int
    dead: int
    oldest_ms: int
    drift: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """How a mirror stands."""

    name: str
    #: Where it is, without any credential; empty where this process does not know it.
    place: str
    is_written: bool
    is_filled: bool
    waiting: int
    dead: int
    #: How long the oldest effect has waited.
    oldest_ms: int | None
    succeeded_at: int | None
    error: str | None
    drift: int
    #: `closed`, `open` or `half_open`; None where this process does not know it.
    breaker: str | None
