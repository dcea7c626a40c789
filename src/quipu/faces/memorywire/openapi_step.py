"""The step of a procedure, described."""

from __future__ import annotations

from quipu.faces.http.openapi import Node, problems
from quipu.faces.memorywire.openapi_examples import EXAMPLES
from quipu.faces.memorywire.openapi_parts import (
    AGENT,
    EXTENSIONS,
    ID,
    IF_MATCH,
    KEY,
    PREFER,
    described,
    sent,
    told,
)

_BODY: Node = {
    "type": "object",
    "properties": {
        "trigger": {"type": ["string", "null"], "description": "What happens now."},
        "facts": {
            "type": ["object", "null"],
            "additionalProperties": {"type": "boolean"},
            "description": "What guards ask for; a fact that is missing is false.",
        },
        "replay": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "description": "Triggers from the initial state on, before `trigger`.",
        },
        "persist": {
            "type": ["boolean", "null"],
            "description": "Whether the new state is kept. Absent: yes for a step, no for a replay.",
        },
        "approval_required": {"type": ["boolean", "null"], "description": "Hold the step for a person."},
        "idempotency_key": {"type": ["string", "null"], "maxLength": 128},
        "extensions": {"type": ["boolean", "null"]},
    },
    "additionalProperties": False,
}
_REPLY: Node = {
    "type": "object",
    "required": [
        "id",
        "version",
        "stored_at",
        "current",
        "available_triggers",
        "pending_approval",
        "approval_url",
    ],
    "properties": {
        "id": {"type": "string"},
        "version": {"type": "integer"},
        "stored_at": {"type": ["integer", "null"], "description": "Null where a step was only tried."},
        "current": {
            "type": "string",
            "description": "The state it is in; of a held step, still the old one.",
        },
        "available_triggers": {"type": "array", "items": {"type": "string"}},
        "pending_approval": {"type": "boolean"},
        "approval_url": {"type": ["string", "null"]},
        "extensions": {"type": "object"},
    },
    "additionalProperties": False,
}


def step() -> Node:
    """A step."""
    names = ("Quipu-Seq", "ETag", "Idempotency-Replayed", "Quipu-Ignored-Fields", "Preference-Applied")
    return described(
        "step",
        "records",
        "Let a procedure take a step",
        "Needs `memory:write`; `memory:read` is enough for a step that is not kept.",
        description="The new state is a new version, written like any other change, so rules may hold it. Guards "
        "are names of facts whose truth the request brings along. A trigger that does nothing in the state is a "
        "conflict that names those that do. `replay` starts from the initial state.",
        parameters=[ID, AGENT, EXTENSIONS, PREFER, KEY, IF_MATCH],
        requestBody=sent(_BODY, example=EXAMPLES["step"]),
        responses={
            "200": told("Where it stands.", _REPLY, *names),
            "202": told("Held: a person decides at `approval_url`.", _REPLY, *names),
        }
        | problems(400, 404, 405, 408, 409, 413, 415, 422),
    )
