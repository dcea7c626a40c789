"""An item is a memory as OAP names it. The one mapping, both ways: from a record, and to the write that brings one in."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from quipu.errors import Fault, InvalidError
from quipu.fields import DAY_MS
from quipu.jose import b64
from quipu.ledger.index import Space
from quipu.memory.model import RememberRequest
from quipu.model.record import DETAIL_FIELDS, MemoryType, PrivacyIntent, Record
from quipu.model.value import Json
from quipu.operation import invalid
from quipu.search.text import body_text, is_storable
from quipu.sharing.times import instant, rfc3339

Item: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal[
    "fact", "preference", "conversation_turn", "summary", "observation", "document_reference"
]

KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_SCOPE = "personal"
#: Below this confidence an item says that it is a mere possession of its owner's, not a belief.
BELIEF = 0.5
_KIND_TAG, _TYPE_LABEL = "kind:", "memory_type:"
#: Kinds that a tag stands for, and kinds that a mark in the metadata stands for.
_BY_TAG = ("summary", "document_reference")
_BY_MARK: Mapping[str, MemoryType] = {"preference": "semantic", "conversation_turn": "episodic"}
#: Members of metadata that an item has members of its own for.
_LIFTED = frozenset(
    ["scope_id", "oap_kind", "subject_entity_id", "structured", "exportable", "item_id", "source_receipt"]
)
_LONGEST_ID = 128
_INT64 = 2**63
_DIGITS = re.compile(r"-?[0-9]{1,19}")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


# -- members of a record ------------------------------------------------------------------------------------------


def item_id(record: Record) -> str:
    """The id on the wire: one that came from elsewhere is kept as it was."""
    return _text(record.metadata.get("item_id")) or record.id


def kind_of(record: Record) -> Kind:
    for kind in _BY_TAG:
        if record.type == "semantic" and _KIND_TAG + kind in record.tags:
            return kind
    marked = record.metadata.get("oap_kind")
    if isinstance(marked, str) and _BY_MARK.get(marked) == record.type:
        return cast("Kind", marked)
    return "observation" if record.type == "episodic" else "fact"


def scope_of(record: Record) -> str:
    return _text(record.metadata.get("scope_id")) or DEFAULT_SCOPE


def subject_of(record: Record) -> str | None:
    return _text(record.metadata.get("subject_entity_id")) or record.provenance.subject


def captured_at(record: Record) -> int:
    """When it was first known."""
    given = record.provenance.captured_at
    return record.created_at if given is None else given


def labels_of(record: Record) -> list[str]:
    """Its tags but those that stand for kind and type; the type of what OAP has no kind for is a label too."""
    labels = [tag for tag in record.tags if not tag.startswith((_KIND_TAG, _TYPE_LABEL))]
    if record.type in ("procedural", "emotional"):
        labels.append(_TYPE_LABEL + record.type)
    return labels


def source_receipt(record: Record) -> str | None:
    """The receipt of its capture, where there is one."""
    return _text(record.metadata.get("source_receipt")) or record.provenance.receipt


def ttl_days(record: Record) -> int | None:
    """Whole days from capture to expiry, rounded up; the exact end decides here."""
    if record.expires_at is None:
        return None
    return max(1, -(-(record.expires_at - captured_at(record)) // DAY_MS))


def salt_of(record: Record) -> str:
    """The salt of a version, as hashes take it."""
    return b64(record.salt)


def may_leave(record: Record, grantee: str) -> bool:
    """The owner's own word, which no grant overrides: not exportable, secret, or for named others only."""
    if record.metadata.get("exportable") is False:
        return False
    privacy = record.privacy
    if privacy is None:
        return True
    if privacy.sensitivity == "secret":
        return False
    return privacy.share_with is None or "*" in privacy.share_with or grantee in privacy.share_with


# -- from a record ------------------------------------------------------------------------------------------------


