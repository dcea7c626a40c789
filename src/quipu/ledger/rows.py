"""Rows to values and back, the same for every ledger. JSON is text here, hashes are bytes."""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any, LiteralString, cast

from quipu.errors import BackendUnavailableError, NotFoundError, TamperedError
from quipu.model.change import Approval, Proposal
from quipu.model.journal import Checkpoint, Entry, Mention, Op
from quipu.model.record import (
    Ending,
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    State,
    Tier,
    Trust,
)
from quipu.model.store import Store, StoreScope
from quipu.model.value import Json, JsonObject

#: What a database gives and takes.
Value = int | float | str | bytes | None
Row = Sequence[Any]

#: A digest as text.
_HEX_DIGITS = 64

#: What to do about what cannot be read back.
ALTERED = "It was altered from outside. `quipu verify` says what else was; restore the latest backup."
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

#: By what stands in the columns: a look-up is several times faster than asking the enumeration.
_TYPES, _TIERS = {kind.value: kind for kind in MemoryType}, {tier.value: tier for tier in Tier}
_STATES = {state.value: state for state in State}

#: The columns of `SELECT * FROM record`, in order.
COLUMNS: tuple[LiteralString, ...] = (
    "row",
    "tenant",
    "id",
    "version",
    "born",
    "died",
    "ending",
    "merged_into",
    "emptied",
    "store_id",
    "agent_id",
    "user_id",
    "session_id",
    "type",
    "tier",
    "state",
    "content",
    "metadata",
    "tags",
    "links",
    "confidence",
    "importance",
    "source",
    "provenance",
    "details",
    "privacy",
    "subject",
    "created_at",
    "updated_at",
    "expires_at",
    "salt",
    "digest",
    "terms",
)


def encoded(value: Json) -> str:
    return _encode(value)


def decoded(text: str) -> Any:
    """JSON as it was kept. Nothing else is ever written there, so what is none was written by something else."""
    try:
        return json.loads(text)
    except (ValueError, TypeError) as error:
        raise BackendUnavailableError(
            "Something in the database cannot be read.", reason="corrupt", hint=ALTERED
        ) from error


def _or_none(value: JsonObject | Sequence[Json]) -> str | None:
    return _encode(value) if value else None


def _compact(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in fields.items() if value is not None}


def provenance_body(provenance: Provenance) -> dict[str, Json]:
    return _compact(
        {
            "written_by": provenance.written_by,
            "trust": provenance.trust.value,
            "run_id": provenance.run_id,
            "node_id": provenance.node_id,
            "subject": provenance.subject,
            "import_id": provenance.import_id,
            "captured_at": provenance.captured_at,
            "receipt": provenance.receipt,
        }
    )


def _provenance_text(provenance: Provenance, *, is_terse: bool) -> str:
    """`provenance_body` as text; who wrote it and how far they are trusted mostly is all there is."""
    if (
        provenance.run_id is provenance.node_id is provenance.subject is provenance.import_id is None
        and provenance.captured_at is provenance.receipt is None
    ):
        written_by, trust = _quoted(provenance.written_by), _quoted(provenance.trust)
        return f"[{written_by},{trust}]" if is_terse else f'{{"written_by":{written_by},"trust":{trust}}}'
    return _encode(provenance_body(provenance))


def _privacy_body(privacy: PrivacyIntent) -> dict[str, Json]:
    return _compact(
        {
            "retain": privacy.retain,
            "share_with": None if privacy.share_with is None else list(privacy.share_with),
            "consent_id": privacy.consent_id,
            "sensitivity": None if privacy.sensitivity is None else privacy.sensitivity.value,
        }
    )


