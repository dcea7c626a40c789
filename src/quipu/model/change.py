"""What a ledger is asked to write: changes decided beforehand, applied all or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from quipu.model.access import KeptSecret, Token
from quipu.model.journal import Draft, Mention
from quipu.model.notices import Webhook
from quipu.model.record import Ending, Record
from quipu.model.runs import RunChange
from quipu.model.store import Store
from quipu.model.value import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Add a version. The version before it, if any, is closed as replaced."""

    record: Record
    #: The version the decision was based on; 0 when the record is new. Anything else now there is a conflict.
    expects: int = 0
    #: That version must still be the current one: one that was forgotten meanwhile is not brought back by a change.
    must_stand: bool = False
    #: What keyword search finds it by; None keeps it out of every search index.
    search_text: str | None = None
    vector: bytes | None = None
    #: The model that made the vector; a ledger that has moved to another one refuses it.
    model: str | None = None
    #: Take search terms and vector over from the version it follows (the text is the same).
    keeps_index: bool = False
    #: Also take away a standing demotion.
    lifts_demotion: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """End the current version without a successor."""

    record: Record
    ending: Ending
    merged_into: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erase:
    """Remove content, vectors, terms and salts of every version of one record, for good."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demote:
    """Let a record rank lower from now on; its version stays."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Note that these records were returned by a recall."""

    ids: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """Add a memory store; its name must be free."""

    store: Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStore:
    """Take a memory store away; it must hold no current record any more after this commit."""

    store_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Keep a held write aside until somebody decides."""

    proposal_id: str
    operation: str
    agent_id: str
    request: JsonObject
    held_by: tuple[str, ...]
    lapses_at: int | None
    record_id: str | None = None
    #: How many different people must say yes.
    approvals: int = 1
    #: Why it was held, in the words of the rule.
    because: str | None = None
    salt: bytes = b""
    #: Who wrote it, where that is not who commits this.
    writer: str | None = None
    #: What it is like, without its text; stays when the text goes.
    traits: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One of several has said yes, to the diff that `etag` names."""

    reviewer: str
    at: int
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Note that one more of several has said yes; it goes on waiting for the others."""

    proposal_id: str
    #: All that count, this one with them.
    given: tuple[Approval, ...]
    #: Those that had been given when this was decided; a conflict if there are others by now.
    former: tuple[Approval, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Close a proposal; deciding twice is a conflict. The staged content goes with it, unless it `keeps` it.

    `undoable`: it stays as long as the decision can be taken back; somebody must let it go then (`let_go`).
    """

    proposal_id: str
    approved: bool
    reviewer: str
    reason: str | None = None
    keeps: bool = False
    undoable: bool = False
    #: Whether it was decided as it was proposed, by a reviewer: anything else teaches nothing.
    teaches: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToken:
    """Let a credential in. Only the hash of its text is kept."""

    token: Token
    #: sha256 of the text, in hexadecimal.
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToken:
    """A credential ends at a moment: now when it is revoked, a little later when it is rotated."""

    token_id: str
    revoked_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Shut the tenant's door; None opens it again."""

    at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSecret:
    """Keep a value out of memory from now on."""

    secret: KeptSecret
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSecret:
    """Its value no longer needs to be kept out."""

    secret_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """The tenant's own rules, from now on, as JSON. What was checked against the former ones is refused."""

    rules: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWebhook:
    """Send notices there from now on."""

    webhook: Webhook
    #: The key that they are signed with.
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DropWebhook:
    """Send none there any more."""

    webhook_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss:
    """A suggested rule is not wanted."""

    suggestion_id: str


#: Changes that concern no record.
RegistryChange: TypeAlias = (
    AddToken | EndToken | Suspend | KeepSecret | DropSecret | KeepRules | AddWebhook | DropWebhook | Dismiss
)
Change: TypeAlias = (
    Put
    | Close
    | Erase
    | Demote
    | Touch
    | OpenStore
    | DropStore
    | Stage
    | Approve
    | Settle
    | RegistryChange
    | RunChange
)


#: Idempotency keys are honoured this long.
KEY_LIFE_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Makes a write happen once: the same key and body give the first answer again."""

    principal: str
    operation: str
    key: str
    #: Hash of the request, to tell a repetition from a different request under the same key.
    fingerprint: str
    #: The answer to give again.
    answer: JsonObject
    #: The records whose erasure also erases the answer.
    record_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One journal entry and the changes it tells of, in one transaction."""

    tenant: str
    draft: Draft
    changes: tuple[Change, ...] = ()
    #: Versions a read mentions; a write's mentions follow from its changes.
    mentions: tuple[Mention, ...] = ()
    once: Once | None = None
    #: Why, in the caller's words. Kept beside the journal and gone when a record it speaks of is erased.
    reason: str | None = None
    #: The position that an erasure was decided at: if what it erases was made into something since, or merged, its
    #: words would live on there, which is a conflict.
    erases_as_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Durable. `replayed` is the first answer of an idempotent write that had happened before."""

    seq: int
    at: int
    replayed: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A write that waits for a person."""

    id: str
    tenant: str
    operation: str
    agent_id: str
    request: JsonObject
    writer: str
    held_by: tuple[str, ...]
    status: str
    created_at: int
    lapses_at: int | None
    record_id: str | None = None
    reviewer: str | None = None
    reviewed_at: int | None = None
    reason: str | None = None
    #: How many different people must say yes, and who has.
    approvals: int = 1
    given: tuple[Approval, ...] = ()
    #: Why it was held, in the words of the rule.
    because: str | None = None
    #: Makes what is told of its content one that nobody can guess; gone once it was decided.
    salt: bytes = field(default=b"", repr=False)
    #: What it is like, without its text: store, type, source, sensitivity.
    traits: JsonObject = field(default_factory=dict[str, Json])
