"""mem0: what `get_all()` answers, `{"results": [...]}`, both ways (contract 11.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from quipu.errors import QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.signing import Canonical
from quipu.formats.values import Found, Item

#: What mem0 has no member for and nobody looks for in its metadata.
_NO_ROOM = ("importance", "links", "details", "privacy_intent", "expires_at", "state")
_KNOWN = frozenset(
    {"id", "memory", "metadata", "user_id", "agent_id", "run_id", "created_at", "updated_at", "score", "hash"}
)


def write(target: BinaryIO, items: Iterable[Item], canonical: Canonical, loss: Loss) -> None:
    """One document; each memory is what `add(..., infer=False)` takes."""
    target.write(b'{"results":[')
    for place, item in enumerate(items):
        target.write((b"," if place else b"") + canonical(memory_of(item, loss)))
    target.write(b"]}\n")


def memory_of(item: Item, loss: Loss) -> dict[str, Any]:
    """An Item as a mem0 memory."""
    own = item["extensions"]["quipu"]
    for name in _NO_ROOM:
        loss.dropped(name, name in own)
    loss.dropped("confidence", item["provenance"]["confidence"] != 1)
    loss.dropped("structured", "structured" in item["content"])
    if own["record_type"] not in ("semantic", "episodic"):
        loss.mapped(f"type {own['record_type']}", "memory")
    if item["kind"] not in ("fact", "preference"):
        loss.mapped(f"kind {item['kind']}", "memory")
    metadata = {**own.get("metadata", {}), **({"tags": item["labels"]} if item["labels"] else {})}
    if item["kind"] == "preference":
        metadata["category"] = "preference"
    metadata.pop("oap_kind", None)
    memory: dict[str, Any] = {
        "id": item["item_id"],
        "memory": item["content"].get("text") or "",
        "metadata": metadata,
        "agent_id": own["agent_id"],
        "created_at": item["provenance"]["captured_at"],
        "updated_at": values.moment(own["updated_at"]),
    }
    if "user_id" in own:
        memory["user_id"] = own["user_id"]
    if "session_id" in own:
        memory["run_id"] = own["session_id"]
    return memory


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Memories of a document, or of a bare array."""
    number = 0
    for part in json_stream.parts(source.open(source.names[0])):
        if part.name in (None, "results", "memories") and part.is_element:
            number += 1
            try:
                yield number, item_of(values.an_object(values.parsed(part.raw)), loss)
            except QuipuError as error:
                yield number, error
        elif part.is_element and part.name is not None:
            loss.dropped(part.name)


def item_of(memory: dict[str, Any], loss: Loss) -> Item:
    """A mem0 memory as an Item. mem0 carries no provenance: what it says is believed less."""
    metadata = dict(values.an_object(memory.get("metadata")))
    labels = values.texts(metadata.pop("tags", None)) + values.texts(memory.get("categories"))
    category = metadata.get("category")
    is_preference = category == "preference" or "preference" in labels
    if category == "preference":
        metadata.pop("category")
    loss.dropped("score", "score" in memory)
    loss.dropped("hash", "hash" in memory)
    own: dict[str, Any] = {"metadata": metadata} if metadata else {}
    for name, to in (("user_id", "user_id"), ("agent_id", "agent_id"), ("run_id", "session_id")):
        if said := values.a_text(memory.get(name)):
            own[to] = said
    if (updated := values.millis(memory.get("updated_at"))) is not None:
        own["updated_at"] = updated
    left = {
        name: value for name, value in memory.items() if name not in _KNOWN and value not in (None, [], {})
    }
    if left:
        own["foreign"] = {"mem0": left}
    return {
        "item_id": memory.get("id"),
        "kind": "preference" if is_preference else "fact",
        "content": {"text": memory.get("memory") or memory.get("text")},
        "provenance": {"captured_at": memory.get("created_at"), "confidence": 1.0},
        "labels": list(dict.fromkeys(labels)),
        "extensions": {"quipu": own},
    }
