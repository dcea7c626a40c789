"""What was shown to whom, and what was erased: log entries, receipts, erasures, and what others have lent us."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quipu.model.change import Once
from quipu.model.grants import KeptGrant
from quipu.model.value import JsonObject


class LogKind(StrEnum):
    """The two logs of an item (F4): what it was, and who saw it."""

    STATE = "state"
    DISCLOSED = "disclosed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One entry of an item's log, and the version of the record that it speaks of."""

    record_id: str
    log: LogKind
    seq: int
    version: int
    entry: JsonObject = field(repr=False)
    hash: str
    #: The entry as it was hashed, where it was just made: it need not be spelt a second time to be written.
    spelt: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReceipt:
    """A receipt in its place in the chain. `body` is what was signed, with its signatures."""

    seq: int
    id: str
    type: str
    agent: str
    grant_id: str | None
    at: int
    body: JsonObject = field(repr=False)
    hash: str
    #: The body as it was hashed, where it was just made.
    spelt: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last receipt of a chain: its place, and its hash."""

    seq: int = 0
    hash: str = "genesis"


class ErasureStep(StrEnum):
    """How far a deletion has come (9.3). What is `accepted` is done again after a crash, from its beginning."""

    ACCEPTED = "accepted"
    PROPAGATING = "propagating"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A request to delete, and how far it has come."""

    tenant: str
    id: str
    step: ErasureStep
    requested_at: int
    completed_at: int | None = None
    #: Record ids, reason, scope; never content.
    request: JsonObject
    #: The Deletion Receipt, once there is one.
    receipt: JsonObject | None = None


class CascadeStatus(StrEnum):
    """Whether a grantee has been reached."""

    WAITING = "waiting"
    DONE = "done"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStep:
    """One grantee that holds what was erased."""

    erasure_id: str
    grantee: str
    grant_id: str
    item_ids: tuple[str, ...]
    status: CascadeStatus = CascadeStatus.WAITING
    attempts: int = 0
    next_at: int = 0
    receipt: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldItem:
    """An item that another host has lent to us: readable until it expires, never ours."""

    tenant: str
    #: The DID of the host that disclosed it.
    source: str
    grant_id: str
    item_id: str
    item: JsonObject = field(repr=False)
    receipt_id: str
    received_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand in the moment in which something is decided about lending."""

    end: ChainEnd
    grant: KeptGrant | None = None
    #: Those of the wanted records that the grant has shown already.
    disclosed: frozenset[str] = frozenset()
    #: The last line of each wanted record's logs.
    tails: dict[tuple[str, LogKind], LogLine] = field(default_factory=dict[tuple[str, LogKind], LogLine])
    #: The first line of each wanted record's state log.
    captures: dict[str, LogLine] = field(default_factory=dict[str, LogLine])
    #: The last position at which a record of the owner's changed, and the model and length of their vectors.
    changed: int = 0
    space: tuple[str, int] | None = None
    #: Whether the owner is shut out.
    is_suspended: bool = False
    #: Those of the wanted names that were used before.
    replayed: frozenset[str] = frozenset()
    #: What was answered before under the key that was asked about.
    answered: JsonObject | None = None
    #: The erasure that was asked about.
    erasure: Erasure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What has to be known before something can be decided."""

    grant_id: str | None = None
    record_ids: tuple[str, ...] = ()
    #: What is good once: a proof, the id of a request.
    once: tuple[str, ...] = ()
    #: The caller's key of a request that is to happen once; ConflictError where it was another request's.
    key: Once | None = None
    erasure_id: str | None = None
    now: int = 0


@dataclass(slots=True, kw_only=True)
class Writes:
    """What a decision leaves behind, all of it or nothing."""

    #: Grants as they stand from now on.
    grants: list[KeptGrant] = field(default_factory=list[KeptGrant])
    #: Records that the grant shows for the first time.
    shown: list[str] = field(default_factory=list[str])
    lines: list[LogLine] = field(default_factory=list[LogLine])
    receipts: list[KeptReceipt] = field(default_factory=list[KeptReceipt])
    erasure: Erasure | None = None
    steps: list[CascadeStep] = field(default_factory=list[CascadeStep])
    #: Keep what is good once until then.
    once_until: int | None = None
    #: The answer to give again under its key, and since when it counts; a time long past lets go of the key.
    kept: Once | None = None
    kept_at: int = 0
    #: What the decision answers.
    answer: Any = None
