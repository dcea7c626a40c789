"""OpenWOP's spelling: camelCase and moments as texts, as its published v1 schemas have them. Names and shapes only."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from quipu.errors import Fault
from quipu.operation import invalid
from quipu.runs.messages import MemoryEntry, RunEventView, RunView
from quipu.runs.rules import ENTRY_BYTES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Fields that are called otherwise here than in our own operations, and those whose names within are the caller's.
_RENAMED = {
    "described_agent": "agent",
    "overlay": "runOptionsOverlay",
    "idempotency_key": "Idempotency-Key",
}
_OURS = {theirs: ours for ours, theirs in _RENAMED.items()}
_FREE = ("inputs", "configurable", "metadata", "variables")


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def stamp(at: int) -> str:
    """A moment: UTC, to the millisecond."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def moment(text: object, pointer: str) -> int:
    """A date-time in milliseconds."""
    if isinstance(text, str):
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is not None and found.tzinfo is not None:
            return (found - _EPOCH) // timedelta(milliseconds=1)
    raise invalid([Fault(pointer, "bad_value", "a date-time with its zone (RFC 3339)")])


# -- what is asked ----------------------------------------------------------------------------------------------------


def asked(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the known members that are there, in our spelling; what is not known is passed over."""
    return {
        _OURS.get(name) or snake(name): _CLOSED[name](body[name]) if name in _CLOSED else body[name]
        for name in names
        if body.get(name) is not None
    }


def _member(
    name: str, *known: str, read: Callable[[dict[str, Any]], None] | None = None
) -> Callable[[Any], Any]:
    """Reads an object that is a member of the body, closed. What is no object the model refuses."""

    def member(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        body: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]  the model checks the values
        closed(body, known, f"/{name}")
        found = asked(body, *known)
        if read is not None:
            read(found)
        return found

    return member


def _read_entry(entry: dict[str, Any]) -> None:
    if "expires_at" in entry:
        entry["expires_at"] = moment(entry["expires_at"], "/entry/expiresAt")


def _read_options(options: dict[str, Any]) -> None:
    """Those of profiles that are not advertised are known and passed over; there is one rank."""
    if options.pop("rank", "recency") != "recency":
        raise invalid([Fault("/options/rank", "bad_value", "recency")])
    options.pop("token_budget", None)
    options.pop("query", None)


_CLOSED: Mapping[str, Callable[[Any], Any]] = {
    "agent": _member(
        "agent", "agentId", "name", "modelClass", "memoryRef", "version", "channel", "sourceManifestId"
    ),
    "runOptionsOverlay": _member("runOptionsOverlay", "inputs", "configurable", "tags"),
    # Who writes may give neither an id nor a time.
    "entry": _member("entry", "content", "tags", "expiresAt", read=_read_entry),
    "options": _member("options", "limit", "tag", "tokenBudget", "query", "rank", read=_read_options),
}


def closed(given: Mapping[str, Any], known: Sequence[str], pointer: str) -> None:
    """Refuse an object with other members."""
    unknown = [name for name in given if name not in known]
    if unknown:
        accepted = f"there is no such field; there are {', '.join(known)}"
        shown = f"{pointer}/{unknown[0]}" if unknown[0].isidentifier() and len(unknown[0]) <= 32 else pointer
        raise invalid([Fault(shown, "unknown_field", accepted)])


def in_wire_words(faults: Sequence[Fault]) -> list[Fault]:
    """Faults with pointers to fields as the caller wrote them."""
    return [replace(fault, pointer=_pointer(fault.pointer)) for fault in faults]


def _pointer(pointer: str) -> str:
    """What callers name themselves, a variable or an input, stays as they wrote it."""
    parts = pointer.split("/")
    first = _RENAMED.get(parts[1], camel(parts[1])) if len(parts) > 1 else ""
    rest = parts[2:] if first in _FREE else [camel(part) for part in parts[2:]]
    return "/".join(parts[:1] + ([first] if len(parts) > 1 else []) + rest)


# -- what is answered -------------------------------------------------------------------------------------------------


def entry_body(entry: MemoryEntry) -> dict[str, Any]:
    """A MemoryEntry, closed."""
    body: dict[str, Any] = {
        "id": entry.id,
        "content": entry.content,
        "tags": list(entry.tags),
        "createdAt": stamp(entry.created_at),
    }
    return body | ({} if entry.expires_at is None else {"expiresAt": stamp(entry.expires_at)})


def event_body(run_id: str, event: RunEventView) -> dict[str, Any]:
    """The envelope of an event, closed."""
    payload = dict(event.payload)
    if "vendor.quipu" in payload:
        seen = payload["vendor.quipu"]["memorySnapshot"]
        payload["vendor.quipu"] = {"memorySnapshot": {"seq": seen["seq"], "at": stamp(seen["at"])}}
    body: dict[str, Any] = {
        "eventId": event.id,
        "runId": run_id,
        "type": event.type,
        "payload": payload,
        "timestamp": stamp(event.at),
        "sequence": event.sequence,
        "nodeId": event.node_id,
        "causationId": event.causation_id,
    }
    return {name: value for name, value in body.items() if value is not None}


def run_body(run: RunView, tenant: str) -> dict[str, Any]:
    """A RunSnapshot."""
    ours: dict[str, Any] = {
        "driver": run.driver,
        "lastSequence": run.last_sequence,
        "memorySnapshot": {"seq": run.snapshot, "at": stamp(run.snapshot_at)},
    }
    if run.mode is not None:
        ours["fork"] = {"sourceRunId": run.source_run_id, "fromSeq": run.from_seq, "mode": run.mode}
    if run.history_expired:
        ours["historyExpired"] = True
    agent = run.described_agent
    body: dict[str, Any] = {
        "runId": run.id,
        "workflowId": run.workflow_id,
        "status": run.status,
        "variables": run.variables,
        "owner": {"tenant": tenant, "principal": run.opened_by},
        "startedAt": stamp(run.created_at),
        "completedAt": None if run.ended_at is None else stamp(run.ended_at),
        "agent": None if agent is None else {camel(name): value for name, value in agent.items()},
        "error": None if run.error is None else run.error.to_dict(),
        "tags": list(run.tags),
        "metadata": run.metadata,
        "configurable": run.configurable,
        "nodeStates": run.node_states,
        "eventLogSchemaVersion": 1,
        "vendor.quipu": ours,
    }
    return {name: value for name, value in body.items() if value is not None}


def opened_body(run: RunView, fork: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What whoever opened a run is told."""
    place = f"/v1/runs/{quote(run.id, safe='')}"
    body = {"runId": run.id, "status": run.status, "eventsUrl": f"{place}/events", "statusUrl": place}
    return body | dict(fork or {})


def discovery_document(fixtures: Sequence[str]) -> dict[str, Any]:
    """Families stand at the root, and again under `capabilities` in the RFC's own form.

    `fixtures` are the workflows of the conformance mode; outside of it there are none, and none are named.
    """
    memory: dict[str, Any] = {
        "supported": True,
        "maxEntrySizeBytes": ENTRY_BYTES,
        "ttlSupported": True,
        "attribution": {"supported": True, "emitsWriteEvents": True},
    }
    found: dict[str, Any] = {
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {"clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0},
        "replay": {"supported": True, "modes": ["replay", "branch"]},
        "secrets": {"supported": True, "scopes": ["tenant"], "resolution": "host-managed"},
        # The published list of backends has this one name.
        "agents": {"supported": True, "memoryBackends": ["long-term"]},
        "memory": memory
        | {
            "writable": True,
            "search": {"supported": True, "modes": ["filter"]},
            "retention": {"ttl": True, "forget": True},
        },
        "capabilities": {
            "agents": {"memoryBackends": ["scratchpad", "conversation", "longTerm"]},
            "memory": memory,
        },
    }
    return found | ({"fixtures": list(fixtures)} if fixtures else {})
