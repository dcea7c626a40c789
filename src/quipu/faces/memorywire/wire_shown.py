"""Records as they are shown, and as lines of an export. Nothing that reads what was sent is loaded for it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from quipu.faces.memorywire.wire_hits import content_body, details_body, plain
from quipu.faces.memorywire.wire_names import SensitivityName, SentimentName, TierName, TrustName, TypeName
from quipu.model.record import PrivacyIntent, Provenance, Record
from quipu.model.value import Json


class LinkReply(TypedDict):
    """A typed edge to another record."""

    to: str
    rel: str


class PrivacyIntentReply(TypedDict):
    """What the writer wants done with the memory."""

    retain: NotRequired[str]
    share_with: NotRequired[list[str]]
    consent_id: NotRequired[str]
    sensitivity: NotRequired[SensitivityName]


class ProvenanceReply(TypedDict):
    """Where a version came from."""

    written_by: str
    trust: TrustName
    run_id: NotRequired[str]
    node_id: NotRequired[str]
    subject: NotRequired[str]
    import_id: NotRequired[str]
    captured_at: NotRequired[int]
    receipt: NotRequired[str]


class RecordReply(TypedDict):
    """A record of any type, as `schemas/types` has them; the last eight fields belong to one type each."""

    id: str
    agent_id: str
    user_id: NotRequired[str]
    session_id: NotRequired[str]
    type: TypeName
    content: str | dict[str, Any]
    metadata: dict[str, Any]
    tags: list[str]
    links: list[LinkReply]
    confidence: float
    importance: NotRequired[float]
    source: NotRequired[str]
    privacy_intent: NotRequired[PrivacyIntentReply]
    store: str
    tier: TierName
    state: Literal["live", "archived", "forgotten"]
    version: int
    created_at: int
    updated_at: int
    expires_at: NotRequired[int | None]
    provenance: ProvenanceReply
    event_time: NotRequired[int]
    location: NotRequired[str]
    participants: NotRequired[list[str]]
    sentiment: NotRequired[SentimentName]
    valence: NotRequired[float]
    arousal: NotRequired[float]
    emotion: NotRequired[str]
    target: NotRequired[str]


def record_body(record: Record, store_name: str) -> dict[str, Json]:
    """A version, ready for JSON; not for one that is erased. Fields without a value are left out."""
    body: dict[str, Json] = {
        "id": record.id,
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "type": record.type.value,
        "content": content_body(record.type, record.content),
        "metadata": plain(record.metadata),
        "tags": list(record.tags),
        "links": [{"to": link.to, "rel": link.rel} for link in record.links],
        "confidence": record.confidence,
        "importance": record.importance,
        "source": record.source,
        **details_body(record.details),
        "privacy_intent": None if record.privacy is None else privacy_body(record.privacy),
        "store": store_name,
        "tier": record.tier.value,
        "state": record.state.value,
        "version": record.version,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "provenance": _provenance_body(record.provenance),
    }
    return _with_value(body)


def privacy_body(intent: PrivacyIntent) -> dict[str, Json]:
    """What the writer wants done with the memory, as far as it was said."""
    body: dict[str, Json] = {
        "retain": intent.retain,
        "share_with": None if intent.share_with is None else list(intent.share_with),
        "consent_id": intent.consent_id,
        "sensitivity": None if intent.sensitivity is None else intent.sensitivity.value,
    }
    return _with_value(body)


def _provenance_body(provenance: Provenance) -> dict[str, Json]:
    body: dict[str, Json] = {
        "written_by": provenance.written_by,
        "trust": provenance.trust.value,
        "run_id": provenance.run_id,
        "node_id": provenance.node_id,
        "subject": provenance.subject,
        "import_id": provenance.import_id,
        "captured_at": provenance.captured_at,
        "receipt": provenance.receipt,
    }
    return _with_value(body)


def _with_value(body: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in body.items() if value is not None}
