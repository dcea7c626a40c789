"""Records as callers see them. What is labelled secret is masked unless an admin asked for it."""

import json
from collections.abc import Mapping
from typing import Any

from quipu.memory.model import LinkTo, Privacy, ProvenanceView, RecordView
from quipu.model.record import Mark, Record
from quipu.model.store import Store

MASK = "[redacted]"


def is_secret(record: Record) -> bool:
    return record.privacy is not None and record.privacy.sensitivity == "secret"


def content_of(record: Record) -> str | dict[str, Any]:
    """Text; for a procedure its machine."""
    if record.type == "procedural":
        try:
            machine: Any = json.loads(record.content)
        except (ValueError, RecursionError):  # altered behind the journal's back: `verify` names it
            return record.content
        return machine if isinstance(machine, dict) else record.content  # pyright: ignore[reportUnknownVariableType]  JSON
    return record.content


def memory_fields(record: Record, store: str, *, is_masked: bool) -> dict[str, Any]:
    """The fields of a `MemoryView`."""
    origin = record.provenance
    return {
        "id": record.id,
        "type": record.type,
        "content": MASK if is_masked else content_of(record),
        "version": record.version,
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "store": store,
        "tier": record.tier,
        "metadata": {} if is_masked else dict(record.metadata),
        "tags": () if is_masked else record.tags,
        "confidence": record.confidence,
        "importance": record.importance,
        "source": record.source,
        "provenance": ProvenanceView(
            written_by=origin.written_by,
            trust=origin.trust,
            run_id=origin.run_id,
            node_id=origin.node_id,
            subject=None if is_masked else origin.subject,  # it stands in metadata, which the mask covers
            import_id=origin.import_id,
            captured_at=origin.captured_at,
            receipt=origin.receipt,
        ),
        "details": {} if is_masked else dict(record.details),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "key": record.key,
        "valid_from": record.valid_from,
        "valid_until": record.valid_until,
        "redacted": is_masked,
    }


def record_fields(
    record: Record, stores: Mapping[str, Store], *, is_masked: bool, mark: Mark | None = None
) -> dict[str, Any]:
    """The fields of a `RecordView`."""
    store, privacy = stores.get(record.store_id), record.privacy
    return memory_fields(record, "" if store is None else store.name, is_masked=is_masked) | {
        "state": record.standing,
        "links": tuple(LinkTo(to=link.to, rel=link.rel) for link in record.links),
        "privacy_intent": None
        if privacy is None
        else Privacy(
            retain=privacy.retain,
            share_with=privacy.share_with,
            consent_id=privacy.consent_id,
            sensitivity=privacy.sensitivity,
        ),
        "born": record.born,
        "died": record.died,
        "ending": record.ending,
        "merged_into": record.merged_into,
        "digest": record.digest,
        "demoted": mark is not None and mark.is_demoted,
        "last_recalled_at": None if mark is None else mark.last_recalled_at,
        "recall_count": 0 if mark is None else mark.recall_count,
    }


def record_view(
    record: Record, stores: Mapping[str, Store], *, is_masked: bool, mark: Mark | None = None
) -> RecordView:
    return RecordView(**record_fields(record, stores, is_masked=is_masked, mark=mark))