def item_of(record: Record, owner: str, space: Space | None = None) -> Item:
    """The whole item, before anything is taken away. Optional members that say nothing are left out."""
    item: Item = {
        "item_id": item_id(record),
        "owner_did": owner,
        "scope_id": scope_of(record),
        "kind": kind_of(record),
    }
    if (subject := subject_of(record)) is not None:
        item["subject_entity_id"] = subject
    item["content"] = _content(record)
    if space is not None:
        item["embedding"] = {"model": space.model, "dimensions": space.dimensions, "dtype": "f32le"}
    item["provenance"] = {
        "captured_at": rfc3339(captured_at(record)),
        "confidence": plain_number(record.confidence),
    }
    if (receipt := source_receipt(record)) is not None:
        item["provenance"]["source_receipt"] = receipt
    item["labels"] = labels_of(record)
    if (days := ttl_days(record)) is not None:
        item["ttl_days"] = days
    item["exportable"] = record.metadata.get("exportable") is not False
    item["extensions"] = {"quipu": _extensions(record)}
    return item


def owners_item(record: Record, owner: str, store: str) -> Item:
    """The record as its owner's copy has it: the item, and beside it all that only this product knows, exactly."""
    privacy = record.privacy
    own: dict[str, Any] = {
        "agent_id": record.agent_id,
        "id": record.id if record.id != item_id(record) else None,
        "record_type": record.type,
        "store": store,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "importance": record.importance,
        "source": record.source,
        "key": record.key,
        "valid_from": record.valid_from,
        "valid_until": record.valid_until,
        "state": None if record.state == "live" else record.state,
        "metadata": dict(record.metadata) or None,
        "details": dict(record.details) or None,
        "tags": None if _are_labels(record) else list(record.tags),
        "links": [{"to": link.to, "rel": link.rel} for link in record.links] or None,
        "privacy_intent": None if privacy is None else _privacy_body(privacy),
    }
    return {
        **item_of(record, owner),
        "extensions": {"quipu": {name: value for name, value in own.items() if value is not None}},
    }


def plain_number(value: float) -> int | float:
    """A number as canonical JSON writes it: 1, not 1.0."""
    return int(value) if float(value).is_integer() else float(value)


def _content(record: Record) -> dict[str, Any]:
    structured = record.metadata.get("structured")
    if record.type == "procedural":
        made: dict[str, Any] = {"memory_type": "procedural", "procedure": _machine(record.content)}
    elif record.type == "emotional":
        made = {"memory_type": "emotional", "affect": dict(record.details)}
    elif isinstance(structured, Mapping) and structured:
        made = dict(structured)
    else:
        return {"text": record.content}
    return {"text": body_text(record), "structured": made}


