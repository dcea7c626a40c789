"""What descriptions of operations are made of: parameters, bodies, answers."""

from __future__ import annotations

from typing import Any

from quipu.faces.http.openapi import Node, headers

JSON, NDJSON = "application/json", "application/x-ndjson"


def query(name: str, description: str, schema: Node | None = None, **more: Any) -> Node:
    """A parameter of the query string."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": schema or {"type": "string"},
        **more,
    }


def header(name: str, description: str, schema: Node | None = None) -> Node:
    """A header of the request."""
    return {"name": name, "in": "header", "description": description, "schema": schema or {"type": "string"}}


ID: Node = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "Its id.",
    "schema": {"type": "string"},
}
TYPES: Node = {"type": "array", "items": {"enum": ["semantic", "episodic", "procedural", "emotional"]}}
AGENT = query("agent_id", "Only this agent's. Absent: of every agent that the credential may act for.")
AS_OF = query(
    "as_of", "As of an ISO 8601 moment with its zone, a run id, or a journal position. Absent: now."
)
STORE = query("store", "Only this memory store.")
LIMIT = query("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000})
CURSOR = query("cursor", "Where the page starts: `next_cursor` of the one before.")
EXTENSIONS = header(
    "Quipu-Extensions", "Ask for the extra member `extensions` in the answer.", {"enum": ["true", "false"]}
)
PREFER = header(
    "Prefer",
    "`handling=lenient`: pass over unknown fields instead of refusing them. `wait=N`: a held write waits up to N "
    "seconds, 60 at most, for its decision.",
)
KEY = header(
    "Idempotency-Key",
    "Makes the write happen once: the same key and body give the first answer again, byte for byte, for a day.",
    {"type": "string", "minLength": 1, "maxLength": 128},
)
NONCE = header(
    "Quipu-Nonce",
    "A server that signs hits (`recall_sign_hits`) signs them over this word, used once.",
    {"type": "string", "minLength": 1, "maxLength": 128},
)
AUDIENCE = header(
    "Quipu-Audience", "Whom the signatures are made out to.", {"type": "string", "maxLength": 1024}
)
IF_MATCH = header("If-Match", "Change the record only if this is its version, as its ETag says.")


def described(operation_id: str, tag: str, summary: str, needs: str, **more: Any) -> Node:
    """`needs` is a permission, or a sentence about it; empty: nothing."""
    says = needs if " " in needs else f"Needs `{needs}`." if needs else "Needs no credential."
    text = more.pop("description", "")
    node: Node = {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "description": f"{text} {says}".strip(),
        **more,
    }
    if not needs:
        node["security"] = [{}, {"bearer": []}]
    return node


def sent(schema: Node, media_type: str = JSON, example: object = None, *, required: bool = True) -> Node:
    """What is sent."""
    content: Node = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"required": required, "content": {media_type: content}}


def told(description: str, schema: Node | None, *names: str, media_type: str = JSON) -> Node:
    """What is answered."""
    answer: Node = {"description": description, "headers": headers(*names)}
    return answer if schema is None else {**answer, "content": {media_type: {"schema": schema}}}


def component(name: str) -> str:
    """A name that OpenAPI takes: `operations/remember` is `operations.remember`."""
    return name.replace("/", ".")


def ref(name: str) -> Node:
    """A reference to a published schema."""
    return {"$ref": f"#/components/schemas/{component(name)}"}


def records_schema() -> Node:
    """A record of any kind."""
    return {"anyOf": [ref(f"types/{kind}") for kind in TYPES["items"]["enum"]]}
