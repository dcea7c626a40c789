"""An item is a view of a record (S1): the same memory as OAP names it (contract 4.1, 4.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from quipu.model.record import MemoryType, Record, Sensitivity
from quipu.rules.grants_times import DAY_MS, rfc3339
from quipu.rules.reach import may_share
from quipu.rules.receipts import b64
from quipu.rules.texts import body_text

KINDS = ("fact", "preference", "conversation_turn", "summary", "observation", "document_reference")
DEFAULT_SCOPE = "personal"
BELIEF = 0.5
_KIND_TAG = "kind:"
_RESERVED = (_KIND_TAG, "memory_type:")
#: Kinds that a tag stands for, and kinds that a mark in the metadata stands for.
BY_TAG = ("summary", "document_reference")
BY_MARK: Mapping[str, MemoryType] = {
    "preference": MemoryType.SEMANTIC,
    "conversation_turn": MemoryType.EPISODIC,
}
#: Members of metadata that an item has members of its own for.
_LIFTED = (
    "scope_id",
    "oap_kind",
    "subject_entity_id",
    "structured",
    "exportable",
    "item_id",
    "source_receipt",
)


@dataclass(frozen=True, slots=True)
class Space:
    """The vectors of an owner's items: their model, and how long they are."""

    model: str
    dimensions: int


def plain(value: float) -> float:
    """A number as canonical JSON writes it: 1, not 1.0. What holds no other is hashed several times faster."""
    return int(value) if float(value).is_integer() else float(value)


def item_id(record: Record) -> str:
    """The id on the wire: a foreign one is kept as it was."""
    given = record.metadata.get("item_id")
    return given if isinstance(given, str) and given.strip() else record.id


def kind_of(record: Record) -> str:
    """OAP's kind of a record."""
    for kind in BY_TAG:
        if record.type is MemoryType.SEMANTIC and _KIND_TAG + kind in record.tags:
            return kind
    marked = record.metadata.get("oap_kind")
    if isinstance(marked, str) and BY_MARK.get(marked) is record.type:
        return marked
    return "observation" if record.type is MemoryType.EPISODIC else "fact"


def scope_of(record: Record) -> str:
    """The scope a record belongs to."""
    given = record.metadata.get("scope_id")
    return given if isinstance(given, str) and given else DEFAULT_SCOPE


def captured_at(record: Record) -> int:
    """When it was first known."""
    given = record.provenance.captured_at
    return record.created_at if given is None else given


def may_leave(record: Record, grantee: str) -> bool:
    """The owner's own word, which no grant overrides: not exportable, secret, or for others only (the never-share list)."""
    if record.metadata.get("exportable") is False:
        return False
    if record.privacy is None:
        return True
    if record.privacy.sensitivity is Sensitivity.SECRET:
        return False
    return may_share(record.privacy.share_with, grantee)


def item_of(record: Record, owner: str, space: Space | None = None) -> dict[str, Any]:
    """The whole item, before anything is taken away. Optional members that say nothing are left out (F17)."""
    item: dict[str, Any] = {
        "item_id": item_id(record),
        "owner_did": owner,
        "scope_id": scope_of(record),
        "kind": kind_of(record),
    }
    if (subject := _subject(record)) is not None:
        item["subject_entity_id"] = subject
    item["content"] = _content(record)
    if space is not None:
        item["embedding"] = {"model": space.model, "dimensions": space.dimensions, "dtype": "f32le"}
    provenance: dict[str, Any] = {
        "captured_at": rfc3339(captured_at(record)),
        "confidence": plain(record.confidence),
    }
    if (receipt := source_receipt(record)) is not None:
        provenance["source_receipt"] = receipt
    item["provenance"] = provenance
    item["labels"] = labels_of(record)
    if (days := ttl_days(record)) is not None:
        item["ttl_days"] = days
    item["exportable"] = record.metadata.get("exportable") is not False
    if extra := _extensions(record):
        item["extensions"] = {"quipu": extra}
    return item


def source_receipt(record: Record) -> str | None:
    """The receipt of its capture, where there is one."""
    given = record.metadata.get("source_receipt")
    return given if isinstance(given, str) and given else record.provenance.receipt


def salt_of(record: Record) -> str:
    """The salt of a version, as hashes take it."""
    return b64(record.salt)


def ttl_days(record: Record) -> int | None:
    """Whole days from capture to expiry, rounded up; the exact end decides here."""
    if record.expires_at is None:
        return None
    return max(1, -(-(record.expires_at - captured_at(record)) // DAY_MS))


def _subject(record: Record) -> str | None:
    given = record.metadata.get("subject_entity_id")
    return given if isinstance(given, str) and given else record.provenance.subject


def _content(record: Record) -> dict[str, Any]:
    structured = record.metadata.get("structured")
    match record.type:
        case MemoryType.PROCEDURAL:
            made: dict[str, Any] = {"memory_type": "procedural", "procedure": _machine(record.content)}
        case MemoryType.EMOTIONAL:
            made = {"memory_type": "emotional", "affect": dict(record.details)}
        case _ if isinstance(structured, Mapping) and structured:
            made = dict(structured)
        case _:
            return {"text": record.content}
    return {"text": body_text(record), "structured": made}


def _machine(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def labels_of(record: Record) -> list[str]:
    """Its tags but those that stand for kind and type; the type of what OAP has no kind for is a label, too."""
    labels = [tag for tag in record.tags if not tag.startswith(_RESERVED)]
    if record.type in (MemoryType.PROCEDURAL, MemoryType.EMOTIONAL):
        labels.append(f"memory_type:{record.type.value}")
    return labels


def _extensions(record: Record) -> dict[str, Any]:
    extra: dict[str, Any] = {"agent_id": record.agent_id}
    if record.type in (MemoryType.PROCEDURAL, MemoryType.EMOTIONAL):
        extra["record_type"] = record.type.value
    rest = {name: value for name, value in record.metadata.items() if name not in _LIFTED}
    if rest:
        extra["metadata"] = cast("Any", rest)
    if record.source is not None:
        extra["source"] = record.source
    return extra
