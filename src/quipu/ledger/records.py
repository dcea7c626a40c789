"""Between rows of the database and records, entries and heads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import TamperedError
from quipu.ledger.digests import plain_fields
from quipu.ledger.queries import RECORD_COLUMNS
from quipu.ledger.table import Row, Values
from quipu.model.journal import Entry, Head, Mention
from quipu.model.record import Link, Mark, PrivacyIntent, Provenance, Record

#: Roles under which conversations have what an assistant said.
_ASSISTANTS = frozenset(("assistant", "ai", "bot", "model"))
#: Columns of a version that repeat what its JSON says, so that search and undo can select by them.
COPIES = ("subject", "sensitivity", "share_with", "event_time", "run_id", "asks", "by_assistant")


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version as it stands in the database, for verification."""

    id: str
    version: int
    #: None: it cannot be read.
    record: Record | None
    #: The position that emptied it.
    emptied: int | None
    terms: bytes | None
    #: Columns that should repeat what stands elsewhere in the row, and do not.
    strays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry that was altered so that it is none any more."""

    seq: int
    hash: bytes


# fmt: off
#: Kept as they are.
_PLAIN = (
    "id", "version", "born", "store_id", "agent_id", "user_id", "session_id", "type", "tier", "state",
    "content", "source", "created_at", "updated_at", "expires_at", "key", "valid_from", "valid_until",
    "salt",
)
# fmt: on


def record_row(tenant: str, record: Record, terms: bytes | None) -> Values:
    """A new version as it is inserted."""
    privacy, event_time = record.privacy, record.details.get("event_time")
    shares = None if privacy is None else privacy.share_with
    return {
        **{name: getattr(record, name) for name in _PLAIN},
        "tenant": tenant,
        "metadata": _json(record.metadata),
        "tags": _json(list(record.tags)),
        "links": _json([[link.to, link.rel] for link in record.links]),
        "confidence": float(record.confidence),
        "importance": None if record.importance is None else float(record.importance),
        "provenance": _text(plain_fields(record.provenance)),
        "details": _json(record.details),
        "privacy": None if privacy is None else _text(plain_fields(privacy)),
        "digest": bytes.fromhex(record.digest),
        "terms": terms,
        # copies of what is inside, to select by
        "subject": record.provenance.subject,
        "sensitivity": None if privacy is None else privacy.sensitivity,
        "share_with": None if shares is None else _text(list(shares)),
        "event_time": event_time if isinstance(event_time, int) else None,
        "run_id": record.provenance.run_id,
        "asks": int(record.content.rstrip().endswith("?")),
        "by_assistant": int(_is_by_assistant(record)),
    }


def record_of(row: Row) -> Record:
    """A version; one that cannot be read was altered, and is named."""
    try:
        return _record_of(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TamperedError(
            f"Memory {row[0]} version {row[1]} cannot be read: something else has altered the database.",
            reason="unreadable_record",
            hint="`quipu verify` names everything that was altered.",
        ) from error


def stored_version(tenant: str, row: Row) -> StoredVersion:
    """A row of `stored_versions`: a version, the copies of parts of it, its terms."""
    *version, terms = row
    row, copies = tuple(version[: -len(COPIES)]), version[-len(COPIES) :]
    terms = None if terms is None else bytes(terms)
    try:
        record = _record_of(row)
        written = record_row(tenant, record, terms)
    except (ValueError, TypeError, KeyError, AttributeError):
        return StoredVersion(row[0], row[1], None, row[6], terms)
    strays = tuple(name for name, value in zip(COPIES, copies, strict=True) if written[name] != value)
    return StoredVersion(row[0], row[1], record, row[6], terms, strays)


def _record_of(row: Row) -> Record:
    known: dict[str, Any] = dict(zip(RECORD_COLUMNS, row, strict=True))
    del known["emptied"]
    metadata, tags, links, details, intent = (
        json.loads(known[name]) if known[name] else None
        for name in ("metadata", "tags", "links", "details", "privacy")
    )
    if intent is not None and "share_with" in intent:
        intent["share_with"] = tuple(intent["share_with"])
    known |= {
        "metadata": metadata or {},
        "tags": tuple(tags or ()),
        "links": tuple(Link(to, rel) for to, rel in links or ()),
        "provenance": Provenance(**json.loads(known["provenance"])),
        "details": details or {},
        "privacy": None if intent is None else PrivacyIntent(**intent),
        "salt": bytes(known["salt"] or b""),
        "digest": bytes(known["digest"]).hex(),
    }
    return Record(**known)


def head_of(row: Row | None) -> Head:
    if row is None:
        return Head()
    seq, hash_, at, changed, horizon, guarded, suspended_at = row[:7]
    return Head(
        seq=seq,
        hash=bytes(hash_),
        at=at,
        changed=changed,
        horizon=horizon,
        guarded=guarded,
        suspended_at=suspended_at,
    )


def chain_of(rows: Sequence[Row], prev: bytes) -> list[Entry | UnreadableEntry]:
    """Entries in order, those among them that cannot be read too."""
    found: list[Entry | UnreadableEntry] = []
    for row in rows:
        try:
            found += entries_of([row], prev)
        except TamperedError:
            found.append(UnreadableEntry(row[0], bytes(row[-1])))
        prev = bytes(row[-1])
    return found


def entries_of(rows: Sequence[Row], prev: bytes) -> list[Entry]:
    """Entries in order; `prev` is the hash before the first of them."""
    found: list[Entry] = []
    for seq, at, actor, op, store, agent, run, node, records, detail, hash_ in rows:
        try:
            mentions = tuple(Mention(id_, version, digest) for id_, version, digest in json.loads(records))
            said: Any = json.loads(detail)
        except (ValueError, TypeError) as error:
            raise TamperedError(
                f"Entry {seq} of the journal cannot be read: something else has altered the database.",
                reason="unreadable_entry",
            ) from error
        found.append(
            Entry(
                seq=seq,
                at=at,
                actor=actor,
                op=op,
                store=store,
                agent=agent,
                run=run,
                node=node,
                records=mentions,
                detail=said,
                prev=prev,
                hash=bytes(hash_),
            )
        )
        prev = bytes(hash_)
    return found


def mark_of(row: Row) -> Mark:
    record_id, last_recalled_at, recall_count, demoted = row
    return Mark(record_id, last_recalled_at, recall_count, bool(demoted))


def _is_by_assistant(record: Record) -> bool:
    """Whether the writer said that it is a turn of an assistant."""
    said = (record.metadata.get("role"), record.provenance.subject)
    return any(isinstance(name, str) and name.lower() in _ASSISTANTS for name in said)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json(value: Any) -> str | None:
    """JSON text; null for what is empty."""
    return _text(value) if value else None
