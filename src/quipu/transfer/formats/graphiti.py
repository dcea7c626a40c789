"""Graphiti and Zep: a JSON dump of edges, nodes and episodes. An edge is a fact, with the time in which it is true.

The file is read twice: edges name their nodes by id, and may stand before them.
"""

from collections.abc import Iterator
from typing import Any

from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item

_EDGES = (None, "edges", "facts", "entity_edges")
_NODES = ("nodes", "entities", "entity_nodes", "communities")
_EPISODES = ("episodes", "episodic_nodes")
#: So many nodes are known by their names; the edges of others name them by id.
_MOST_NODES, _LONGEST_NAME = 200_000, 256


def detect(look: Look) -> bool:
    """Edges that say a fact between two nodes."""
    return any(
        {f"{array or ''}.fact", f"{array or ''}.source_node_uuid"} <= look.members for array in _EDGES
    ) or bool(
        look.members & {f"{array}.{name}" for array in _EPISODES for name in ("content", "episode_body")}
        and look.members & {f"{array}.uuid" for array in _EPISODES}
    )


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Edges as facts, summaries of nodes as summaries, episodes as observations."""
    names = _names(source)
    number = 0
    for part in values.parts(source.open(), loss):
        if not part.is_element:
            continue
        number += 1
        body = values.an_object(part.value)
        if part.error is not None:
            yield number, part.error
        elif part.name in _EDGES:
            yield number, _fact(body, names, loss)
        elif part.name in _EPISODES:
            yield number, _episode(body)
        elif part.name in _NODES:
            loss.dropped("name_embedding", body.get("name_embedding") is not None)
            if values.a_text(body.get("summary")) is not None:
                yield number, _summary(body)
            # A node without a summary is told by the edges that name it.
        else:
            loss.dropped(str(part.name))


def _names(source: Source) -> dict[str, str]:
    """What nodes are called, by their ids."""
    names: dict[str, str] = {}
    for part in values.parts(source.open()):
        if part.is_element and part.name in _NODES and len(names) < _MOST_NODES:
            body = values.an_object(part.value)
            name = values.a_text(body.get("name"))
            if name is not None:
                names[_id(body)[:_LONGEST_NAME]] = name[:_LONGEST_NAME]
    return names


def _id(body: dict[str, Any]) -> str:
    return str(body.get("uuid") or body.get("uuid_") or body.get("id") or "")


def _fact(edge: dict[str, Any], names: dict[str, str], loss: Loss) -> Item:
    ends = {
        "subject": edge.get("source_node_uuid") or edge.get("source"),
        "object": edge.get("target_node_uuid") or edge.get("target"),
    }
    told = {end: names.get(str(given), given) for end, given in ends.items()}
    relation = edge.get("name") or edge.get("relation")
    loss.dropped("fact_embedding", edge.get("fact_embedding") is not None)
    # `expired_at` is when the graph learnt that it is no longer so; the best that is known where `invalid_at` is not.
    own = values.validity(edge.get("valid_at"), edge.get("invalid_at") or edge.get("expired_at"), loss)
    said = values.a_text(edge.get("fact")) or " ".join(
        str(word) for word in (told["subject"], relation, told["object"]) if word
    )
    item = values.item(
        "fact",
        said,
        item_id=_id(edge),
        captured_at=values.when(edge.get("created_at")),
        structured={
            **told,
            "relation": relation,
            "attributes": edge.get("attributes") or None,
            "episodes": edge.get("episodes") or None,
        },
        own={**own, **_group(edge)},
    )
    if isinstance(told["subject"], str) and told["subject"] != ends["subject"]:
        item["subject_entity_id"] = told["subject"]
    return item


def _episode(episode: dict[str, Any]) -> Item:
    return values.item(
        "conversation_turn" if episode.get("source") == "message" else "observation",
        episode.get("content") or episode.get("episode_body"),
        item_id=_id(episode),
        captured_at=values.when(episode.get("valid_at"), episode.get("created_at")),
        structured={"title": episode.get("name"), "description": episode.get("source_description") or None},
        own=_group(episode),
    )


def _summary(node: dict[str, Any]) -> Item:
    name = values.a_text(node.get("name"))
    labels = [label for label in values.texts(node.get("labels")) if label != "Entity"]
    item = values.item(
        "summary",
        node["summary"] if name is None else f"{name}: {node['summary']}",
        item_id=_id(node),
        captured_at=values.when(node.get("created_at")),
        labels=labels,
        structured={"attributes": node.get("attributes") or None},
        own=_group(node),
    )
    if name is not None:
        item["subject_entity_id"] = name
    return item


def _group(body: dict[str, Any]) -> dict[str, Any]:
    group = values.a_text(body.get("group_id"))
    return {} if group is None else {"foreign": {"graphiti": {"group_id": group}}}