def _machine(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _extensions(record: Record) -> dict[str, Any]:
    extra: dict[str, Any] = {"agent_id": record.agent_id}
    if record.type in ("procedural", "emotional"):
        extra["record_type"] = record.type
    if rest := {name: value for name, value in record.metadata.items() if name not in _LIFTED}:
        extra["metadata"] = rest
    if record.source is not None:
        extra["source"] = record.source
    return extra


def _are_labels(record: Record) -> bool:
    """Whether the labels alone tell the tags: one that looks like a label of ours would be taken for it."""
    is_ours = any(tag.startswith(_TYPE_LABEL) for tag in record.tags)
    return list(record.tags) == labels_of(record) and not is_ours


def _privacy_body(intent: PrivacyIntent) -> dict[str, Json]:
    body: dict[str, Json] = {
        "retain": intent.retain,
        "share_with": None if intent.share_with is None else list(intent.share_with),
        "consent_id": intent.consent_id,
        "sensitivity": intent.sensitivity,
    }
    return {name: value for name, value in body.items() if value is not None}


# -- to a write ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where items land, and how far they are believed."""

    agent_id: str
    #: What the records say they came from, where the file has no source of its own.
    source: str | None
    #: The most confidence that whoever they come from is given.
    most_confidence: float = 1.0
    #: The store that all of them go to; None: the one that each names.
    store: str | None = None
    #: Names of the stores there are, or will be when the import is carried out.
    stores: frozenset[str] = frozenset({"main"})
    now: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWrite:
    """What brings an item in: a request like any other, and what a caller of `remember` cannot say."""

    request: RememberRequest
    record_id: str
    captured_at: int
    created_at: int
    updated_at: int | None = None
    state: Literal["live", "archived"] = "live"


def write_of(item: Mapping[str, Any], landing: Landing) -> ItemWrite:
    """The write that brings an item in, or InvalidError. What it says is data, whoever wrote it."""
    content, own = _object(item.get("content")), _own(item)
    kind, structured = item.get("kind"), _object(content.get("structured"))
    if kind not in KINDS:
        raise _refused("/kind", "bad_value", ", ".join(KINDS))
    type_ = _type_of(str(kind), item, own, structured)
    text = _text(content.get("text")) or _rendered(structured)
    if own.get("record_type") is not None and isinstance(content.get("text"), str) and content["text"]:
        text = cast("str", content["text"])  # our own copy, where even white space is what was said
    if text is None:
        raise _refused("/content", "missing_field", "an item that says something")
    captured = _captured(item, own, landing.now)
    created = _exact(own.get("created_at"))
    created = captured if created is None or created < 0 else min(created, landing.now)
    expires = _expiry(item, own, captured)
    if expires is not None and expires <= landing.now:
        raise _refused("/ttl_days", "expired", "an item that had not expired before it came")
    fields: dict[str, Any] = {
        "agent_id": _text(own.get("agent_id")) or landing.agent_id,
        "type": type_,
        "content": structured.get("procedure") if type_ == "procedural" else text,
        "user_id": own.get("user_id"),
        "session_id": own.get("session_id"),
        "metadata": _metadata(item, own, str(kind), structured),
        "confidence": _confidence(item, landing.most_confidence),
        "importance": own.get("importance"),
        "source": own.get("source") if "source" in own or "record_type" in own else landing.source,
        "expires_at": expires,
        "store": _store(own, landing),
        "tags": _tags(item, own, str(kind)),
        "links": own.get("links"),
        "key": own.get("key"),
        "valid_from": _exact(own.get("valid_from")),
        "valid_until": _exact(own.get("valid_until")),
        "privacy_intent": own.get("privacy_intent"),
        **_details(own, structured, type_),
    }
    updated = _exact(own.get("updated_at"))
    updated = None if updated is None else min(updated, landing.now)  # nobody writes in the future
    return ItemWrite(
        request=RememberRequest.parse({name: value for name, value in fields.items() if value is not None}),
        record_id=_record_id(item, own, landing, text),
        captured_at=captured,
        created_at=created,
        updated_at=updated if updated is not None and updated >= created else None,
        state="archived" if own.get("state") == "archived" else "live",
    )


def derived_id(prefix: str, *parts: str) -> str:
    """An id that follows from what it names: the same file brought in again gives the same ids."""
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:17])
    return f"{prefix}_{''.join(_CROCKFORD[(number >> (5 * place)) & 31] for place in range(26))}"


def _type_of(
    kind: str, item: Mapping[str, Any], own: Mapping[str, Any], structured: Mapping[str, Any]
) -> MemoryType:
    said = own.get("record_type")
    if said is None and f"{_TYPE_LABEL}{structured.get('memory_type')}" in _texts(item.get("labels")):
        said = structured.get("memory_type")  # a label alone never decides
    if said is not None and said in get_args(MemoryType):
        if said == "procedural" and not isinstance(structured.get("procedure"), Mapping):
            raise _refused(
                "/content/structured/procedure", "missing_field", "a procedure together with its machine"
            )
        return said
    return "episodic" if kind in ("observation", "conversation_turn") else "semantic"


def _rendered(structured: Mapping[str, Any]) -> str | None:
    """A structure without a text, in words."""
    if not structured:
        return None
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in structured.items()
    )


def _captured(item: Mapping[str, Any], own: Mapping[str, Any], now: int) -> int:
    told = instant(_object(item.get("provenance")).get("captured_at"))
    if told is None:
        told = _exact(own.get("created_at"))
    return now if told is None or told < 0 else min(told, now)


