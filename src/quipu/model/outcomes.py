"""What callers get back. `extensions` holds what Quipu has to say beyond memorywire v0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from quipu.errors import QuipuError
from quipu.model.change import Proposal
from quipu.model.journal import Checkpoint, Entry
from quipu.model.operations import ExpireAction, Fusion, MergeStrategy
from quipu.model.record import MemoryType, Provenance, Record, Tier
from quipu.model.value import Json, JsonObject


def _no_extensions() -> dict[str, Json]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberResponse:
    """Stored, or held for a person (`pending_approval`)."""

    id: str
    stored_at: int
    stores: tuple[str, ...]
    pending_approval: bool = False
    approval_url: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)
    #: The first answer once more: the same key and the same request had come before.
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResponse:
    """Where a procedure stands, or would stand: a step that is only tried changes nothing."""

    id: str
    version: int
    stored_at: int | None
    current: str
    available_triggers: tuple[str, ...]
    pending_approval: bool = False
    approval_url: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)
    #: The first answer once more: the same key and the same request had come before.
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory that answers the query."""

    id: str
    type: MemoryType
    content: str | JsonObject
    score: float
    relevance: float
    rank: int
    metadata: JsonObject
    created_at: int
    updated_at: int
    supporting: tuple[str, ...]
    source_store: str
    provenance: Provenance
    source: str | None
    version: int
    agent_id: str
    user_id: str | None
    session_id: str | None
    store: str
    tier: Tier
    confidence: float
    importance: float | None
    tags: tuple[str, ...]
    expires_at: int | None
    stores: tuple[str, ...]
    details: JsonObject
    demoted: bool = False
    foreign: bool = False
    redacted: bool = False
    truncated: bool = False
    #: Made out to who asked, where the memory signs.
    signature: str | None = None
    #: With `explain`: what each leg of the search said.
    why: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResponse:
    """The hits, best first. Iterates and indexes as its hits."""

    results: tuple[Hit, ...]
    fusion_used: Fusion
    stores_queried: tuple[str, ...]
    latency_ms: int
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.results[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRow:
    """What one backend did."""

    store: str
    count: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResponse:
    """What was really removed."""

    forgotten_ids: tuple[str, ...]
    hard_delete: bool
    stores: tuple[ForgetRow, ...]
    pending_approval: bool = False
    approval_url: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)
    #: The first answer once more: the same key and the same request had come before.
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResponse:
    """How many duplicates really collapsed."""

    canonical: str
    merged_count: int
    strategy_used: MergeStrategy
    stores: tuple[str, ...]
    pending_approval: bool = False
    approval_url: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)
    #: The first answer once more: the same key and the same request had come before.
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResponse:
    """How many records the action changed."""

    matched_count: int
    action_taken: ExpireAction
    stores: tuple[str, ...]
    pending_approval: bool = False
    approval_url: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=_no_extensions)
    #: The first answer once more: the same key and the same request had come before.
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some records, and where the next page starts."""

    records: tuple[Record, ...]
    next_cursor: str | None
    #: Names of the stores the records lie in, by store id.
    store_names: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalPage:
    """Some held writes, and where the next page starts."""

    proposals: tuple[Proposal, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Version:
    """One version in a record's history, and why it came to its end or its being, where somebody said so."""

    record: Record
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that does not hold, and where."""

    kind: str
    detail: str
    seq: int | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of chain, digests, signatures and index found. `faults[0]` is the first, by position."""

    entries: int
    records: int
    checkpoints: int
    head_seq: int
    head_hash: str
    faults: tuple[Fault, ...]
    #: What could not be checked, and why: a missing key is not a forgery.
    unverifiable: tuple[str, ...] = ()
    #: The same as stable words: missing_key, unsigned_end, missing_records.
    reasons: tuple[str, ...] = ()
    last_checkpoint: Checkpoint | None = None

    @property
    def holds(self) -> bool:
        return not self.faults


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailPage:
    """Some entries of the journal, where the next page starts, and a signed statement of where the chain ends."""

    entries: tuple[Entry, ...]
    next_cursor: int | None
    head: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLine:
    """What became of one line of an import: stored, held for a person, or not taken."""

    line: int
    #: None where nothing was written: an error, or a dry run.
    id: str | None = None
    #: The id that the line asked for and did not get, because it was taken.
    other_id: str | None = None
    is_held: bool = False
    error: QuipuError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """How an import went."""

    import_id: str
    read: int
    stored: int
    held: int
    failed: int
    #: Line number and reason of each failed line (the first 1,000).
    errors: tuple[tuple[int, str], ...] = ()
