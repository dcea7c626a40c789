"""Items in files: the owner's copy of a record, and the write that brings one in (contract 4.1 and 4.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from quipu.formats import values
from quipu.formats.values import Item, refused
from quipu.model.operations import Line, RememberRequest
from quipu.model.record import DETAIL_FIELDS, Link, MemoryType, PrivacyIntent, Record, Sensitivity, State
from quipu.model.store import MAIN
from quipu.model.value import Json
from quipu.rules import grants_items as view
from quipu.rules.grants_times import DAY_MS
from quipu.rules.texts import is_keepable

_LONGEST_ID = 128
_TYPE_LABEL = "memory_type:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where items land, and how far they are believed."""

    agent_id: str
    #: What the records say they came from, where the file has no source of its own.
    source: str | None
    cap: float = 1.0
    store: str | None = None
    #: Stores there are, or will be when the import is carried out.
    stores: frozenset[str] = frozenset({MAIN})
    now: int = 0


# -- out --------------------------------------------------------------------------------------------------------


def item_of(record: Record, *, owner: str, store: str) -> Item:
    """The record as its owner's copy has it: the one view of it, and beside it all that only this host knows."""
    return {**view.item_of(record, owner), "extensions": {"quipu": _own(record, store)}}


def _own(record: Record, store: str) -> dict[str, Any]:
    """What the Item itself has no member for, exactly as it is kept."""
    privacy = record.privacy
    own: dict[str, Any] = {
        "agent_id": record.agent_id,
        "id": record.id if record.id != view.item_id(record) else None,
        "record_type": record.type.value,
        "store": store,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "importance": record.importance,
        "source": record.source,
        "state": None if record.state is State.LIVE else record.state.value,
        "metadata": dict(record.metadata) or None,
        "details": dict(record.details) or None,
        "tags": None if _are_labels(record) else list(record.tags),
        "links": [{"to": link.to, "rel": link.rel} for link in record.links] or None,
        "privacy_intent": None if privacy is None else _privacy_body(privacy),
    }
    return {name: value for name, value in own.items() if value is not None}


def _are_labels(record: Record) -> bool:
    """Whether the labels alone tell the tags: one that looks like a label of ours would be taken for it."""
    is_ours = any(tag.startswith(_TYPE_LABEL) for tag in record.tags)
    return list(record.tags) == view.labels_of(record) and not is_ours


def _privacy_body(intent: PrivacyIntent) -> dict[str, Json]:
    body: dict[str, Json] = {
        "retain": intent.retain,
        "share_with": None if intent.share_with is None else list(intent.share_with),
        "consent_id": intent.consent_id,
        "sensitivity": None if intent.sensitivity is None else intent.sensitivity.value,
    }
    return {name: value for name, value in body.items() if value is not None}


# -- in ---------------------------------------------------------------------------------------------------------


def line_of(item: Item, landing: Landing) -> Line:
    """The write that brings an item in, or InvalidError. What it says is data, whoever wrote it."""
    content, own = values.an_object(item.get("content")), _own_of(item)
    kind, structured = item.get("kind"), values.an_object(content.get("structured"))
    if kind not in view.KINDS:
        raise refused("bad_value", "An item has no kind that is known.")
    type_ = _type_of(str(kind), item, own, structured)
    text = values.a_text(content.get("text")) or _rendered(structured)
    if own.get("record_type") is not None and content.get("text"):
        text = _as_said(content["text"])  # our own copy, and even white space is what was said
    if text is None:
        raise refused("missing_field", "An item says nothing.")
    captured = _captured(item, own, landing)
    expires = _expiry(item, own, captured)
    if expires is not None and expires <= landing.now:
        raise refused("expired", "The item had expired before it came.")
    machine = structured.get("procedure")
    request = RememberRequest(
        agent_id=values.a_text(own.get("agent_id")) or landing.agent_id,
        type=type_,
        content=cast("dict[str, Json]", machine) if type_ is MemoryType.PROCEDURAL else text,
        user_id=_as_said(own.get("user_id")),
        session_id=_as_said(own.get("session_id")),
        metadata=_metadata(item, own, str(kind), structured),
        confidence=_confidence(item, landing),
        importance=values.share(own.get("importance")),
        source=_as_said(own.get("source")) if "source" in own or "record_type" in own else landing.source,
        expires_at=expires,
        store=_store(own, landing),
        tags=_tags(item, own, str(kind)),
        links=_links(own),
        details=_details(own, structured, type_),
        privacy_intent=_privacy(own),
    )
    updated = values.exact(own.get("updated_at"))
    updated = None if updated is None else min(updated, landing.now)  # nobody writes in the future
    return Line(
        request,
        record_id=_record_id(item, landing, text),
        created_at=captured,
        updated_at=updated if updated is not None and updated >= captured else None,
        state=State.ARCHIVED if own.get("state") == State.ARCHIVED.value else State.LIVE,
    )


