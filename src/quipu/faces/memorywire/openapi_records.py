"""Records by their ids, many of them in and out, and the change feed, described."""

from __future__ import annotations

from quipu.faces.http.openapi import Node, problems
from quipu.faces.memorywire.openapi_examples import EXAMPLES, IMPORT_LINES
from quipu.faces.memorywire.openapi_parts import (
    AGENT,
    AS_OF,
    EXTENSIONS,
    ID,
    NDJSON,
    PREFER,
    STORE,
    TYPES,
    described,
    header,
    query,
    records_schema,
    ref,
    sent,
    told,
)


def bringing_in() -> Node:
    """The import."""
    kinds = ("operations/remember", *(f"types/{kind}" for kind in TYPES["items"]["enum"]))
    return described(
        "import",
        "records",
        "Bring in many memories",
        "memory:write",
        description="A remember request per line, or a record as an export writes it; gzip is accepted and there is "
        "no limit on the whole. Lines that carry `id`, `created_at` or `updated_at` need `memory:admin`; "
        "an id is kept if it is free. Every 500 lines are one transaction. Answers come as the work "
        "goes on and end with a summary.",
        parameters=[
            query("dry_run", "Only say what would be done.", {"type": "boolean", "default": False}),
            query("on_error", "What a bad line does.", {"enum": ["continue", "stop"], "default": "continue"}),
            query("store", "The memory store for lines that name none."),
        ],
        requestBody=sent({"anyOf": [ref(kind) for kind in kinds]}, NDJSON, IMPORT_LINES),
        responses={
            "200": told(
                "What became of each line, as lines of JSON.",
                ref("operations/import.response"),
                media_type=NDJSON,
            )
        }
        | problems(400, 405, 415),
    )


def export() -> Node:
    """The export."""
    return described(
        "export",
        "records",
        "Take memories out",
        "memory:admin",
        description="Records as lines of JSON, which an import takes back.",
        parameters=[
            AGENT,
            query("user_id", "Only this user's."),
            query("filter", "A filter, as JSON text."),
            query(
                "state",
                "In these states. Absent: live and archived.",
                {"type": "array", "items": {"enum": ["live", "archived", "forgotten"]}},
                explode=False,
            ),
            query("types", "Only these kinds.", TYPES, explode=False),
            AS_OF,
            STORE,
        ],
        responses={"200": told("The records.", records_schema(), media_type=NDJSON)}
        | problems(400, 404, 405),
    )


def changes() -> Node:
    """The change feed."""
    return described(
        "changes",
        "changes",
        "Follow what changes",
        "memory:read",
        description="Server-sent events; each one's `id` is its journal position, and its data tells which records "
        "changed, never their content. `held` and `decided` are told to those with `memory:review`. "
        "The stream ends with the credential; who comes back with `Last-Event-ID` misses nothing.",
        parameters=[
            AGENT,
            STORE,
            query("types", "Only these kinds of memory.", TYPES, explode=False),
            query("since", "Begin behind this position. Absent: now.", {"type": "integer", "minimum": 0}),
            header("Last-Event-ID", "The last event that was seen; comes before `since`."),
        ],
        responses={"200": told("Events.", ref("change"), media_type="text/event-stream")}
        | problems(400, 404, 405),
    )


def record() -> Node:
    """A record by its id."""
    return described(
        "record",
        "records",
        "One record",
        "memory:read",
        parameters=[ID, AGENT, AS_OF],
        responses={"200": told("The record.", records_schema(), "ETag")} | problems(400, 404, 405),
    )


def history() -> Node:
    """Its versions."""
    return described(
        "history",
        "records",
        "All versions of a record",
        "memory:read",
        parameters=[ID, AGENT],
        responses={"200": told("Its versions.", ref("history"))} | problems(400, 404, 405),
    )


def restore() -> Node:
    """Its return."""
    body: Node = {
        "type": "object",
        "properties": {"reason": {"type": ["string", "null"], "description": "Why."}},
        "additionalProperties": False,
    }
    return described(
        "restore",
        "records",
        "Bring a record back",
        "memory:write",
        description="What was forgotten, merged away, archived or demoted; not what was erased. It needs no key: "
        "what is back already is not brought back again, which is told as a conflict, `not_forgotten`.",
        parameters=[ID, AGENT, EXTENSIONS, PREFER],
        requestBody=sent(body, example=EXAMPLES["restore"], required=False),
        responses={
            "200": told("It is back.", ref("operations/remember.response"), "Quipu-Seq", "ETag"),
            "202": told(
                "Held: a person decides at `approval_url`.", ref("operations/remember.response"), "Quipu-Seq"
            ),
        }
        | problems(400, 404, 405, 409, 413, 415),
    )
