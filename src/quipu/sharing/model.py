"""What sharing keeps: grants, what they showed, the logs of items, receipts, erasures, and what others lent. Rows only.

Rule 1: A grant ends once, by its time or by being taken back; whether it counts now is computed, never kept (`grants.status`).
Rule 2: Receipts and the entries of an item's log are numbered from 1 without gaps, and are never changed or removed.
Rule 3: Rows hold ids, hashes and counts. What somebody said stands in grants (their purpose) and in what others lent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from quipu.ledger.table import Table

#: What a grant is worth at a moment.
GrantStatus: TypeAlias = Literal["active", "expired", "revoked", "suspended"]
ReceiptType: TypeAlias = Literal["consent", "invocation", "deletion", "incident", "kill_switch"]
LogOp: TypeAlias = Literal["captured", "updated", "merged", "imported", "expired", "deleted"]
#: How far an erasure has come. It is never half done here: what is left is to tell others.
ErasureStep: TypeAlias = Literal["propagating", "done"]
CascadeStatus: TypeAlias = Literal["waiting", "done", "unreachable", "no_address", "told"]
#: What a grant is called in provenance tags.
GRANT_TAG = "grant:"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A grant as it was signed, and what became of it."""

    id: str
    #: H of the body without its signature: what tokens and receipts name it by.
    hash: str
    body: Mapping[str, Any]
    grantee: str
    registered_at: int
    expires_at: int
    revoked_at: int | None = None
    #: How many answers were given under it, and how many different items they showed.
    uses: int = 0
    disclosed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedItem:
    """An item that a grant has shown, and when it did so first."""

    grant_id: str
    record_id: str
    #: Its id on the wire, which an erased record no longer tells.
    item_id: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLogEntry:
    """An entry of the log of an item that was shared: what it was, as a hash."""

    record_id: str
    number: int
    #: The version of the record that it speaks of.
    version: int
    entry: Mapping[str, Any]
    #: H of the entry, which the next one names.
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A receipt in its place in the owner's chain."""

    number: int
    id: str
    type: ReceiptType
    #: The DID of whoever acted.
    agent: str
    grant_id: str | None = None
    at: int
    #: What was signed, with its signatures.
    body: Mapping[str, Any]
    #: H of the body, which the next one names.
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure, and how far it has come."""

    id: str
    step: ErasureStep
    requested_at: int
    completed_at: int | None = None
    #: The ids of the records, the digest of those that others know, reason and scope; never content.
    request: Mapping[str, Any]
    #: The Deletion Receipt, once there is one.
    receipt: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStep:
    """One grantee that was shown what was erased, and whether it knows: by an answer of its own, or by one of ours."""

    erasure_id: str
    grantee: str
    grant_id: str
    item_ids: tuple[str, ...]
    status: CascadeStatus = "waiting"
    attempts: int = 0
    next_at: int = 0
    #: What it answered.
    receipt: Mapping[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        return self.status in ("done", "told")


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowedItem:
    """An item that another host has lent to us: readable until it expires, never ours."""

    #: The DID of the host that showed it.
    source: str
    grant_id: str
    item_id: str
    item: Mapping[str, Any]
    receipt_id: str
    received_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowedGrant:
    """Which tenant holds something of a grant: who lent it asks for it by the grant alone. Kept under no tenant, and under
    its own."""

    grant_id: str
    #: The DID of the host that showed it.
    source: str
    owner: str
    #: How often something of it was asked back: an answer that was on its way meanwhile is not kept.
    returns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedProof:
    """A proof of a key that was shown, and until when it must not be shown again."""

    id: str
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOwner:
    """Whose grant an id is: tokens and the status are asked for by the id alone."""

    id: str
    owner: str


GRANTS = Table("share_grant", GrantRow, key=("id",))
SHARED_ITEMS = Table("shared_item", SharedItem, key=("grant_id", "record_id"))
ITEM_LOG = Table("item_log", ItemLogEntry, key=("record_id", "number"))
RECEIPTS = Table("receipt", Receipt, key=("number",))
ERASURES = Table("erasure", Erasure, key=("id",))
CASCADE_STEPS = Table("cascade_step", CascadeStep, key=("erasure_id", "grantee", "grant_id"))
#: Others name these items, and the journal holds no words of others.
BORROWED_ITEMS = Table(
    "borrowed_item", BorrowedItem, key=("source", "grant_id", "item_id"), is_journaled=False
)
USED_PROOFS = Table("used_proof", UsedProof, key=("id",), is_journaled=False)
#: Kept under no tenant, because which one it is, is what is asked.
GRANT_OWNERS = Table("share_grant_owner", GrantOwner, key=("id",), is_journaled=False)
BORROWED_GRANTS = Table(
    "borrowed_grant", BorrowedGrant, key=("grant_id", "source", "owner"), is_journaled=False
)
NO_TENANT = ""
TABLES: tuple[Table[Any], ...] = (
    *(GRANTS, SHARED_ITEMS, ITEM_LOG, RECEIPTS, ERASURES, CASCADE_STEPS, BORROWED_ITEMS),
    *(USED_PROOFS, GRANT_OWNERS, BORROWED_GRANTS),
)