def _as_said(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _own_of(item: Item) -> dict[str, Any]:
    return values.an_object(values.an_object(item.get("extensions")).get("quipu"))


def _type_of(kind: str, item: Item, own: Mapping[str, Any], structured: Mapping[str, Any]) -> MemoryType:
    said = own.get("record_type")
    if said is None and f"memory_type:{structured.get('memory_type')}" in values.texts(item.get("labels")):
        said = structured.get("memory_type")  # a label alone never decides
    if said in tuple(MemoryType):
        type_ = MemoryType(str(said))
        if type_ is MemoryType.PROCEDURAL and not isinstance(structured.get("procedure"), Mapping):
            raise refused("bad_value", "A procedure comes without its machine.")
        return type_
    return MemoryType.EPISODIC if kind in ("observation", "conversation_turn") else MemoryType.SEMANTIC


def _rendered(structured: Mapping[str, Any]) -> str | None:
    """A structure without a text, in words."""
    if not structured:
        return None
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in structured.items()
    )


def _captured(item: Item, own: Mapping[str, Any], landing: Landing) -> int:
    at = values.exact(own.get("created_at"))
    if at is not None and at >= 0:
        return min(at, landing.now)
    told = values.millis(values.an_object(item.get("provenance")).get("captured_at"))
    return landing.now if told is None else min(told, landing.now)


def _expiry(item: Item, own: Mapping[str, Any], captured: int) -> int | None:
    exact = values.exact(own.get("expires_at"))
    if exact is not None:
        return exact
    days = item.get("ttl_days")
    if days is None:
        return None
    if isinstance(days, bool) or not isinstance(days, int) or days <= 0:
        raise refused("bad_value", "ttl_days is a whole number above 0.")
    return captured + days * DAY_MS


def _confidence(item: Item, landing: Landing) -> float:
    told = values.an_object(item.get("provenance")).get("confidence", 1.0)
    share = values.share(told)
    if share is None:
        raise refused("bad_value", "Confidence is a number from 0 to 1.")
    return min(share, landing.cap)


def _store(own: Mapping[str, Any], landing: Landing) -> str:
    name = landing.store or values.a_text(own.get("store")) or MAIN
    if name not in landing.stores:
        raise refused("store", "The item belongs to a store that is not here.")
    return name


def _metadata(
    item: Item, own: Mapping[str, Any], kind: str, structured: Mapping[str, Any]
) -> dict[str, Json]:
    metadata: dict[str, Any] = dict(values.an_object(own.get("metadata")))
    if own.get("record_type") is not None:
        return metadata  # our own copy: everything stands there already
    if foreign := values.an_object(own.get("foreign")):
        metadata["foreign"] = foreign
    if kind in view.BY_MARK:
        metadata["oap_kind"] = kind
    if structured and structured.get("memory_type") is None:
        metadata["structured"] = dict(structured)
    for name in ("scope_id", "subject_entity_id"):
        if (said := values.a_text(item.get(name))) is not None:
            metadata[name] = said
    if receipt := values.a_text(values.an_object(item.get("provenance")).get("source_receipt")):
        metadata["source_receipt"] = receipt
    if item.get("exportable") is False:
        metadata["exportable"] = False
    return metadata


def _tags(item: Item, own: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    exact = own.get("tags")
    if own.get("record_type") is not None and isinstance(exact, list):
        return tuple(values.texts(exact))
    said = values.texts(item.get("labels"))
    own_labels = [label for label in said if not label.startswith(("kind:", _TYPE_LABEL))]
    return (*own_labels, *([f"kind:{kind}"] if kind in view.BY_TAG and exact is None else []))


def _links(own: Mapping[str, Any]) -> tuple[Link, ...]:
    links = [values.an_object(link) for link in values.a_list(own.get("links"))]
    return tuple(
        Link(link["to"], link["rel"])
        for link in links
        if isinstance(link.get("to"), str) and isinstance(link.get("rel"), str)
    )


def _details(own: Mapping[str, Any], structured: Mapping[str, Any], type_: MemoryType) -> dict[str, Json]:
    details = values.an_object(own.get("details"))
    if type_ is MemoryType.EMOTIONAL and not details:
        details = values.an_object(structured.get("affect"))
    return {name: value for name, value in details.items() if DETAIL_FIELDS.get(name) is type_}


def _privacy(own: Mapping[str, Any]) -> PrivacyIntent | None:
    body = values.an_object(own.get("privacy_intent"))
    if not body:
        return None
    shared, level = body.get("share_with"), body.get("sensitivity")
    return PrivacyIntent(
        retain=values.a_text(body.get("retain")),
        share_with=tuple(values.texts(shared)) if isinstance(shared, list) else None,
        consent_id=values.a_text(body.get("consent_id")),
        sensitivity=Sensitivity(level) if level in tuple(Sensitivity) else None,
    )


def _record_id(item: Item, landing: Landing, text: str) -> str:
    """The item's own id where it can be one; otherwise one that follows from what it says."""
    own = _own_of(item)
    named = own["id"] if own.get("record_type") is not None and "id" in own else item.get("item_id")
    if (
        isinstance(named, str)
        and 0 < len(named) <= _LONGEST_ID
        and is_keepable(named)
        and named.isprintable()
    ):
        return named
    when = str(values.an_object(item.get("provenance")).get("captured_at", ""))
    return values.derived("mem", landing.source or "", str(named or ""), when, text)
