"""What callers ask for: memorywire's five operations and Quipu's reads, as values.

Field meanings are those of the memorywire contract; every field beyond v0 is optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.record import Link, MemoryType, PrivacyIntent, State, Tier
from quipu.model.store import MAIN, StoreScope
from quipu.model.value import Json, JsonObject


class Fusion(StrEnum):
    """How the rankings of several backends become one."""

    RRF = "rrf"
    MAX = "max"
    WEIGHTED = "weighted"


class MergeStrategy(StrEnum):
    """What the canonical record keeps of its duplicates."""

    KEEP_CANONICAL = "keep_canonical"
    MERGE_CONTENT = "merge_content"
    KEEP_HIGHEST_CONFIDENCE = "keep_highest_confidence"


class ExpireAction(StrEnum):
    """What happens to the records a policy matches."""

    FORGET = "forget"
    ARCHIVE = "archive"
    DEMOTE = "demote"


class UpdateStrategy(StrEnum):
    """How a remember with an id changes the record."""

    OVERWRITE = "overwrite"
    MERGE = "merge"
    APPEND = "append"


class Floor(StrEnum):
    """Named points of the relevance floor."""

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


class Redact(StrEnum):
    """What recall does with records labelled secret."""

    MASK = "mask"
    OMIT = "omit"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector computed by the caller: numbers, or little-endian float32 bytes."""

    model: str
    vector: Sequence[float] | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberRequest:
    """Keep a memory, or change one when `id` is given."""

    agent_id: str
    type: MemoryType
    content: str | JsonObject
    user_id: str | None = None
    metadata: JsonObject | None = None
    confidence: float | None = None
    source: str | None = None
    expires_at: int | None = None
    approval_required: bool = False
    store: str = MAIN
    session_id: str | None = None
    id: str | None = None
    update_strategy: UpdateStrategy = UpdateStrategy.OVERWRITE
    #: Change the record only if this is its current version (HTTP's If-Match).
    if_version: int | None = None
    importance: float | None = None
    idempotency_key: str | None = None
    privacy_intent: PrivacyIntent | None = None
    embedding: Embedding | None = None
    tags: tuple[str, ...] | None = None
    links: tuple[Link, ...] | None = None
    #: event_time, location, participants; sentiment, valence, arousal, emotion, target.
    details: JsonObject = field(default_factory=dict[str, Json])
    reasoning: str | None = None
    #: The workflow run and node that write; stamped into provenance and journal.
    run_id: str | None = None
    node_id: str | None = None
    #: The OpenWOP name of the memory it is written to, where the writer used one; told in the run's log.
    memory_ref: str | None = None
    #: Also name near-duplicates in `extensions`.
    finds_similar: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A remember request as an import brings it: it may carry its id and its times."""

    request: RememberRequest
    record_id: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    #: Archived records come back archived.
    state: State = State.LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Bring back what was forgotten, merged away, archived or demoted."""

    agent_id: str
    id: str
    reason: str | None = None
    approval_required: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Memories that are written together or not at all. It is the agent of the first of them that asks."""

    agent_id: str
    items: tuple[RememberRequest, ...]
    #: The record that each makes or changes, in the same order.
    record_ids: tuple[str, ...]
    #: The import that brings them; with it, when each record was made and last changed, and its state.
    import_id: str | None = None
    times: tuple[tuple[str, int | None, int | None, str], ...] = ()
    approval_required: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Let a procedure take a step, or play steps through from its beginning."""

    id: str
    #: None: of any agent in reach.
    agent_id: str | None = None
    trigger: str | None = None
    #: What its guards ask for; a fact that is missing is false.
    facts: Mapping[str, bool] = field(default_factory=dict[str, bool])
    #: Triggers from the initial state on, before `trigger`.
    replay: tuple[str, ...] | None = None
    #: Whether the new state is kept. Without a word: yes for a step, no for a replay.
    persist: bool | None = None
    if_version: int | None = None
    approval_required: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """Find the memories that answer a query."""

    agent_id: str
    query: str
    user_id: str | None = None
    k: int = 5
    types: tuple[MemoryType, ...] = ()
    hops: int = 0
    fusion: Fusion = Fusion.RRF
    filter: JsonObject | None = None
    fresher_than_days: int | None = None
    store: str | None = None
    session_id: str | None = None
    min_relevance: float | Floor = Floor.AUTO
    as_of: str | None = None
    max_tokens: int | None = None
    quorum_k: int = 1
    redact: Redact = Redact.MASK
    embedding: Embedding | None = None
    deadline_ms: int | None = None
    approval_required: bool = False
    #: Say for each hit why it is there.
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """Forget (restorable) or erase (for good) the named and the matching records."""

    agent_id: str
    user_id: str | None = None
    ids: tuple[str, ...] = ()
    filter: JsonObject | None = None
    hard_delete: bool = False
    reason: str | None = None
    approval_required: bool = False
    store: str | None = None
    dry_run: bool = False
    reasoning: str | None = None
    idempotency_key: str | None = None
    #: The import whose tombstones ask for it.
    import_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Collapse duplicates into one canonical record."""

    agent_id: str
    canonical: str
    duplicates: tuple[str, ...]
    strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL
    approval_required: bool = False
    store: str | None = None
    dry_run: bool = False
    reasoning: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePolicy:
    """Which records have had their time; keys are ANDed, at least one is set."""

    older_than_days: int | None = None
    type: MemoryType | None = None
    confidence_below: float | None = None
    no_recall_in_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """Apply an expiry policy."""

    agent_id: str
    policy: ExpirePolicy
    action: ExpireAction = ExpireAction.FORGET
    store: str | None = None
    user_id: str | None = None
    filter: JsonObject | None = None
    approval_required: bool = False
    reason: str | None = None
    dry_run: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """Page through records, newest first."""

    agent_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    store: str | None = None
    types: tuple[MemoryType, ...] = ()
    states: tuple[State, ...] = (State.LIVE,)
    filter: JsonObject | None = None
    as_of: str | None = None
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalsRequest:
    """Page through held writes, oldest first."""

    status: str | None = "pending"
    agent_id: str | None = None
    operation: str | None = None
    #: Who wrote it, and which rule holds it.
    writer: str | None = None
    rule: str | None = None
    #: What it came in with.
    import_id: str | None = None
    is_newest_first: bool = False
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStoreRequest:
    """Open a new memory store."""

    name: str
    scope: StoreScope = StoreScope.AGENT
    tier: Tier = Tier.LONG_TERM
    namespace: str | None = None
    description: str | None = None
