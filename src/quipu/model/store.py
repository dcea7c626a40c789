"""A named container of memories inside a tenant."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from quipu.model.record import Tier

#: Every tenant has a store of this name.
MAIN = "main"

#: Whom a store serves. A request that names a `team` or `global` store reaches all agents' records in it.
StoreScope: TypeAlias = Literal["user", "session", "agent", "team", "global"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One memory store."""

    id: str
    name: str
    scope: StoreScope = "agent"
    tier: Tier = "long_term"
    namespace: str | None = None
    description: str | None = None
    created_at: int

    @property
    def is_shared(self) -> bool:
        return self.scope in ("team", "global")
