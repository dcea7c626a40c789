"""A named container of memories inside a tenant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quipu.model.record import Tier

MAIN = "main"


class StoreScope(StrEnum):
    """Whom a store serves. A request that names a `team` or `global` store reaches all agents' records in it."""

    USER = "user"
    SESSION = "session"
    AGENT = "agent"
    TEAM = "team"
    GLOBAL = "global"

    @property
    def is_shared(self) -> bool:
        return self in (StoreScope.TEAM, StoreScope.GLOBAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One memory store. Every tenant has one named `main`."""

    tenant: str
    id: str
    name: str
    scope: StoreScope = StoreScope.AGENT
    tier: Tier = Tier.LONG_TERM
    namespace: str | None = None
    description: str | None = None
    created_at: int
