"""memorywire's replies as the model's responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from quipu.client.failures import misunderstood
from quipu.client.refusals import from_problem
from quipu.errors import InvalidError, QuipuError
from quipu.faces.rest.forms import formed
from quipu.model.operations import ExpireAction, Fusion, MergeStrategy
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    Hit,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.record import DETAIL_FIELDS, MemoryType, Provenance, Tier

T = TypeVar("T")


def understood(kind: type[T], body: object) -> T:
    """A value of the model in an answer of Quipu's own API."""
    try:
        return formed(kind, body, strict=False)
    except InvalidError:
        raise misunderstood() from None


def part(kind: type[T], body: object, name: str) -> T:
    """One member of an answer of Quipu's own API."""
    if not isinstance(body, dict) or name not in body:
        raise misunderstood()
    return understood(kind, cast("dict[str, object]", body)[name])


def remembered(body: Mapping[str, Any]) -> RememberResponse:
    """The answer to remember and restore."""
    return _made(
        lambda: RememberResponse(
            id=body["id"],
            stored_at=body["stored_at"],
            stores=tuple(body["stores"]),
            pending_approval=body["pending_approval"],
            approval_url=body["approval_url"],
            extensions=_extensions(body),
        )
    )


def batch(body: Mapping[str, Any]) -> list[RememberResponse | QuipuError]:
    """The answers to many remembers, in order."""
    return _made(
        lambda: [
            from_problem(row["error"]) if "error" in row else remembered(row["response"])
            for row in sorted(body["results"], key=lambda row: row["index"])
        ]
    )


def recalled(body: Mapping[str, Any]) -> RecallResponse:
    """The answer to recall."""
    return _made(
        lambda: RecallResponse(
            results=tuple(_hit(hit) for hit in body["results"]),
            fusion_used=Fusion(body["fusion_used"]),
            stores_queried=tuple(body["stores_queried"]),
            latency_ms=body["latency_ms"],
            extensions=_extensions(body),
        )
    )


def _hit(body: Mapping[str, Any]) -> Hit:
    provenance: dict[str, Any] = dict(body["provenance"])
    return Hit(
        id=body["id"],
        type=MemoryType(body["type"]),
        content=body["content"],
        score=body["score"],
        relevance=body["relevance"],
        rank=body["rank"],
        metadata=body["metadata"],
        created_at=body["created_at"],
        updated_at=body["updated_at"],
        supporting=tuple(body["supporting"]),
        source_store=body["source_store"],
        source=provenance.pop("source", None),
        provenance=formed(Provenance, provenance, strict=False),
        version=body["version"],
        agent_id=body["agent_id"],
        user_id=body.get("user_id"),
        session_id=body.get("session_id"),
        store=body["store"],
        tier=Tier(body["tier"]),
        confidence=body["confidence"],
        importance=body.get("importance"),
        tags=tuple(body.get("tags", ())),
        expires_at=body.get("expires_at"),
        stores=tuple(body.get("stores", ())),
        details={name: body[name] for name in DETAIL_FIELDS if name in body},
        demoted=body.get("demoted", False),
        foreign=body.get("foreign", False),
        redacted=body.get("redacted", False),
        truncated=body.get("truncated", False),
        signature=body.get("signature"),
        why=body.get("why"),
    )


def forgotten(body: Mapping[str, Any]) -> ForgetResponse:
    """The answer to forget."""
    return _made(
        lambda: ForgetResponse(
            forgotten_ids=tuple(body["forgotten_ids"]),
            hard_delete=body["hard_delete"],
            stores=tuple(ForgetRow(**row) for row in body["stores"]),
            pending_approval=body["pending_approval"],
            approval_url=body["approval_url"],
            extensions=_extensions(body),
        )
    )


def merged(body: Mapping[str, Any]) -> MergeResponse:
    """The answer to merge."""
    return _made(
        lambda: MergeResponse(
            canonical=body["canonical"],
            merged_count=body["merged_count"],
            strategy_used=MergeStrategy(body["strategy_used"]),
            stores=tuple(body["stores"]),
            pending_approval=body["pending_approval"],
            approval_url=body["approval_url"],
            extensions=_extensions(body),
        )
    )


def expired(body: Mapping[str, Any]) -> ExpireResponse:
    """The answer to expire."""
    return _made(
        lambda: ExpireResponse(
            matched_count=body["matched_count"],
            action_taken=ExpireAction(body["action_taken"]),
            stores=tuple(body["stores"]),
            pending_approval=body["pending_approval"],
            approval_url=body["approval_url"],
            extensions=_extensions(body),
        )
    )


def _extensions(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is said beyond the wire; where nothing was written there is no position, and the wire leaves it out."""
    return {"seq": None, **body.get("extensions", {}).get("quipu", {})}


def _made(make: Callable[[], T]) -> T:
    """The response, unless the body lacks what a response has."""
    try:
        return make()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, QuipuError) and not isinstance(error, InvalidError):
            raise
        raise misunderstood() from None
