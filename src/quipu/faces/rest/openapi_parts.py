"""What descriptions of operations are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quipu.faces.http.openapi import Node
from quipu.faces.rest.schemas import ref

JSON, NDJSON = "application/json", "application/x-ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method at one address."""

    line: str
    id: str
    tag: str
    says: str
    #: A permission, or a sentence about it.
    needs: str
    answer: Node | None
    status: int = 200
    media_type: str = JSON
    body: Node | None = None
    body_type: str = JSON
    is_body_needed: bool = True
    query: tuple[Node, ...] = ()
    refuses: tuple[int, ...] = field(default=(400,))


def query(name: str, description: str, schema: Node | None = None, **more: Any) -> Node:
    """A parameter of the query string."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": schema or {"type": "string"},
        **more,
    }


def many(name: str, kind: type) -> Node:
    """An object with one list in it."""
    return held(**{name: {"type": "array", "items": ref(kind)}})


def held(**members: Node) -> Node:
    """An object with just these members."""
    return {
        "type": "object",
        "required": list(members),
        "properties": members,
        "additionalProperties": False,
    }


def work(progress: Node, result: Node) -> Node:
    """One line of long work."""
    return {"oneOf": [held(progress=progress), held(result=result), failed()]}


def lines(item: Node) -> Node:
    """One line of a stream of values."""
    return {"oneOf": [item, failed()]}


def failed() -> Node:
    """The last line of a stream that ends in an error."""
    return held(error={"$ref": "#/components/schemas/problem"})


NUMBER: Node = {"type": "integer", "minimum": 0}
AGENT = query("agent_id", "Whose memories. Absent: every agent's, which needs `memory:admin`.")
AS_OF = query("as_of", "As of an ISO 8601 moment with its zone, a run id, or a journal position.")
LIMIT = query("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000})
TENANT = query("tenant", "Another tenant, for those who run the server.")
