"""Between rows of the database and records, entries and heads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import TamperedError
from quipu.ledger.digests import plain_fields
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


def record_row(tenant: str, record: Record, terms: bytes | None) -> Values:
    """A new version as it is inserted."""
    privacy, details = record.privacy, record.details
    event_time = details.get("event_time")
    return {
        "tenant": tenant,
        "id": record.id,
        "version": record.version,
        "born": record.born,
        "store_id": record.store_id,
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "type": record.type,
        "tier": record.tier,
        "state": record.state,
        "content": record.content,
        "metadata": _json(record.metadata),
        "tags": _json(list(record.tags)),
        "links": _json([[link.to, link.rel] for link in record.links]),
        "confidence": float(record.confidence),
        "importance": None if record.importance is None else float(record.importance),
        "source": record.source,
        "provenance": _text(plain_fields(record.provenance)),
        "details": _json(details),
        "privacy": None if privacy is None else _text(plain_fields(privacy)),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "key": record.key,
        "valid_from": record.valid_from,
        "valid_until": record.valid_until,
        "subject": record.provenance.subject,
        "sensitivity": None if privacy is None else privacy.sensitivity,
        "share_with": None
        if privacy is None or privacy.share_with is None
        else _text(list(privacy.share_with)),
        "event_time": event_time if isinstance(event_time, int) else None,
        "run_id": record.provenance.run_id,
        "asks": int(record.content.rstrip().endswith("?")),
        "by_assistant": int(_is_by_assistant(record)),
        "salt": record.salt,
        "digest": bytes.fromhex(record.digest),
        "terms": terms,
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
    # fmt: off
    (
        id_, version, born, died, ending, merged_into, _emptied, store_id, agent_id, user_id, session_id,
        type_, tier, state, content, metadata, tags, links, confidence, importance, source, provenance,
        details, privacy, created_at, updated_at, expires_at, key, valid_from, valid_until, salt, digest,
    ) = row
    # fmt: on
    intent: dict[str, Any] | None = json.loads(privacy) if privacy else None
    if intent is not None and "share_with" in intent:
        intent["share_with"] = tuple(intent["share_with"])
    return Record(
        id=id_,
        version=version,
        store_id=store_id,
        agent_id=agent_id,
        user_id=user_id,
        session_id=session_id,
        type=type_,
        tier=tier,
        state=state,
        content=content,
        metadata=json.loads(metadata) if metadata else {},
        tags=tuple(json.loads(tags)) if tags else (),
        links=tuple(Link(to, rel) for to, rel in json.loads(links)) if links else (),
        confidence=confidence,
        importance=importance,
        source=source,
        provenance=Provenance(**json.loads(provenance)),
        details=json.loads(details) if details else {},
        privacy=None if intent is None else PrivacyIntent(**intent),
        created_at=created_at,
        updated_at=updated_at,
        expires_at=expires_at,
        key=key,
        valid_from=valid_from,
        valid_until=valid_until,
        born=born,
        died=died,
        ending=ending,
        merged_into=merged_into,
        salt=bytes(salt) if salt is not None else b"",
        digest=bytes(digest).hex(),
    )


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
