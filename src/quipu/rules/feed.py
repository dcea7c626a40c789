"""What a reader is told of a journal entry.

1. An event speaks only of records that its reader may read now; without any of them it is not told.
2. Held and decided writes are told to reviewers of the agent, who may have limits of their own to see them.
3. Reads, exports and upkeep are no changes.
4. Of an erased record nobody knows any more whose it was, so a reader bound to one user does not hear of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quipu.model.feed import ChangedRecord, FeedEvent, Happening
from quipu.model.journal import Entry, Op
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record
from quipu.rules.reach import in_hand, may_share

_HAPPENINGS: Mapping[Op, Happening] = {
    Op.REMEMBER: Happening.REMEMBERED,
    Op.IMPORT: Happening.REMEMBERED,
    Op.UPDATE: Happening.UPDATED,
    Op.FORGET: Happening.FORGOTTEN,
    Op.EXPIRE: Happening.FORGOTTEN,
    Op.SWEEP: Happening.FORGOTTEN,
    Op.DELETE_STORE: Happening.FORGOTTEN,
    Op.ERASE: Happening.ERASED,
    Op.MERGE: Happening.MERGED,
    Op.ARCHIVE: Happening.ARCHIVED,
    Op.DEMOTE: Happening.DEMOTED,
    Op.RESTORE: Happening.RESTORED,
    Op.HOLD: Happening.HELD,
    Op.DECIDE: Happening.DECIDED,
}
_REVIEWED = frozenset({Happening.HELD, Happening.DECIDED})
#: Where an entry says what led to it.
_CAUSES = ("proposal", "import_id")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record lies, and who may hear of it."""

    tenant: str
    agent_id: str
    user_id: str | None
    store_id: str
    store: str | None
    type: MemoryType
    share_with: tuple[str, ...] | None

    @classmethod
    def of(cls, record: Record, store: str | None) -> Place:
        """Where this record lies; `store` is the name of its memory store."""
        return cls(
            tenant=record.tenant,
            agent_id=record.agent_id,
            user_id=record.user_id,
            store_id=record.store_id,
            store=store,
            type=record.type,
            share_with=None if record.privacy is None else record.privacy.share_with,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asked for."""

    agent_id: str | None = None
    store_id: str | None = None
    #: The store that was named is shared, so others' records in it are in reach as far as they may be shared.
    is_shared: bool = False
    types: frozenset[MemoryType] = frozenset()


def is_change(entry: Entry) -> bool:
    """Whether anybody may be told of this entry."""
    return entry.op in _HAPPENINGS


def told(entry: Entry, places: Mapping[str, Place], reader: Principal, wanted: Wanted) -> FeedEvent | None:
    """The entry as this reader may see it; None when there is nothing to tell."""
    happening = _HAPPENINGS.get(entry.op)
    if happening is None:
        return None
    if happening in _REVIEWED:
        return _event(entry, happening, entry.agent) if _may_review(entry, reader, wanted) else None
    seen = {
        mention: places[mention.id]
        for mention in entry.records
        if mention.id in places and _may_hear(places[mention.id], reader, wanted)
    }
    if not seen:
        return None
    return _event(
        entry,
        happening,
        _common(place.agent_id for place in seen.values()),
        _common(place.store for place in seen.values()),
        tuple(ChangedRecord(mention.id, mention.version, place.type) for mention, place in seen.items()),
    )


def _may_hear(place: Place, reader: Principal, wanted: Wanted) -> bool:
    if wanted.types and place.type not in wanted.types:
        return False
    # Of a store that is gone nobody knows any more whether it was in sight.
    if "*" not in reader.review_stores and (place.store is None or not reader.reviews_store(place.store)):
        return False
    if wanted.store_id is not None and place.store_id != wanted.store_id:
        return False
    is_asked_for = wanted.agent_id in (None, place.agent_id)
    if is_asked_for and in_hand(place, reader):
        return True
    return (
        wanted.is_shared
        and wanted.agent_id is not None
        and reader.may_act_for(wanted.agent_id)
        and reader.user_id in (None, place.user_id)
        and may_share(place.share_with, wanted.agent_id)
    )


def _may_review(entry: Entry, reader: Principal, wanted: Wanted) -> bool:
    """What waits has no store and no type yet, and only its proposal knows the user."""
    return (
        reader.may(Permission.REVIEW)
        and reader.user_id is None
        and entry.agent is not None
        and reader.may_act_for(entry.agent)
        and wanted.agent_id in (None, entry.agent)
        and wanted.store_id is None
        and not wanted.types
    )


def _event(
    entry: Entry,
    happening: Happening,
    agent_id: str | None,
    store: str | None = None,
    records: tuple[ChangedRecord, ...] = (),
) -> FeedEvent:
    causes = [entry.detail.get(name) for name in _CAUSES]
    cause = next((cause for cause in causes if isinstance(cause, str)), entry.run)
    return FeedEvent(
        seq=entry.seq,
        at=entry.at,
        op=happening,
        agent_id=agent_id,
        store=store,
        records=records,
        cause=cause,
    )


def _common(values: Iterable[str | None]) -> str | None:
    """The value that all have."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