def _expiry(item: Mapping[str, Any], own: Mapping[str, Any], captured: int) -> int | None:
    exact = _exact(own.get("expires_at"))
    if exact is not None:
        return exact
    days = item.get("ttl_days")
    if days is None:
        return None
    if isinstance(days, bool) or not isinstance(days, int) or not 0 < days <= 365_000:
        raise _refused("/ttl_days", "bad_value", "a whole number of days from 1 to 365000")
    return captured + days * DAY_MS


def _confidence(item: Mapping[str, Any], most: float) -> float:
    told = _object(item.get("provenance")).get("confidence", 1.0)
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1:
        raise _refused("/provenance/confidence", "bad_value", "a number from 0 to 1")
    return min(float(told), most)


def _store(own: Mapping[str, Any], landing: Landing) -> str:
    name = landing.store or _text(own.get("store")) or "main"
    if name not in landing.stores:
        raise _refused("/extensions/quipu/store", "store", "the name of a store that is here")
    return name


def _metadata(
    item: Mapping[str, Any], own: Mapping[str, Any], kind: str, structured: Mapping[str, Any]
) -> dict[str, Any] | None:
    metadata: dict[str, Any] = dict(_object(own.get("metadata")))
    if own.get("record_type") is not None:
        return metadata or None  # our own copy: everything stands there already
    if foreign := _object(own.get("foreign")):
        metadata["foreign"] = foreign
    if kind in _BY_MARK:
        metadata["oap_kind"] = kind
    if structured and structured.get("memory_type") is None:
        metadata["structured"] = dict(structured)
    for name in ("scope_id", "subject_entity_id"):
        if (said := _text(item.get(name))) is not None:
            metadata[name] = said
    if receipt := _text(_object(item.get("provenance")).get("source_receipt")):
        metadata["source_receipt"] = receipt
    if item.get("exportable") is False:
        metadata["exportable"] = False
    return metadata or None


def _tags(item: Mapping[str, Any], own: Mapping[str, Any], kind: str) -> list[str]:
    exact = own.get("tags")
    if own.get("record_type") is not None and isinstance(exact, list):
        return _texts(cast("list[Any]", exact))
    said = [label for label in _texts(item.get("labels")) if not label.startswith((_KIND_TAG, _TYPE_LABEL))]
    return [*said, *([_KIND_TAG + kind] if kind in _BY_TAG and exact is None else [])]


def _details(own: Mapping[str, Any], structured: Mapping[str, Any], type_: MemoryType) -> dict[str, Json]:
    details = _object(own.get("details"))
    if type_ == "emotional" and not details:
        details = _object(structured.get("affect"))
    return {name: value for name, value in details.items() if DETAIL_FIELDS.get(name) == type_}


def _record_id(item: Mapping[str, Any], own: Mapping[str, Any], landing: Landing, text: str) -> str:
    """The item's own id where it can be one; otherwise one that follows from what it says."""
    named = own["id"] if own.get("record_type") is not None and "id" in own else item.get("item_id")
    if (
        isinstance(named, str)
        and 0 < len(named) <= _LONGEST_ID
        and is_storable(named)
        and named.isprintable()
    ):
        return named
    when = str(_object(item.get("provenance")).get("captured_at", ""))
    return derived_id("mem", landing.source or "", str(named or ""), when, text)


def _own(item: Mapping[str, Any]) -> dict[str, Any]:
    return _object(_object(item.get("extensions")).get("quipu"))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(value: Any) -> list[str]:
    listed = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
    return [one for one in listed if isinstance(one, str) and one.strip()]


def _exact(value: Any) -> int | None:
    """Milliseconds as an item of our own has them: a whole number, or its text where it is beyond 2^53."""
    at = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    return at if isinstance(at, int) and not isinstance(at, bool) and abs(at) < _INT64 else None


def _refused(pointer: str, reason: str, accepted: str) -> InvalidError:
    return invalid([Fault(pointer, reason, accepted)])
