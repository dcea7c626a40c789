"""The schemas of the profile `graph`: the shapes of the reference knowledge-graph server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]

_TEXT: Node = {"type": "string"}


def _many(items: Node) -> Node:
    return {"type": "array", "items": items}


def _object(**properties: Node) -> Node:
    return {"type": "object", "required": list(properties), "properties": properties}


def _closed(**properties: Node) -> Node:
    return {**_object(**properties), "additionalProperties": False}


_ENTITY = _object(name=_TEXT, entityType=_TEXT, observations=_many(_TEXT))
_RELATION = _object(**{"from": _TEXT, "to": _TEXT, "relationType": _TEXT})

INPUTS: Mapping[str, Node] = {
    "create_entities": _closed(entities=_many(_ENTITY)),
    "create_relations": _closed(relations=_many(_RELATION)),
    "add_observations": _closed(observations=_many(_object(entityName=_TEXT, contents=_many(_TEXT)))),
    "delete_entities": _closed(entityNames=_many(_TEXT)),
    "delete_observations": _closed(deletions=_many(_object(entityName=_TEXT, observations=_many(_TEXT)))),
    "delete_relations": _closed(relations=_many(_RELATION)),
    "read_graph": {"type": "object", "additionalProperties": False, "properties": {}},
    "search_nodes": _closed(query=_TEXT),
    "open_nodes": _closed(names=_many(_TEXT)),
}
GRAPH = _object(entities=_many(_ENTITY), relations=_many(_RELATION))
DELETED = _object(success={"type": "boolean"}, message=_TEXT)
OUTPUTS: Mapping[str, Node] = {
    "create_entities": _object(entities=_many(_ENTITY)),
    "create_relations": _object(relations=_many(_RELATION)),
    "add_observations": _object(results=_many(_object(entityName=_TEXT, addedObservations=_many(_TEXT)))),
}
