"""The hashes, for who writes and who verifies: canonical JSON, SHA-256, salted where content is behind."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from quipu.ledger.canonical import canonical, canonical_plain
from quipu.ledger.table import Value
from quipu.model.journal import Entry
from quipu.model.record import Link, PrivacyIntent, Provenance, Record

#: What a record's digest covers: all that stands before `born`.
_NAMES = [field.name for field in fields(Record)]
_COVERED = tuple(_NAMES[: _NAMES.index("born")])
#: Of small values; asking a dataclass takes as long as a whole digest.
_FIELDS = {type_: tuple(field.name for field in fields(type_)) for type_ in (Provenance, PrivacyIntent, Link)}


def entry_body(tenant: str, entry: Entry) -> dict[str, Any]:
    """An entry as it is hashed, and as an export shows it."""
    return {
        "tenant": tenant,
        "seq": entry.seq,
        "at": entry.at,
        "actor": entry.actor,
        "op": entry.op,
        "store": entry.store,
        "agent": entry.agent,
        "run": entry.run,
        "node": entry.node,
        "records": [[mention.id, mention.version, mention.digest] for mention in entry.records],
        "detail": entry.detail,
        "prev": entry.prev.hex(),
    }


def entry_hash(tenant: str, entry: Entry) -> bytes:
    return hashlib.sha256(canonical_plain(entry_body(tenant, entry))).digest()


def record_digest(record: Record, salt: bytes) -> bytes:
    return hashlib.sha256(salt + canonical(record_body(record))).digest()


def record_body(record: Record) -> dict[str, Any]:
    """A record as its digest covers it, and as an export shows it; what is absent is left out."""
    body: dict[str, Any] = {}
    for name in _COVERED:
        value: Any = getattr(record, name)
        if value is None or value == () or value == {}:
            continue
        if name == "links":
            value = [[link.to, link.rel] for link in record.links]
        elif isinstance(value, Provenance | PrivacyIntent):
            value = plain_fields(value)
        elif type(value) is float and value.is_integer():
            value = int(value)  # written alike, and sooner
        body[name] = [*value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]  names
    return body


def plain_fields(value: Provenance | PrivacyIntent | Link) -> dict[str, Any]:
    """The fields of a small value that say something."""
    found: dict[str, Any] = {}
    for name in _FIELDS[type(value)]:
        item = getattr(value, name)
        if item is not None:
            found[name] = [*item] if isinstance(item, tuple) else item  # pyright: ignore[reportUnknownVariableType]  names
    return found


def row_digest(row: Mapping[str, Value], salt: bytes) -> bytes:
    """Of a capability's row."""
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
    return hashlib.sha256(salt + canonical(plain)).digest()
