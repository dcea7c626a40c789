"""A memory, in versions. One `Record` is one version; a change closes it and adds the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.value import Json, JsonObject


class MemoryType(StrEnum):
    """memorywire's four kinds of memory, pinned at the write."""

    SEMANTIC = "semantic"
    EPISODIC = "episodic"
    PROCEDURAL = "procedural"
    EMOTIONAL = "emotional"


class Tier(StrEnum):
    """Where in the life of a memory it stands: still in the window, or settled."""

    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"


class State(StrEnum):
    """What a reader may do with a version. A held write is a proposal, not a record in a state."""

    LIVE = "live"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"
    ERASED = "erased"


class Ending(StrEnum):
    """Why a version is no longer the current one."""

    REPLACED = "replaced"
    FORGOTTEN = "forgotten"
    MERGED = "merged"
    EXPIRED = "expired"


class Trust(StrEnum):
    """How far the writer is trusted, stamped by the server, never by the caller. Least trusted last."""

    OPERATOR = "operator"
    USER = "user"
    AGENT = "agent"
    EXTERNAL = "external"
    UNKNOWN = "unknown"


class Sensitivity(StrEnum):
    """How carefully a memory must be handled, in rising order."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"  # noqa: S105  a level of sensitivity, not a password


@dataclass(frozen=True, slots=True)
class Link:
    """A typed edge from the record that carries it to another."""

    to: str
    rel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a version came from."""

    #: The principal that wrote this version.
    written_by: str
    trust: Trust = Trust.UNKNOWN
    #: The run and the node of the workflow that wrote it.
    run_id: str | None = None
    node_id: str | None = None
    #: The entity the memory is about, or who said it.
    subject: str | None = None
    #: The import that brought it, so that the import can be undone as a whole.
    import_id: str | None = None
    captured_at: int | None = None
    receipt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyIntent:
    """What the writer wants done with the memory; an upper bound, never a widening."""

    retain: str | None = None
    share_with: tuple[str, ...] | None = None
    consent_id: str | None = None
    sensitivity: Sensitivity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One version of one memory."""

    tenant: str
    id: str
    #: 1 for the first; each change adds one.
    version: int
    store_id: str
    agent_id: str
    user_id: str | None = None
    session_id: str | None = None
    type: MemoryType
    tier: Tier = Tier.LONG_TERM
    state: State = State.LIVE
    #: The text; for a procedure, its machine as JSON text.
    content: str
    metadata: JsonObject = field(default_factory=dict[str, Json])
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    confidence: float = 1.0
    importance: float | None = None
    source: str | None = None
    provenance: Provenance
    #: The fields that only one type has: event_time, location, participants; sentiment, valence, …
    details: JsonObject = field(default_factory=dict[str, Json])
    privacy: PrivacyIntent | None = None
    created_at: int
    updated_at: int
    expires_at: int | None = None
    #: Journal positions: visible at snapshot s when born <= s < died. 0 until committed.
    born: int = 0
    died: int | None = None
    ending: Ending | None = None
    merged_into: str | None = None
    #: digest = sha256(salt ‖ canonical bytes of everything above `born`); the salt dies with an erasure.
    salt: bytes = b""
    digest: str = ""

    @property
    def is_emptied(self) -> bool:
        """Erased, or pruned by retention: only the tombstone is left."""
        return not self.salt

    @property
    def standing(self) -> State:
        """What became of this version: `state` is what it was born with and what its digest covers."""
        if self.is_emptied:
            return State.ERASED
        if self.ending not in (None, Ending.REPLACED):
            return State.FORGOTTEN
        return self.state

    def expired(self, now: int) -> bool:
        """Invisible from that very millisecond on."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known beside a record and is not versioned: use and standing."""

    id: str
    last_recalled_at: int | None = None
    recall_count: int = 0
    is_demoted: bool = False


#: The fields of one type only, and which type that is.
DETAIL_FIELDS: Mapping[str, MemoryType] = {
    "event_time": MemoryType.EPISODIC,
    "location": MemoryType.EPISODIC,
    "participants": MemoryType.EPISODIC,
    "sentiment": MemoryType.EMOTIONAL,
    "valence": MemoryType.EMOTIONAL,
    "arousal": MemoryType.EMOTIONAL,
    "emotion": MemoryType.EMOTIONAL,
    "target": MemoryType.EMOTIONAL,
}
