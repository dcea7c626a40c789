"""OMI-AI 0.1-draft, Open Memory Interchange: one document or lines, both ways (contract 11.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from quipu.errors import QuipuError
from quipu.formats import archives, json_stream, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.signing import Canonical
from quipu.formats.values import Found, Item, refused

FORMAT = "open-memory-interchange"
_TYPES = ("semantic", "episodic", "procedural", "emotional")
_KNOWN = frozenset(
    {"id", "content", "created", "type", "confidence", "tags", "source", "valid_from", "valid_to", "ext", "subject"}
)  # fmt: skip


def write(target: BinaryIO, items: Iterable[Item], head: dict[str, Any], canonical: Canonical) -> None:
    """One document of level L1: every memory has a type, a time and a subject."""
    opening = {
        "format": FORMAT,
        "version": "0.1",
        "serialization": "json",
        "subject": {"id": head["owner"], "type": "person"},
        "generated_at": head["exported_at"],
        "generator": head["exporter"],
    }
    target.write(canonical(opening)[:-1] + b',"memories":[')
    for place, item in enumerate(items):
        target.write((b"," if place else b"") + canonical(memory_of(item)))
    target.write(b"]}\n")


def memory_of(item: Item) -> dict[str, Any]:
    """An Item as an OMI memory; what it has no member for goes into `ext.quipu`."""
    own, provenance = item["extensions"]["quipu"], item["provenance"]
    memory: dict[str, Any] = {
        "id": item["item_id"],
        "content": item["content"].get("text") or "",
        "created": provenance["captured_at"],
        "type": own["record_type"],
        "subject": item["owner_did"],
        "confidence": provenance["confidence"],
        "tags": item["labels"],
        "source": {"platform": "quipu", "ref": own.get("source") or item["item_id"], "method": "export"},
        "valid_from": provenance["captured_at"],
        "ext": {"quipu": _rest(item)},
    }
    if (ends := own.get("expires_at")) is not None:
        memory["valid_to"] = values.moment(ends)
    return memory


def _rest(item: Item) -> dict[str, Any]:
    rest = {
        name: item[name]
        for name in ("kind", "scope_id", "subject_entity_id", "ttl_days", "extensions")
        if name in item
    }
    if "structured" in item["content"]:
        rest["structured"] = item["content"]["structured"]
    if "source_receipt" in item["provenance"]:
        rest["source_receipt"] = item["provenance"]["source_receipt"]
    return rest


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Memories from one document, or from lines of which the first may be the envelope."""
    if _is_lines(source):
        yield from _lines(source, loss)
        return
    number = 0
    for part in json_stream.parts(source.open(source.names[0])):
        if part.name == "memories" or part.name is None:
            number += 1
            yield number, _read(part.raw, loss)
        elif part.is_element:
            loss.dropped(part.name)


def _is_lines(source: Source) -> bool:
    """Whether the first line is a JSON object by itself, and not the whole document."""
    line = source.open(source.names[0]).readline(archives.LONGEST_LINE)
    try:
        first = values.an_object(values.parsed(line))
    except QuipuError:
        return False
    return bool(first) and "memories" not in first


def _lines(source: Source, loss: Loss) -> Iterator[Found]:
    for number, line in archives.lines(source.open(source.names[0])):
        if isinstance(line, QuipuError):
            yield number, line
        elif number > 1 or b'"format"' not in line:
            yield number, _read(line, loss)


def _read(raw: bytes, loss: Loss) -> Item | QuipuError:
    try:
        return item_of(values.an_object(values.parsed(raw)), loss)
    except QuipuError as error:
        return error


def item_of(memory: dict[str, Any], loss: Loss) -> Item:
    """An OMI memory as an Item."""
    if values.a_text(memory.get("id")) is None or values.millis(memory.get("created")) is None:
        raise refused("missing_field", "A memory needs an id and the time it was made.")
    rest = values.an_object(values.an_object(memory.get("ext")).get("quipu"))
    type_ = memory.get("type")
    if type_ not in _TYPES and "kind" not in rest:
        loss.mapped(f"type {str(type_)[:40]}", "fact")
    item: Item = {
        "item_id": memory["id"],
        "kind": rest.get("kind") or ("observation" if type_ == "episodic" else "fact"),
        "content": {"text": memory.get("content")},
        "provenance": {"captured_at": memory["created"], "confidence": memory.get("confidence", 1.0)},
        "labels": values.texts(memory.get("tags")),
    }
    if "structured" in rest:
        item["content"]["structured"] = rest["structured"]
    if "source_receipt" in rest:
        item["provenance"]["source_receipt"] = rest["source_receipt"]
    for name in ("scope_id", "subject_entity_id", "ttl_days"):
        if name in rest:
            item[name] = rest[name]
    own = values.an_object(values.an_object(rest.get("extensions")).get("quipu"))
    item["extensions"] = {"quipu": own or _foreign(memory)}
    return item


def _foreign(memory: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in memory.items() if name not in _KNOWN or name in ("source", "ext")}
    own: dict[str, Any] = {"foreign": {"omi": left}} if left else {}
    if (ends := values.millis(memory.get("valid_to"))) is not None:
        own["expires_at"] = ends
    return own
