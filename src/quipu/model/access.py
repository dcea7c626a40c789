"""Who may come in: tenants, the tokens that open them, and the secrets that are kept out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.principal import Permission


class Role(StrEnum):
    """What somebody is here to do; each stands for a set of permissions."""

    AGENT = "agent"
    REVIEWER = "reviewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The isolation boundary. While it is suspended none of its credentials is good."""

    id: str
    created_at: int
    suspended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A credential as it is kept: everything but its text, of which there is only a hash."""

    tenant: str
    id: str
    #: Whom the journal names. A rotated token keeps it.
    name: str
    #: The beginning of the text, to tell tokens apart by.
    prefix: str
    permissions: frozenset[Permission]
    created_at: int
    created_by: str
    agents: tuple[str, ...] = ("*",)
    #: Of a reviewer: the stores (glob patterns) and operations it decides on.
    review_stores: tuple[str, ...] = ("*",)
    review_operations: tuple[str, ...] = ("*",)
    user_id: str | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    #: Requests per minute; None: the server's own limit.
    rate: int | None = None
    #: Hits that recalls may return per hour; None: the server's own budget.
    recall_budget: int | None = None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its text, which is shown this once."""

    token: Token
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """A value that must never be remembered. The value itself is sealed and never shown again."""

    tenant: str
    id: str
    #: What stands in its place: the marker's label.
    label: str
    created_at: int
    created_by: str
    #: Only kept out of what this run writes; None: out of everything.
    run_id: str | None = None
