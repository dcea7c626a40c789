"""What the ledger knows of its mirrors: effects still to be carried to them, and where copies are.

An effect is intended in the transaction that commits it, carried out, and settled: a crash at any moment leaves the
intent, and carrying it out once more changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quipu.model.search import Scope
from quipu.ports.backend import Container


class CopyState(StrEnum):
    """What is known of a copy. `sending`: on its way, perhaps there. `deleted`: not found any more, but bytes may be
    left. `gone`: nothing is left, and whoever shows it again is not believed."""

    SENDING = "sending"
    KEPT = "kept"
    DELETED = "deleted"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A record's place in a mirror."""

    record_id: str
    container: Container
    version: int
    state: CopyState
    native_id: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A journal entry whose effect a mirror has not seen yet."""

    seq: int
    attempts: int
    #: When the entry was written.
    at: int
    record_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """An effect that failed, and when it is tried again."""

    seq: int
    attempts: int
    next_at: int
    error: str
    is_dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How effects went: the map is brought up to date before any intent ends, all in one transaction."""

    kept: Sequence[Mirrored] = ()
    #: Records of which nothing is left in the mirror.
    gone: Sequence[str] = ()
    done: Sequence[int] = ()
    retries: Sequence[Retry] = ()
    succeeded_at: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a mirror of a tenant stands."""

    name: str
    is_written: bool
    #: Whether what was there before the mirror has all been sent to it; until then, down to which record.
    is_filled: bool
    fill_below: str | None
    succeeded_at: int | None
    #: The reason of the last failure; None when the last effect succeeded.
    error: str | None
    drift: int
    waiting: int
    dead: int
    #: When the oldest entry that waits was written.
    oldest_at: int | None


class Outbox(Protocol):
    """Kept in the ledger, so that it is as durable as what it speaks of."""

    async def register(self, tenant: str, mirror: str, *, is_written: bool) -> None:
        """From now on every commit of the tenant intends an effect on this mirror, unless it is only read."""
        ...

    async def drop(self, tenant: str, mirror: str) -> None:
        """The mirror is no more: its intents and what it held are forgotten."""
        ...

    async def claim(self, tenant: str, mirror: str, holder: str, now: int, until: int) -> bool:
        """Be the only one who carries effects to it, until a moment; False where somebody else is."""
        ...

    async def intents(self, tenant: str, mirror: str, now: int, limit: int) -> Sequence[Intent]:
        """Those that are due, in their order."""
        ...

    async def revive(self, tenant: str, mirror: str) -> None:
        """All that wait, and all that were given up, are due now."""
        ...

    async def sending(self, tenant: str, mirror: str, copies: Sequence[Mirrored]) -> None:
        """Note, before the effect, that these may be there from now on."""
        ...

    async def settle(self, tenant: str, mirror: str, settlement: Settlement) -> None: ...

    async def mirrored(self, tenant: str, mirror: str, record_ids: Sequence[str]) -> Mapping[str, Mirrored]:
        """By record id, those of them that are known."""
        ...

    async def mirrored_as(
        self, tenant: str, mirror: str, native_ids: Sequence[str]
    ) -> Mapping[str, Mirrored]:
        """By native id, those of them that are or were ours."""
        ...

    async def elsewhere(self, tenant: str, mirror: str, native_ids: Sequence[str]) -> frozenset[str]:
        """Those of them that are or were another tenant's."""
        ...

    async def page(self, tenant: str, mirror: str, after: str, limit: int) -> Sequence[Mirrored]:
        """What is known of the mirror, by record id, behind one."""
        ...

    async def containers(self, scope: Scope, mirror: str, limit: int) -> Sequence[Container]:
        """Where copies of a scope are."""
        ...

    async def standings(self, tenant: str) -> Sequence[Standing]: ...

    async def note_drift(self, tenant: str, mirror: str, count: int) -> None: ...

    async def note_fill(self, tenant: str, mirror: str, below: str | None, *, is_filled: bool) -> None: ...
