"""Who is asking."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from quipu.model.record import Trust

DEFAULT_TENANT = "default"


class Permission(StrEnum):
    """What a credential may do."""

    READ = "memory:read"
    WRITE = "memory:write"
    DELETE = "memory:delete"
    REVIEW = "memory:review"
    ADMIN = "memory:admin"
    #: Tokens and secrets of the own tenant.
    MANAGE = "tenant:manage"
    #: Tenants, everybody's tokens, metrics, backups; nobody's memories.
    OPERATE = "server:operate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller. The tenant comes from here and from nowhere else."""

    tenant: str
    name: str
    permissions: frozenset[Permission]
    #: Glob patterns of the agents it may act for.
    agents: tuple[str, ...] = ("*",)
    #: What it may see and decide on as a reviewer: glob patterns of stores, and operations; `*` is any.
    review_stores: tuple[str, ...] = ("*",)
    review_operations: tuple[str, ...] = ("*",)
    #: When set, the only user whose records it may touch.
    user_id: str | None = None
    trust: Trust = Trust.AGENT
    #: The single person at an embedded file: may decide on their own proposals.
    is_local: bool = False
    #: Requests per minute and hits per hour; None leaves both to the server.
    rate: int | None = None
    recall_budget: int | None = None
    #: When the credential ends, in milliseconds; a stream that it opened ends with it.
    expires_at: int | None = None

    def may(self, permission: Permission) -> bool:
        """An admin may everything within the tenant; running the server is a matter of its own.

        What needs an admin is told and done without limits, so a credential that has limits is none.
        """
        if permission is Permission.ADMIN and self.is_limited:
            return False
        return permission in self.permissions or (
            Permission.ADMIN in self.permissions and permission is not Permission.OPERATE
        )

    def may_act_for(self, agent_id: str) -> bool:
        return "*" in self.agents or any(fnmatchcase(agent_id, pattern) for pattern in self.agents)

    @property
    def is_limited(self) -> bool:
        """Whether there are stores that it does not see, or operations that it does not decide on."""
        return "*" not in self.review_stores or "*" not in self.review_operations

    def reviews_store(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.review_stores)

    def reviews_operation(self, operation: str) -> bool:
        return "*" in self.review_operations or operation in self.review_operations


def local(tenant: str = DEFAULT_TENANT) -> Principal:
    """Embedded use: one process, one person, every scope."""
    return Principal(
        tenant=tenant, name="local", permissions=frozenset(Permission), trust=Trust.USER, is_local=True
    )