def record_values(
    record: Record, seq: int, terms: bytes | None, *, is_terse: bool = False
) -> tuple[Value, ...]:
    """The values of `add_version`, in its order; terse where every byte counts."""
    return (
        record.tenant,
        record.id,
        record.version,
        seq,
        record.store_id,
        record.agent_id,
        record.user_id,
        record.session_id,
        record.type.value,
        record.tier.value,
        record.state.value,
        record.content,
        _or_none(record.metadata),
        _or_none(record.tags),
        _or_none([[link.to, link.rel] for link in record.links]) if record.links else None,
        float(record.confidence),
        None if record.importance is None else float(record.importance),
        record.source,
        _provenance_text(record.provenance, is_terse=is_terse),
        _or_none(record.details),
        None if record.privacy is None else _encode(_privacy_body(record.privacy)),
        record.provenance.subject,
        record.created_at,
        record.updated_at,
        record.expires_at,
        record.salt,
        bytes.fromhex(record.digest),
        terms,
    )


def record_of(row: Row) -> Record:
    """A version from `SELECT * FROM record`, or the news that something has altered it beyond reading."""
    (
        _row, tenant, record_id, version, born, died, ending, merged_into, _emptied, store_id, agent_id, user_id,
        session_id, kind, tier, state, content, metadata, tags, links, confidence, importance, source, provenance,
        details, privacy, _subject, created_at, updated_at, expires_at, salt, digest, _terms,
    ) = row  # fmt: skip
    try:
        return Record(
            tenant=tenant,
            id=record_id,
            version=version,
            born=born,
            died=died,
            ending=None if ending is None else Ending(ending),
            merged_into=merged_into,
            store_id=store_id,
            agent_id=agent_id,
            user_id=user_id,
            session_id=session_id,
            type=_TYPES[kind],
            tier=_TIERS[tier],
            state=_STATES[state],
            content=content,
            metadata=json.loads(metadata) if metadata else {},
            tags=tuple(json.loads(tags)) if tags else (),
            links=tuple(Link(to, rel) for to, rel in json.loads(links)) if links else (),
            confidence=confidence,
            importance=importance,
            source=source,
            provenance=_provenance_of(provenance),
            details=json.loads(details) if details else {},
            privacy=_privacy_of(privacy) if privacy else None,
            created_at=created_at,
            updated_at=updated_at,
            expires_at=expires_at,
            salt=salt or b"",
            digest=digest.hex(),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise altered_record(record_id) from error


def lost_entry(seq: int) -> TamperedError:
    """The news that the journal has a hole."""
    return TamperedError(f"Entry {seq} of the journal is missing.", reason="altered_entry", hint=ALTERED)


def altered_record(record_id: str) -> TamperedError:
    """The news that something has altered a version of a record beyond reading."""
    return TamperedError(
        f"A version of record {record_id} cannot be read.", reason="altered_record", hint=ALTERED
    )


def _provenance_of(text: str) -> Provenance:
    if text.startswith("["):
        return _terse_provenance_of(text)
    body = cast("dict[str, Any]", json.loads(text))
    return Provenance(
        written_by=body.pop("written_by", ""), trust=Trust(body.pop("trust", Trust.UNKNOWN.value)), **body
    )


@lru_cache(256)
def _terse_provenance_of(text: str) -> Provenance:
    """Many records have the same one, and nothing in it is about anybody but the writer."""
    written_by, trust = json.loads(text)
    return Provenance(written_by=written_by, trust=Trust(trust))


def _privacy_of(text: str) -> PrivacyIntent:
    body = json.loads(text)
    share = body.get("share_with")
    level = body.get("sensitivity")
    return PrivacyIntent(
        retain=body.get("retain"),
        share_with=None if share is None else tuple(share),
        consent_id=body.get("consent_id"),
        sensitivity=None if level is None else Sensitivity(level),
    )


def entry_values(entry: Entry, *, is_terse: bool = False) -> tuple[Value, ...]:
    """The values of `add_entry`, in its order; terse where every byte counts."""
    return (
        entry.tenant,
        entry.seq,
        entry.at,
        entry.actor,
        entry.op.value,
        entry.store,
        entry.agent,
        entry.run,
        entry.node,
        f"[{','.join(map(_terse_mention if is_terse else _mention, entry.records))}]",
        _encode(entry.detail) if entry.detail else "{}",
        bytes.fromhex(entry.prev),
        bytes.fromhex(entry.hash),
    )


def _mention(mention: Mention) -> str:
    return f"[{_quoted(mention.id)},{mention.version},{_quoted(mention.digest)}]"


def _terse_mention(mention: Mention) -> str:
    """Version, digest and id in one string, the digest in base 64: a quarter shorter than the list of the three."""
    if len(mention.digest) != _HEX_DIGITS:
        return _mention(mention)
    digest = b2a_base64(bytes.fromhex(mention.digest), newline=False).decode("ascii")
    return _quoted(f"{mention.version} {digest[:-1]} {mention.id}")


def mentions_of(told: Iterable[str | Sequence[Any]]) -> Iterable[Mention]:
    """What an entry mentions, however it is kept."""
    for one in told:
        if isinstance(one, str):
            version, digest, record_id = one.split(" ", 2)
            yield Mention(record_id, int(version), a2b_base64(f"{digest}=").hex())
        else:
            record_id, number, digest = one
            yield Mention(record_id, number, digest)


def entry_of(row: Row) -> Entry:
    tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, digest = row
    return Entry(
        tenant=tenant,
        seq=seq,
        at=at,
        actor=actor,
        op=Op(op),
        store=store,
        agent=agent,
        run=run,
        node=node,
        records=tuple(mentions_of(json.loads(records))),
        detail=json.loads(detail),
        prev=prev.hex(),
        hash=digest.hex(),
    )


def store_of(tenant: str, row: Row) -> Store:
    store_id, name, scope, tier, namespace, description, created_at = row
    try:
        return Store(
            tenant=tenant,
            id=store_id,
            name=name,
            scope=StoreScope(scope),
            tier=Tier(tier),
            namespace=namespace,
            description=description,
            created_at=created_at,
        )
    except (ValueError, TypeError) as error:
        raise TamperedError(
            f"Memory store {store_id} cannot be read.", reason="altered_store", hint=ALTERED
        ) from error


def checkpoint_of(row: Row) -> Checkpoint:
    tenant, seq, digest, at, key_id, signature = row
    return Checkpoint(tenant=tenant, seq=seq, hash=digest.hex(), at=at, key_id=key_id, signature=signature)


def proposal_of(row: Row) -> Proposal:
    (
        tenant, proposal_id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at,
        reviewer, reviewed_at, reason, approvals, given, because, salt, traits,
    ) = row  # fmt: skip
    try:
        said_yes = tuple(Approval(**one) for one in decoded(given))
        holders = tuple(decoded(held_by))
    except (TypeError, ValueError) as error:
        raise TamperedError(
            f"Proposal {proposal_id} cannot be read.", reason="altered_proposal", hint=ALTERED
        ) from error
    return Proposal(
        id=proposal_id,
        tenant=tenant,
        operation=operation,
        agent_id=agent_id,
        record_id=record_id,
        request=decoded(request) if request else {},
        writer=writer,
        held_by=holders,
        status=status,
        created_at=created_at,
        lapses_at=lapses_at,
        reviewer=reviewer,
        reviewed_at=reviewed_at,
        reason=reason,
        approvals=approvals,
        given=said_yes,
        because=because,
        salt=salt or b"",
        traits=decoded(traits) if traits else {},
    )


def given_text(given: Sequence[Approval]) -> str:
    """Who has said yes, as it is kept."""
    return encoded([{"reviewer": one.reviewer, "at": one.at, "etag": one.etag} for one in given])


def rules_of(found: Sequence[Row]) -> tuple[JsonObject, ...]:
    """A tenant's own rules."""
    if not found:
        raise NotFoundError("There is no such tenant.", reason="tenant")
    return tuple(decoded(found[0][0] or "[]"))


def entry_or_fault(row: Row) -> Entry:
    """An entry, or the news that somebody has altered it beyond reading."""
    try:
        return entry_of(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise TamperedError(
            f"Journal entry {row[1]} cannot be read.", reason="altered_entry", hint=ALTERED
        ) from error
