"""The schemas of the profile `admin`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]

_TEXT: Node = {"type": "string"}
_WHOLE: Node = {"type": "integer"}
_FREE: Node = {"type": "object", "additionalProperties": True}
_PAGE: Node = {"type": "integer", "minimum": 1, "default": 50}
_SCOPES = ["user", "session", "agent", "team", "global"]
_STATUSES = ["pending", "approved", "rejected"]


def _maybe(node: Node) -> Node:
    return {"anyOf": [node, {"type": "null"}]}


def _many(items: Node) -> Node:
    return {"type": "array", "items": items}


def _in(required: tuple[str, ...] = (), **properties: Node) -> Node:
    node: Node = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**node, "required": list(required)} if required else node


def _out(**properties: Node) -> Node:
    return {"type": "object", "required": list(properties), "properties": properties}


_STORE = _out(id=_TEXT, name=_TEXT, scope=_TEXT, tier=_TEXT, record_count=_WHOLE)

INPUTS: Mapping[str, Node] = {
    "get": _in(("ids",), ids=_many(_TEXT)),
    "list": _in(agent_id=_TEXT, filter=_FREE, store=_TEXT, cursor=_TEXT, limit=_PAGE),
    "history": _in(("id",), id=_TEXT),
    "create_store": _in(
        ("name",),
        name=_TEXT,
        scope={"type": "string", "enum": _SCOPES, "default": "agent"},
        type={"type": "string", "enum": ["short_term", "long_term"], "default": "long_term"},
    ),
    "list_stores": _in(),
    "delete_store": _in(("name",), name=_TEXT),
    "forget_all": _in(("store",), agent_id=_TEXT, user_id=_TEXT, store=_TEXT),
    "list_reviews": _in(status={"type": "string", "enum": _STATUSES}, cursor=_TEXT, limit=_PAGE),
    "review": _in(("id", "approved"), id=_TEXT, approved={"type": "boolean"}, reason=_TEXT),
    "operation_status": _in(("handle",), handle={"type": "string", "description": "Id of a held write"}),
}
OUTPUTS: Mapping[str, Node] = {
    "get": _out(memories=_many(_FREE), missing=_many(_TEXT)),
    "list": _out(memories=_many(_FREE), next_cursor=_maybe(_TEXT)),
    "history": _out(versions=_many(_FREE)),
    "create_store": _STORE,
    "list_stores": _out(stores=_many(_STORE)),
    "delete_store": _out(deleted_records=_WHOLE),
    "list_reviews": _out(reviews=_many(_FREE), nextCursor=_maybe(_TEXT)),
    "review": _out(approved={"type": "boolean"}, reviewer=_TEXT, reviewed_at=_WHOLE, reason=_maybe(_TEXT)),
    "operation_status": _out(
        status={"type": "string", "enum": _STATUSES}, progress={"type": "number"}, result=_maybe(_FREE)
    ),
}
