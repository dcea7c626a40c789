"""What a host offers to those who keep it running and let others in."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.model.access import IssuedToken, KeptSecret, Role, Tenant, Token
    from quipu.model.journal import Checkpoint, Entry
    from quipu.model.mirrors import MirrorReport, MirrorStatus
    from quipu.model.outcomes import (
        Verification,
    )
    from quipu.model.principal import Permission, Principal


class Audit(Protocol):
    """The journal and its proof."""

    async def verify(
        self, principal: Principal, progress: Callable[[int, int], None] | None = None
    ) -> Verification: ...

    async def checkpoint(self, principal: Principal) -> Checkpoint: ...

    async def entries(self, principal: Principal, after: int = 0, limit: int = 100) -> Sequence[Entry]: ...

    async def keys(self, principal: Principal) -> Mapping[str, str]:
        """Public keys of the signatures, by id."""
        ...

    def exported(self, principal: Principal) -> AsyncIterator[tuple[str, str]]:
        """File names and lines of what can be verified anywhere."""
        ...


class Upkeep(Protocol):
    """What an operator does to the ledger as a whole."""

    async def backup(
        self, principal: Principal, target: Path, progress: Callable[[int, int], None] | None = None
    ) -> None: ...

    async def vacuum(self, principal: Principal, keep_history_days: int | None = None) -> int: ...

    async def statistics(self, principal: Principal) -> Mapping[str, int]: ...


class MirrorChecks(Protocol):
    """Copies in other stores, and how they stand."""

    async def status(self, principal: Principal) -> tuple[MirrorStatus, ...]: ...

    async def verify(self, principal: Principal, name: str) -> MirrorReport: ...

    async def resync(self, principal: Principal, name: str) -> MirrorReport: ...


class Tenancy(Protocol):
    """Who has a memory here."""

    async def create(self, principal: Principal, tenant_id: str) -> Tenant: ...
    async def list(self, principal: Principal) -> tuple[Tenant, ...]: ...
    async def suspend(self, principal: Principal, tenant_id: str) -> Tenant: ...
    async def resume(self, principal: Principal, tenant_id: str) -> Tenant: ...


class Tokens(Protocol):
    """Who may come in."""

    async def issue(
        self,
        principal: Principal,
        *,
        name: str,
        roles: Iterable[Role] = (),
        permissions: Iterable[Permission] | None = None,
        agents: Sequence[str] = ("*",),
        user_id: str | None = None,
        expires_at: int | None = None,
        rate: int | None = None,
        recall_budget: int | None = None,
        review_stores: Sequence[str] = ("*",),
        review_operations: Sequence[str] = ("*",),
        tenant: str | None = None,
    ) -> IssuedToken: ...

    async def list(self, principal: Principal, tenant: str | None = None) -> tuple[Token, ...]: ...
    async def revoke(self, principal: Principal, token_id: str, tenant: str | None = None) -> Token: ...

    async def rotate(
        self, principal: Principal, token_id: str, *, grace_ms: int = 0, tenant: str | None = None
    ) -> IssuedToken: ...


class Secrets(Protocol):
    """What must never be remembered."""

    async def register(
        self, principal: Principal, *, label: str, value: str, run_id: str | None = None
    ) -> KeptSecret: ...

    async def list(self, principal: Principal) -> tuple[KeptSecret, ...]: ...
    async def remove(self, principal: Principal, secret_id: str) -> None: ...
