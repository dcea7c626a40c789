"""One hit of a recall: v0's fields always, Quipu's own where they have a value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from quipu.faces.memorywire.wire_names import SentimentName, TierName, TrustName, TypeName
from quipu.model.outcomes import Hit
from quipu.model.record import MemoryType
from quipu.model.value import Json, JsonObject


class HitProvenanceReply(TypedDict):
    """Where a hit came from and how far that is trusted."""

    source: NotRequired[str]
    written_by: str
    trust: TrustName
    run_id: NotRequired[str]
    node_id: NotRequired[str]
    subject: NotRequired[str]
    import_id: NotRequired[str]
    captured_at: NotRequired[int]
    receipt: NotRequired[str]


class HitReply(TypedDict):
    """One memory that answers the query."""

    id: str
    type: TypeName
    content: str | dict[str, Any]
    score: float
    metadata: dict[str, Any]
    created_at: int
    supporting: list[str]
    source_store: str
    relevance: float
    provenance: HitProvenanceReply
    rank: NotRequired[int]
    version: NotRequired[int]
    agent_id: NotRequired[str]
    user_id: NotRequired[str]
    session_id: NotRequired[str]
    store: NotRequired[str]
    tier: NotRequired[TierName]
    confidence: NotRequired[float]
    importance: NotRequired[float]
    tags: NotRequired[list[str]]
    updated_at: NotRequired[int]
    expires_at: NotRequired[int]
    stores: NotRequired[list[str]]
    demoted: NotRequired[Literal[True]]
    foreign: NotRequired[Literal[True]]
    redacted: NotRequired[Literal[True]]
    truncated: NotRequired[Literal[True]]
    signature: NotRequired[str]
    why: NotRequired[dict[str, Any]]
    event_time: NotRequired[int]
    location: NotRequired[str]
    participants: NotRequired[list[str]]
    sentiment: NotRequired[SentimentName]
    valence: NotRequired[float]
    arousal: NotRequired[float]
    emotion: NotRequired[str]
    target: NotRequired[str]


#: Told of a hit's origin where it is known, as of a record's.
_ORIGINS = ("run_id", "node_id", "subject", "import_id", "captured_at", "receipt")


def hit_body(hit: Hit) -> dict[str, Json]:
    """A hit, ready for JSON."""
    provenance: dict[str, Json] = {
        "written_by": hit.provenance.written_by,
        "trust": hit.provenance.trust.value,
    }
    if hit.source is not None:
        provenance["source"] = hit.source
    for name in _ORIGINS:
        if (value := getattr(hit.provenance, name)) is not None:
            provenance[name] = value
    body: dict[str, Json] = {
        "id": hit.id,
        "type": hit.type.value,
        "content": hit.content if hit.redacted else content_body(hit.type, hit.content),
        "score": hit.score,
        "metadata": plain(hit.metadata),
        "created_at": hit.created_at,
        "supporting": list(hit.supporting),
        "source_store": hit.source_store,
        "relevance": hit.relevance,
        "provenance": provenance,
        "rank": hit.rank,
        "version": hit.version,
        "agent_id": hit.agent_id,
        "store": hit.store,
        "tier": hit.tier.value,
        "confidence": hit.confidence,
        "updated_at": hit.updated_at,
    }
    for name in ("user_id", "session_id", "importance", "expires_at", "signature", "why"):
        if (value := getattr(hit, name)) is not None:
            body[name] = plain(value)
    for name in ("tags", "stores"):
        if value := getattr(hit, name):
            body[name] = list(value)
    for name in ("demoted", "foreign", "redacted", "truncated"):
        if getattr(hit, name):
            body[name] = True
    if hit.details:
        body |= details_body(hit.details)
    return body


def content_body(kind: MemoryType, content: str | JsonObject) -> Json:
    """Text; for a procedure its machine as an object."""
    if not isinstance(content, str):
        return plain(content)
    return json.loads(content) if kind is MemoryType.PROCEDURAL else content


def details_body(details: JsonObject) -> dict[str, Json]:
    """The fields that only one type has, those with a value."""
    return {name: plain(value) for name, value in details.items() if value is not None}


def plain(value: Json) -> Json:
    """The same value made of dictionaries and lists only."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in cast("JsonObject", value).items()}
    return [plain(item) for item in cast("Sequence[Json]", value)]
