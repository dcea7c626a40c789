"""Requests as bodies again: what a held write asked for, as its operation's schema has it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import assert_never

from quipu.faces.memorywire.wire_hits import plain
from quipu.faces.memorywire.wire_shown import privacy_body
from quipu.model.operations import (
    BatchRequest,
    Embedding,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    RestoreRequest,
    UpdateStrategy,
)
from quipu.model.store import MAIN
from quipu.model.value import Json
from quipu.rules.staging import Waiting


def request_body(request: Waiting) -> dict[str, Json]:
    """The body that asks for this, with nothing in it that goes without saying."""
    body: dict[str, Json]
    match request:
        case RememberRequest():
            body = _remember(request)
        case ForgetRequest():
            body = {
                "ids": list(request.ids) or None,
                "filter": request.filter,
                "hard_delete": request.hard_delete or None,
                "reason": request.reason,
                "reasoning": request.reasoning,
                "user_id": request.user_id,
            }
        case MergeRequest():
            body = {
                "canonical": request.canonical,
                "duplicates": list(request.duplicates),
                "strategy": request.strategy.value,
                "reasoning": request.reasoning,
            }
        case ExpireRequest():
            policy = request.policy
            given = {
                "older_than_days": policy.older_than_days,
                "type": None if policy.type is None else policy.type.value,
                "confidence_below": policy.confidence_below,
                "no_recall_in_days": policy.no_recall_in_days,
            }
            body = {
                "policy": _with_value(given),
                "action": request.action.value,
                "user_id": request.user_id,
                "filter": request.filter,
                "reason": request.reason,
            }
        case RestoreRequest():
            body = {"id": request.id, "reason": request.reason}
        case BatchRequest():
            return {"items": [request_body(item) for item in request.items]}
        case RecallRequest():
            body = {
                "query": request.query,
                "user_id": request.user_id,
                "k": request.k,
                "types": [kind.value for kind in request.types] or None,
                "filter": request.filter,
                "session_id": request.session_id,
                "as_of": request.as_of,
            }
        case _:
            assert_never(request)
    store = getattr(request, "store", None)
    common: dict[str, Json] = {
        "agent_id": request.agent_id,
        "store": None if store == MAIN else store,
        "approval_required": request.approval_required or None,
        "idempotency_key": getattr(request, "idempotency_key", None),
    }
    return _with_value(common | body)


def _remember(request: RememberRequest) -> dict[str, Json]:
    strategy = request.update_strategy
    return {
        "type": request.type.value,
        "content": request.content,
        "user_id": request.user_id,
        "metadata": request.metadata,
        "confidence": request.confidence,
        "source": request.source,
        "expires_at": request.expires_at,
        "session_id": request.session_id,
        "id": request.id,
        "update_strategy": None if strategy is UpdateStrategy.OVERWRITE else strategy.value,
        "importance": request.importance,
        "privacy_intent": None if request.privacy_intent is None else privacy_body(request.privacy_intent),
        "embedding": None if request.embedding is None else _embedding(request.embedding),
        "tags": None if request.tags is None else list(request.tags),
        "links": None
        if request.links is None
        else [{"to": link.to, "rel": link.rel} for link in request.links],
        **request.details,
        "reasoning": request.reasoning,
    }


def _embedding(given: Embedding) -> dict[str, Json]:
    vector = given.vector
    numbers = array("f", vector) if isinstance(vector, bytes) else vector
    return {"model": given.model, "vector": [float(number) for number in numbers]}


def _with_value(body: Mapping[str, Json]) -> dict[str, Json]:
    return {name: plain(value) for name, value in body.items() if value is not None}
