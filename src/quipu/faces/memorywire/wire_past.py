"""What has been: versions of a record, entries of the journal, events of the change feed."""

from __future__ import annotations

from dataclasses import replace

from quipu.faces.memorywire.wire_hits import plain
from quipu.faces.memorywire.wire_shown import record_body
from quipu.model.feed import FeedEvent
from quipu.model.journal import Checkpoint, Entry
from quipu.model.outcomes import Version
from quipu.model.record import Ending, Record, State
from quipu.model.value import Json
from quipu.rules import chain


def shown(record: Record) -> Record:
    """The version as a reader of its history sees it: one that was forgotten says so."""
    is_gone = record.ending not in (None, Ending.REPLACED)
    return replace(record, state=State.FORGOTTEN) if is_gone else record


def version_body(version: Version, store_name: str) -> dict[str, Json]:
    """One version of a history."""
    record = version.record
    body: dict[str, Json] = {
        "version": record.version,
        "born": record.born,
        "died": record.died,
        "ending": None if record.ending is None else record.ending.value,
        "merged_into": record.merged_into,
        "reason": version.reason,
        "erased": True if record.is_emptied else None,
        "record": None if record.is_emptied else record_body(shown(record), store_name),
    }
    return {name: value for name, value in body.items() if value is not None or name == "died"}


def entry_body(entry: Entry) -> dict[str, Json]:
    """An entry of the journal, with everything that its hash covers."""
    return {**{name: plain(value) for name, value in chain.entry_body(entry).items()}, "hash": entry.hash}


def head_body(head: Checkpoint) -> dict[str, Json]:
    """A signed statement of where the chain ends."""
    return {
        **chain.checkpoint_body(head),
        "key_id": head.key_id,
        "signature": head.signature,
    }


def event_body(event: FeedEvent) -> dict[str, Json]:
    """One event of the change feed."""
    return {
        "seq": event.seq,
        "at": event.at,
        "op": event.op.value,
        "agent_id": event.agent_id,
        "store": event.store,
        "records": [{"id": row.id, "version": row.version, "type": row.type.value} for row in event.records],
        "cause": event.cause,
    }
