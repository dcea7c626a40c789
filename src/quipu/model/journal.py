"""The journal: everything that happened, as a chain of entries without content."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.value import Json, JsonObject

GENESIS = "0" * 64


class Op(StrEnum):
    """What an entry tells."""

    GENESIS = "genesis"
    REMEMBER = "remember"
    UPDATE = "update"
    RECALL = "recall"
    READ = "read"
    FORGET = "forget"
    ERASE = "erase"
    MERGE = "merge"
    EXPIRE = "expire"
    ARCHIVE = "archive"
    DEMOTE = "demote"
    RESTORE = "restore"
    SWEEP = "sweep"
    PRUNE = "prune"
    HOLD = "hold"
    DECIDE = "decide"
    APPROVE = "approve"
    CHANGE_RULES = "change_rules"
    CREATE_STORE = "create_store"
    DELETE_STORE = "delete_store"
    IMPORT = "import"
    EXPORT = "export"
    REEMBED = "reembed"
    ISSUE_TOKEN = "issue_token"
    END_TOKEN = "end_token"
    SUSPEND = "suspend"
    RESUME = "resume"
    KEEP_SECRET = "keep_secret"
    DROP_SECRET = "drop_secret"
    OPEN_RUN = "open_run"
    STEP_RUN = "step_run"
    EXPIRE_RUN = "expire_run"
    KEEP_REF = "keep_ref"
    ADD_WEBHOOK = "add_webhook"
    DROP_WEBHOOK = "drop_webhook"
    DISMISS_RULE = "dismiss_rule"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Mention:
    """A version that an entry speaks of."""

    id: str
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry before the ledger gives it its place in the chain."""

    op: Op
    actor: str
    at: int
    store: str | None = None
    agent: str | None = None
    run: str | None = None
    node: str | None = None
    detail: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One knot on the cord."""

    tenant: str
    seq: int
    at: int
    actor: str
    op: Op
    store: str | None
    agent: str | None
    run: str | None
    node: str | None
    records: tuple[Mention, ...]
    detail: JsonObject
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's chain. `horizon`: the oldest position that can still be read as of."""

    seq: int
    hash: str
    at: int
    horizon: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed statement of where the chain stood."""

    tenant: str
    seq: int
    hash: str
    at: int
    key_id: str
    signature: str
