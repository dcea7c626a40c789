"""One operation of memory as an observer sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from quipu.model.record import Tier
from quipu.model.store import Store, StoreScope
from quipu.model.value import Json


class Action(StrEnum):
    """What was asked for."""

    REMEMBER = "remember"
    RECALL = "recall"
    FORGET = "forget"
    MERGE = "merge"
    EXPIRE = "expire"
    GET = "get"
    LIST = "list"
    RESTORE = "restore"
    CREATE_STORE = "create_store"
    DELETE_STORE = "delete_store"

    # An enumeration hashes by a function of its own; every operation is looked up by its action.
    __hash__ = str.__hash__


class Became(StrEnum):
    """What came of it."""

    CREATED = "created"
    UPDATED = "updated"
    MERGED = "merged"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ARCHIVED = "archived"
    DEMOTED = "demoted"
    PENDING = "pending_approval"
    NOT_FOUND = "not_found"


class Selector(StrEnum):
    """How a delete chose what goes."""

    ID = "id"
    IDS = "ids"
    FILTER = "filter"
    POLICY = "policy"
    SCOPE = "scope"


#: Not functions of their own: every operation would call each of them.
_no_records = cast("Callable[[], list[Mapping[str, Json]]]", list)
_no_others = cast("Callable[[], list[Observation]]", list)


@dataclass(slots=True, kw_only=True)
class Observation:
    """One operation of memory, filled in as it goes. What is not known stays None and is not shown."""

    action: Action
    #: None where it is not known: a client does not know its server's.
    tenant: str | None = None
    agent_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    store_id: str | None = None
    store_name: str | None = None
    #: The store's; of a delete that reaches no single store, that of the operation.
    scope: StoreScope | None = None
    tier: Tier | None = None
    #: What the store itself says it isolates.
    namespace: str | None = None
    record_id: str | None = None
    #: memorywire types: one of a record, several of a search.
    types: tuple[str, ...] = ()
    #: Of a search, the records returned; of anything else, those that were tried.
    count: int | None = None
    #: Relevance below which nothing was returned.
    threshold: float | None = None
    k: int | None = None
    top_score: float | None = None
    #: overwrite, merge or append, where a record changed in content.
    strategy: str | None = None
    #: Whether the caller asked for a new record.
    is_new: bool = False
    expires_at: int | None = None
    importance: float | None = None
    content_bytes: int | None = None
    became: Became | None = None
    selector: Selector | None = None
    backends_failed: int = 0
    #: An action that archives or demotes changes records; any other expiry deletes them.
    deletes: bool = True
    #: What a batch failed with, where every item failed; what is raised need not be told.
    error: BaseException | None = None
    #: The proposal that a held write became, by which its decision finds it again.
    proposal_id: str | None = None
    #: What was asked and what was kept or found, after redaction, and only where `wants_content`.
    query: str | None = None
    records: list[Mapping[str, Json]] = field(default_factory=_no_records)
    #: Takes secrets out of a name. While there is none, no name that a caller chose is shown.
    clean: Callable[[str], str] | None = None
    #: The same operation seen several times, once for each record or store: all are shown instead of this one.
    several: list[Observation] = field(default_factory=_no_others)
    #: Set by the observer: whether anybody looks, and may see content. What costs a look-up is left out otherwise.
    is_watched: bool = False
    wants_content: bool = False

    def within(self, store: Store) -> None:
        """It happens in this store."""
        self.store_id, self.store_name = store.id, store.name
        self.scope, self.tier, self.namespace = store.scope, store.tier, store.namespace
