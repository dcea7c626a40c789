"""Runs, events and entries as the OpenWOP contract writes them: JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from quipu.errors import InvalidError
from quipu.model.record import Record
from quipu.model.runs import EventType, Happening, Run, RunEvent
from quipu.model.value import Json, JsonObject
from quipu.rules.grants_times import rfc3339

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Where the id of an entry is kept whose writer chose it: seeded entries only.
ENTRY_ID = "openwop_entry_id"


def stamp(at: int) -> str:
    """A moment as the contract writes it: UTC, to the millisecond."""
    return rfc3339(at, fraction=True)


def moment(text: object, pointer: str) -> int:
    """A date-time of the contract, in milliseconds."""
    if isinstance(text, str):
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is not None and found.tzinfo is not None:
            return (found - _EPOCH) // timedelta(milliseconds=1)
    raise InvalidError.at(
        pointer, "bad_value", "This is no date-time.", accepted=["a date-time with its zone (RFC 3339)"]
    )


def event_body(event: RunEvent) -> JsonObject:
    """The envelope of an event, closed."""
    body: dict[str, Json] = {
        "eventId": event.id,
        "runId": event.run_id,
        "type": event.type.value,
        "payload": event.payload,
        "timestamp": stamp(event.at),
        "sequence": event.sequence,
    }
    if event.node_id is not None:
        body["nodeId"] = event.node_id
    if event.causation_id is not None:
        body["causationId"] = event.causation_id
    return body


def entry_id(record: Record) -> str:
    """What the entry is called outside."""
    chosen = record.metadata.get(ENTRY_ID)
    return chosen if isinstance(chosen, str) else record.id


def entry_body(record: Record) -> JsonObject:
    """A MemoryEntry, closed."""
    body: dict[str, Json] = {
        "id": entry_id(record),
        "content": record.content,
        "tags": list(record.tags),
        "createdAt": stamp(record.created_at),
    }
    if record.expires_at is not None:
        body["expiresAt"] = stamp(record.expires_at)
    return body


def written(record: Record, memory_ref: str, node_id: str | None) -> Happening:
    """`memory.written`: identifiers and tags, never content. Erasing the record erases the tags, found by its id."""
    payload: dict[str, Json] = {"memoryRef": memory_ref, "memoryId": entry_id(record)}
    if node_id is not None:
        payload["nodeId"] = node_id
    if record.tags and entry_id(record) == record.id:
        payload["tags"] = list(record.tags)
    return Happening(type=EventType.MEMORY_WRITTEN, payload=payload, node_id=node_id)


def failure(code: str, message: str) -> JsonObject:
    """What a failed node or run says."""
    return {"error": {"code": code, "message": message}}


def run_body(run: Run, variables: JsonObject, node_states: JsonObject) -> JsonObject:
    """A RunSnapshot: the body of `GET /v1/runs/{id}`."""
    body: dict[str, Json] = {
        "runId": run.id,
        "workflowId": run.workflow_id,
        "status": run.status.value,
        "variables": variables,
        "owner": {"tenant": run.tenant, "principal": str(run.authority.get("name", ""))},
        "startedAt": stamp(run.created_at),
        "tags": list(run.tags),
        "metadata": run.metadata,
        "configurable": run.configurable,
        "nodeStates": node_states,
        "eventLogSchemaVersion": 1,
    }
    if run.agent is not None:
        body["agent"] = run.agent
    if run.ended_at is not None:
        body["completedAt"] = stamp(run.ended_at)
    if run.error is not None:
        body["error"] = {"code": run.error.code, "message": run.error.message}
    ours: dict[str, Json] = {"driver": run.driver.value, "lastSequence": run.last}
    if run.view is not None:
        ours["memorySnapshot"] = {"seq": run.view.seq, "at": stamp(run.view.at)}
    if run.source_run_id is not None and run.mode is not None:
        ours["fork"] = {"sourceRunId": run.source_run_id, "fromSeq": run.from_seq, "mode": run.mode.value}
    if run.is_expired:
        ours["historyExpired"] = True
    body["vendor.quipu"] = ours
    return body


def node_states(events: Sequence[RunEvent]) -> JsonObject:
    """Where each node stands, read off the log."""
    words = {
        EventType.NODE_STARTED: "running",
        EventType.NODE_COMPLETED: "completed",
        EventType.NODE_FAILED: "failed",
    }
    return {
        event.node_id: words[event.type]
        for event in events
        if event.node_id is not None and event.type in words
    }
