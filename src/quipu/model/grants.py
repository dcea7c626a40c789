"""Lending memory: what one owner allows somebody outside to read, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from quipu.model.value import Json, JsonObject

QUERY = "memory.query"
EMBEDDINGS = "memory.embeddings"
EXPORT = "memory.export"


class GrantStatus(StrEnum):
    """What a grant is worth now. `expired` is never stored: the clock says it."""

    ACTIVE = "active"
    REVOKED = "revoked"
    EXPIRED = "expired"
    SUSPENDED = "suspended"


class Binding(StrEnum):
    """What a token must come with: a proof of the grantee's key, or nothing."""

    DPOP = "dpop"
    BEARER = "bearer"


class TextMode(StrEnum):
    """What becomes of free text that no structure stands beside, below level 4 (7.4)."""

    OMIT = "omit"
    BUILTIN = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFilter:
    """Which items are meant: all that is given must hold; inside a list one is enough."""

    subject_entity_ids: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    captured_after: int | None = None
    captured_before: int | None = None
    labels_any: frozenset[str] | None = None
    labels_all: frozenset[str] | None = None
    labels_none: frozenset[str] | None = None
    min_confidence: float | None = None
    scope_ids: frozenset[str] | None = None
    as_of: int | None = None

    @property
    def labels(self) -> frozenset[str]:
        """Labels that the one who wrote the filter names, and so knows."""
        return (self.labels_any or frozenset()) | (self.labels_all or frozenset())


@dataclass(frozen=True, slots=True)
class AskedTrust:
    """How far a grantee asks to be trusted, at most, and the credentials it shows for it: type and text."""

    level: int | None = None
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What came of it: the level asked for, how far good evidence reaches, and what became of each piece."""

    requested: int | None = None
    vouched: int = 0
    #: When the evidence that reaches so far ends; None where there is none.
    vouched_until: int | None = None
    told: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A signed permission, read once into what it says. `body` is the grant as it was signed."""

    id: str
    #: The owner's DID and the scope it lends from.
    granter: str
    scope_id: str
    grantee: str
    purpose: str
    filter: ItemFilter
    max_items: int
    expires_at: int
    profile: str
    trust_level: int | None = None
    lawful_basis: str = "consent"
    scopes: frozenset[str] = frozenset({QUERY})
    binding: Binding = Binding.DPOP
    revocation_endpoint: str | None = None
    body: JsonObject = field(repr=False)
    #: "sha256:" and the digest of the body without its signature.
    hash: str
    #: What the grantee asks for and shows with this request, beyond the grant.
    trust: Trust | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGrant:
    """A grant as the ledger keeps it; or a request for one, which nobody has signed."""

    #: What the ids of requests begin with.
    REQUEST: ClassVar[str] = "mrq_"

    tenant: str
    id: str
    body: JsonObject = field(repr=False)
    hash: str
    grantee: str
    status: GrantStatus = GrantStatus.ACTIVE
    registered_at: int
    expires_at: int
    revoked_at: int | None = None
    #: How many answers were given under it, and how many different items they showed.
    uses: int = 0
    disclosed: int = 0

    @property
    def is_request(self) -> bool:
        """Whether it was only asked for, and opens nothing."""
        return self.id.startswith(self.REQUEST)

    def standing(self, now: int) -> GrantStatus:
        """What it is worth at a moment: from `expires_at` on nothing."""
        if self.status is GrantStatus.ACTIVE and now >= self.expires_at:
            return GrantStatus.EXPIRED
        return self.status


class TaskState(StrEnum):
    """How a request for access or other long work stands, in OAP's words."""

    SUBMITTED = "submitted"
    ACCEPTED = "accepted"
    WORKING = "working"
    AWAITING_INPUT = "awaiting_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStep:
    """One line of how a task stood. Lines are added and never changed."""

    tenant: str
    task_id: str
    #: From one.
    number: int
    state: TaskState
    at: int
    detail: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """What somebody outside asks an owner to be lent, and what became of it."""

    tenant: str
    id: str
    #: The grant as its asker wants it.
    draft: JsonObject = field(repr=False)
    grantee: str
    asked_at: int
    lapses_at: int
    state: TaskState
    grant: KeptGrant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """Somebody outside who has shown a good token: the owner's tenant, the grant, and what the token allows."""

    tenant: str
    grant: Grant
    kept: KeptGrant
    scopes: frozenset[str]
    #: What of the request is good once and not used up yet: its proof, its id, its signature (D23).
    once: tuple[str, ...] = ()
    token: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query under a grant."""

    text: str = ""
    max_results: int = 20
    include_embeddings: bool = False
    include_proofs: bool = False
    kinds: frozenset[str] | None = None
    filter: ItemFilter | None = None
    min_score: float = 0.0
    as_of: int | None = None
    cursor: str | None = None
    trust: AskedTrust | None = None
    body: JsonObject = field(repr=False)
