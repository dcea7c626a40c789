"""mem0: what `get_all()` answers, `{"results": [...]}`, both ways."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from quipu.ledger.canonical import canonical
from quipu.sharing.times import rfc3339
from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.spool import Contents
from quipu.transfer.formats.values import Found, Item

_ARRAYS = (None, "results", "memories")
#: Members of our own copy that mem0 has no place for.
_NO_ROOM = (
    *("importance", "links", "details", "privacy_intent", "expires_at", "state", "source", "key"),
    *("valid_from", "valid_until", "store"),
)
#: Names in mem0's metadata that mean something of their own when it is read.
_TAKEN = ("tags", "category")
_KNOWN = frozenset(
    {"id", "memory", "text", "data", "metadata", "categories", "user_id", "agent_id", "run_id"}
    | {"created_at", "updated_at", "score", "hash"}
)


def detect(look: Look) -> bool:
    """A list of memories with their text."""
    return bool(look.members & {".memory", "results.memory", "memories.memory"})


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Memories of a document, or of a bare array."""
    for number, part in values.elements(source.open(), _ARRAYS, loss):
        yield number, part.error or item_of(values.an_object(part.value), loss)


def item_of(memory: dict[str, Any], loss: Loss) -> Item:
    """A mem0 memory as an item. mem0 has no provenance: what it says is believed less."""
    metadata = dict(values.an_object(memory.get("metadata")))
    labels = values.texts(metadata.pop("tags", None)) + values.texts(memory.get("categories"))
    is_preference = metadata.get("category") == "preference" or "preference" in labels
    if metadata.get("category") == "preference":
        metadata.pop("category")
    loss.dropped("score", "score" in memory)
    loss.dropped("hash", "hash" in memory)
    own: dict[str, Any] = {"metadata": metadata} if metadata else {}
    for name, to in (("user_id", "user_id"), ("agent_id", "agent_id"), ("run_id", "session_id")):
        if said := values.a_text(memory.get(name)):
            own[to] = said
    if (updated := values.millis(memory.get("updated_at"))) is not None:
        own["updated_at"] = updated
    if left := {
        name: value for name, value in memory.items() if name not in _KNOWN and value not in (None, [], {})
    }:
        own["foreign"] = {"mem0": left}
    return values.item(
        "preference" if is_preference else "fact",
        memory.get("memory") or memory.get("text") or memory.get("data"),
        item_id=memory.get("id"),
        captured_at=values.when(memory.get("created_at")),
        labels=labels,
        own=own,
    )


def write(target: BinaryIO, contents: Contents, loss: Loss) -> None:
    """One document; each memory is what `add(..., infer=False)` takes."""
    target.write(b'{"results":[')
    for place, item in enumerate(contents.items.items()):
        target.write((b"," if place else b"") + canonical(memory_of(item, loss)))
    target.write(b"]}\n")


def memory_of(item: Item, loss: Loss) -> dict[str, Any]:
    """An item as a mem0 memory."""
    own = item["extensions"]["quipu"]
    for name in _NO_ROOM:
        loss.dropped(name, name in own)
    loss.dropped("confidence", item["provenance"]["confidence"] != 1)
    loss.dropped("structured", "structured" in item["content"])
    if own["record_type"] not in ("semantic", "episodic"):
        loss.mapped(f"type {own['record_type']}", "memory")
    if item["kind"] not in ("fact", "preference"):
        loss.mapped(f"kind {item['kind']}", "memory")
    metadata = {name: value for name, value in own.get("metadata", {}).items() if name not in _TAKEN}
    for name in _TAKEN:
        loss.dropped(f"metadata.{name}", name in own.get("metadata", {}))
    if item["labels"]:
        metadata["tags"] = item["labels"]
    if item["kind"] == "preference":
        metadata["category"] = "preference"
    metadata.pop("oap_kind", None)
    memory: dict[str, Any] = {
        "id": item["item_id"],
        "memory": item["content"].get("text") or "",
        "metadata": metadata,
        "agent_id": own["agent_id"],
        "created_at": item["provenance"]["captured_at"],
        "updated_at": rfc3339(own["updated_at"], fraction=True),
    }
    if "user_id" in own:
        memory["user_id"] = own["user_id"]
    if "session_id" in own:
        memory["run_id"] = own["session_id"]
    return memory
