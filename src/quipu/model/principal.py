"""Who asks."""

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
    #: The agent it acts for where a request names none.
    default_agent: str | None = None
    #: When set, the only user whose records it may touch.
    user_id: str | None = None
    #: What it sees and decides on: glob patterns of stores, and names of operations; `*` is any.
    review_stores: tuple[str, ...] = ("*",)
    review_operations: tuple[str, ...] = ("*",)
    trust: Trust = "agent"
    #: The id of the token that was shown; none for local use and OIDC.
    token_id: str | None = None
    #: The single person at an embedded file.
    is_local: bool = False
    #: Requests per minute and hits per hour; None leaves both to the server.
    rate: int | None = None
    recall_budget: int | None = None
    #: When the credential ends; a stream that it opened ends with it.
    expires_at: int | None = None

    def may(self, permission: Permission) -> bool:
        """An admin may everything within the tenant; running the server is a matter of its own.

        What needs an admin is shown and done without limits, so a credential that has limits is none.
        """
        is_admin = Permission.ADMIN in self.permissions and not self.has_review_limits
        if permission is Permission.ADMIN:
            return is_admin
        return permission in self.permissions or (is_admin and permission is not Permission.OPERATE)

    def may_act_for(self, agent_id: str) -> bool:
        return "*" in self.agents or any(fnmatchcase(agent_id, pattern) for pattern in self.agents)

    @property
    def has_review_limits(self) -> bool:
        """Whether there are stores that it does not see, or operations that it does not decide on."""
        return "*" not in self.review_stores or "*" not in self.review_operations

    @property
    def is_whole(self) -> bool:
        """Whether it reaches everything of its tenant: all agents, all users, all stores, all operations."""
        return "*" in self.agents and self.user_id is None and not self.has_review_limits

    def reaches_store(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.review_stores)

    def reviews_operation(self, operation: str) -> bool:
        return "*" in self.review_operations or operation in self.review_operations


def local(tenant: str = DEFAULT_TENANT, agent_id: str | None = None) -> Principal:
    """Embedded use: one process, one person, every permission."""
    return Principal(
        tenant=tenant,
        name="local",
        permissions=frozenset(Permission),
        default_agent=agent_id,
        trust="user",
        is_local=True,
    )
