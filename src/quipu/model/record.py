"""A memory, in versions. One `Record` is one version; a change ends it and begins the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quipu.model.value import Json, JsonObject

#: memorywire's four kinds of memory, fixed at the first write.
MemoryType: TypeAlias = Literal["semantic", "episodic", "procedural", "emotional"]
Tier: TypeAlias = Literal["short_term", "long_term"]
#: What a reader may do with a version. A held write is a proposal, not a record in a state.
State: TypeAlias = Literal["live", "archived", "forgotten", "erased"]
#: Why a version is no longer the current one.
Ending: TypeAlias = Literal["replaced", "forgotten", "merged", "expired"]
#: How far the writer is trusted: stamped by the server, never by the caller.
Trust: TypeAlias = Literal["operator", "user", "agent", "external", "unknown"]
Sensitivity: TypeAlias = Literal["public", "internal", "confidential", "secret"]

#: Most trusted first.
TRUST_ORDER: tuple[Trust, ...] = ("operator", "user", "agent", "external", "unknown")
#: Least sensitive first.
SENSITIVITY_ORDER: tuple[Sensitivity, ...] = ("public", "internal", "confidential", "secret")


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
    trust: Trust = "unknown"
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

    id: str
    #: 1 for the first; each change adds one.
    version: int
    store_id: str
    agent_id: str
    user_id: str | None = None
    session_id: str | None = None
    type: MemoryType
    tier: Tier = "long_term"
    #: What the version was born with: live or archived. What became of it: `standing`.
    state: State = "live"
    #: The text; for a procedure, its machine as JSON text.
    content: str
    metadata: JsonObject = field(default_factory=dict[str, Json])
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    confidence: float = 1.0
    importance: float | None = None
    source: str | None = None
    provenance: Provenance
    #: The fields that only one type has: `DETAIL_FIELDS`.
    details: JsonObject = field(default_factory=dict[str, Json])
    privacy: PrivacyIntent | None = None
    created_at: int
    updated_at: int
    expires_at: int | None = None
    #: A named fact: a new value of the key supersedes the old one, which keeps its time of validity.
    key: str | None = None
    valid_from: int | None = None
    valid_until: int | None = None

    # What follows is the ledger's: the digest covers everything above.
    #: Journal positions: visible at position s when born <= s < died. 0 until committed.
    born: int = 0
    died: int | None = None
    ending: Ending | None = None
    merged_into: str | None = None
    #: digest = sha256(salt, canonical JSON of everything above `born`); the salt goes with an erasure.
    salt: bytes = b""
    digest: str = ""

    @property
    def is_emptied(self) -> bool:
        """Erased, or pruned by retention: only the tombstone is left."""
        return self.born > 0 and not self.salt

    @property
    def standing(self) -> State:
        """What became of this version."""
        if self.is_emptied:
            return "erased"
        if self.ending not in (None, "replaced"):
            return "forgotten"
        return self.state

    def is_expired(self, now: int) -> bool:
        """Invisible from that very millisecond on."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of a record and is not versioned: how it was used, and whether it is demoted."""

    id: str
    last_recalled_at: int | None = None
    recall_count: int = 0
    is_demoted: bool = False


#: The fields of one type only, and which type that is.
DETAIL_FIELDS: Mapping[str, MemoryType] = {
    "event_time": "episodic",
    "location": "episodic",
    "participants": "episodic",
    "sentiment": "emotional",
    "valence": "emotional",
    "arousal": "emotional",
    "emotion": "emotional",
    "target": "emotional",
}
