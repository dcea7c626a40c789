"""How many memories a credential may be shown: reserved before anything is read."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from quipu.operation import Context


class Reservation(Protocol):
    """So many may be shown; what is not spent is given back."""

    @property
    def count(self) -> int: ...
    @property
    def is_cut(self) -> bool:
        """Whether less is left than was asked for."""
        ...

    def spend(self, count: int) -> None: ...


class RecallBudget(Protocol):
    def reserved(
        self, ctx: Context, agent_id: str | None, count: int
    ) -> AbstractAsyncContextManager[Reservation]:
        """Raises QuotaExceededError when nothing is left."""
        ...
