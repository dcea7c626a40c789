"""Governance: rules that decide on writes, what they are asked about, and what a reviewer sees and says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.change import Proposal
from quipu.model.effects import Effect
from quipu.model.operations import MergeStrategy
from quipu.model.record import MemoryType, PrivacyIntent, Record, Sensitivity, Trust
from quipu.model.value import Json, JsonObject


class Origin(StrEnum):
    """Where a rule comes from."""

    OPERATOR = "operator"
    LEARNED = "learned"
    #: Comes with the product.
    SHIPPED = "shipped"


class Found(StrEnum):
    """Classes of text that a detector reports."""

    PII = "pii"
    SECRET = "secret"  # noqa: S105  a class of text, not a password
    INSTRUCTION = "instruction"


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Which writes a rule is about. Keys are ANDed, lists are ORed; None and an empty tuple ask for nothing."""

    operations: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    types: tuple[MemoryType, ...] = ()
    tags: tuple[str, ...] = ()
    #: Globs.
    agents: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    trust_at_most: Trust | None = None
    sensitivity_at_least: Sensitivity | None = None
    confidence_below: float | None = None
    #: Phrases, whatever their case.
    content_any: tuple[str, ...] = ()
    content_regex: str | None = None
    filter: JsonObject | None = None
    hard_delete: bool | None = None
    count_above: int | None = None
    #: Bytes of content.
    size_above: int | None = None
    imported: bool | None = None
    new_source: bool | None = None
    #: Whether the principal has `memory:admin`.
    admin: bool | None = None
    found: tuple[Found, ...] = ()
    conflicts: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the policy. The first that matches decides."""

    id: str
    when: When
    effect: Effect
    reason: str | None = None
    #: How many different people must say yes to what it holds.
    approvals: int = 1
    expires_at: int | None = None
    origin: Origin = Origin.OPERATOR


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a write, and by which rule; `caller` asked for it, `default` when nothing matched."""

    effect: Effect
    rule: str
    reason: str | None = None
    approvals: int = 1

    @property
    def by_rule(self) -> str | None:
        """The rule that decided, if it was one."""
        return None if self.rule in ("caller", "default") else self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFacts:
    """A write as rules see it. What is expensive to know is only there where a rule asks for it."""

    operation: str
    agent_id: str
    principal: str
    is_admin: bool = False
    #: What would be written; of a removal, what would go.
    records: tuple[Record, ...] = ()
    #: Names of the stores, by id.
    store_names: tuple[tuple[str, str], ...] = ()
    count: int = 1
    is_hard: bool = False
    #: An expiry that forgets: shown, and carried out, as forgetting what it matched.
    is_forgetting: bool = False
    is_imported: bool = False
    is_new_source: bool = False
    found: frozenset[Found] = frozenset()
    has_conflict: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that stayed (same), came (new), went (gone), or is left out because it stayed (skipped)."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """The text without the space behind it; a piece that is nothing but space shows itself."""
        return self.text.rstrip() or self.text

    @property
    def space(self) -> str:
        return self.text[len(self.word) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modified:
    """A record that would change: the fields that differ, as they are and as they would be."""

    id: str
    before: JsonObject
    after: JsonObject
    #: The text word by word; None where it stays, or is too long to compare.
    words: tuple[Piece, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A live record that the new text resembles."""

    id: str
    content: str
    similarity: float
    #: duplicate, similar or conflict.
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What a yes would change. Lists are cut; `counts` says how many there are of each that was."""

    added: tuple[JsonObject, ...] = ()
    removed: tuple[JsonObject, ...] = ()
    modified: tuple[Modified, ...] = ()
    related: tuple[Related, ...] = ()
    #: What others are merged into, where that stays as it is.
    stays: tuple[JsonObject, ...] = ()
    counts: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A held write as a reviewer sees it."""

    proposal: Proposal
    diff: Diff | None = None
    #: Names the diff; a decision that brings it is refused when the diff has changed since.
    etag: str | None = None
    #: Why it cannot be carried out as things stand.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What a reviewer changes before a yes; None leaves a field as it was proposed."""

    content: str | JsonObject | None = None
    type: MemoryType | None = None
    metadata: JsonObject | None = None
    tags: tuple[str, ...] | None = None
    confidence: float | None = None
    expires_at: int | None = None
    privacy_intent: PrivacyIntent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a reviewer says."""

    approved: bool
    reason: str | None = None
    #: The diff that was seen.
    etag: str | None = None
    edit: Edit | None = None
    #: A live record that the new text is merged into.
    merge_into: str | None = None
    strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL
    #: Records that are forgotten together with the yes.
    supersedes: tuple[str, ...] = ()
    #: What was proposed is kept for a minute, so that who decided can take it back; else it goes at once.
    undoable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What draft rules would have done to one past write."""

    seq: int
    at: int
    operation: str
    agent_id: str | None
    actor: str
    verdict: Verdict
