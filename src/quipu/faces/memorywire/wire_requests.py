"""The bodies of recall, forget, merge and expire, as `schemas/operations` has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from quipu.faces.memorywire.wire_faults import refused
from quipu.faces.memorywire.wire_names import TypeName
from quipu.faces.memorywire.wire_parts import (
    EmbeddingBody,
    Integer,
    Key,
    Natural,
    Object,
    PolicyBody,
    Positive,
    RequestBody,
    Strings,
)
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    Floor,
    ForgetRequest,
    Fusion,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    Redact,
)
from quipu.model.record import MemoryType


class RecallBody(RequestBody):
    """Find the memories that answer a query."""

    agent_id: str
    query: Annotated[str, Field(min_length=1)]
    user_id: str | None = None
    k: Annotated[Integer, Field(ge=1, le=1000)] = 5
    types: Annotated[list[TypeName], Field(fail_fast=True)] | None = None
    hops: Annotated[Integer, Field(ge=0, le=3)] = 0
    fusion: Literal["rrf", "max", "weighted"] = "rrf"
    filter: Object | None = None
    fresher_than_days: Natural | None = None
    store: str | None = None
    session_id: str | None = None
    min_relevance: float | str = "auto"
    as_of: str | None = None
    max_tokens: Positive | None = None
    quorum_k: Annotated[Integer, Field(ge=1, le=16)] = 1
    redact: Literal["mask", "omit", "none"] = "mask"
    embedding: EmbeddingBody | None = None
    deadline_ms: Annotated[Integer, Field(ge=10, le=60_000)] | None = None
    approval_required: bool = False
    explain: bool = False
    extensions: bool = False

    @field_validator("min_relevance", mode="plain")
    @classmethod
    def _share_or_name(cls, value: object) -> float | str:
        if isinstance(value, str) and value in tuple(Floor):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        raise refused(
            "bad_value", "Not a relevance floor.", "number from 0 to 1", *(floor.value for floor in Floor)
        )

    def to_model(self) -> RecallRequest:
        floor = self.min_relevance
        return RecallRequest(
            agent_id=self.agent_id,
            query=self.query,
            user_id=self.user_id,
            k=self.k,
            types=tuple(MemoryType(name) for name in self.types or ()),
            hops=self.hops,
            fusion=Fusion(self.fusion),
            filter=self.filter or None,
            fresher_than_days=self.fresher_than_days,
            store=self.store,
            session_id=self.session_id,
            min_relevance=Floor(floor) if isinstance(floor, str) else floor,
            as_of=self.as_of,
            max_tokens=self.max_tokens,
            quorum_k=self.quorum_k,
            redact=Redact(self.redact),
            embedding=None if self.embedding is None else self.embedding.to_model(),
            deadline_ms=self.deadline_ms,
            approval_required=self.approval_required,
            explain=self.explain,
        )


class ForgetBody(RequestBody):
    """Forget or erase the named and the matching records."""

    agent_id: str
    user_id: str | None = None
    ids: Strings | None = None
    filter: Object | None = None
    hard_delete: bool = False
    reason: str | None = None
    approval_required: bool = False
    store: str | None = None
    dry_run: bool = False
    reasoning: str | None = None
    idempotency_key: Key | None = None
    extensions: bool = False

    @model_validator(mode="after")
    def _scoped(self) -> ForgetBody:
        if not self.ids and not self.filter:
            raise refused("no_scope", "Say what to forget: ids, or a filter.", at=("ids", "filter"))
        return self

    def to_model(self) -> ForgetRequest:
        return ForgetRequest(
            agent_id=self.agent_id,
            user_id=self.user_id,
            ids=tuple(self.ids or ()),
            filter=self.filter or None,
            hard_delete=self.hard_delete,
            reason=self.reason,
            approval_required=self.approval_required,
            store=self.store,
            dry_run=self.dry_run,
            reasoning=self.reasoning,
            idempotency_key=self.idempotency_key,
        )


class MergeBody(RequestBody):
    """Collapse duplicates into one canonical record."""

    agent_id: str
    canonical: str
    duplicates: Annotated[Strings, Field(min_length=1)]
    strategy: Literal["keep_canonical", "merge_content", "keep_highest_confidence"] = "keep_canonical"
    approval_required: bool = False
    store: str | None = None
    dry_run: bool = False
    reasoning: str | None = None
    idempotency_key: Key | None = None
    extensions: bool = False

    def to_model(self) -> MergeRequest:
        return MergeRequest(
            agent_id=self.agent_id,
            canonical=self.canonical,
            duplicates=tuple(self.duplicates),
            strategy=MergeStrategy(self.strategy),
            approval_required=self.approval_required,
            store=self.store,
            dry_run=self.dry_run,
            reasoning=self.reasoning,
            idempotency_key=self.idempotency_key,
        )


class ExpireBody(RequestBody):
    """Apply an expiry policy."""

    null_means_absent = frozenset({"policy"})

    agent_id: str
    policy: PolicyBody
    action: Literal["forget", "archive", "demote"] = "forget"
    store: str | None = None
    user_id: str | None = None
    filter: Object | None = None
    approval_required: bool = False
    reason: str | None = None
    dry_run: bool = False
    idempotency_key: Key | None = None
    extensions: bool = False

    def to_model(self) -> ExpireRequest:
        return ExpireRequest(
            agent_id=self.agent_id,
            policy=self.policy.to_model(),
            action=ExpireAction(self.action),
            store=self.store,
            user_id=self.user_id,
            filter=self.filter or None,
            approval_required=self.approval_required,
            reason=self.reason,
            dry_run=self.dry_run,
            idempotency_key=self.idempotency_key,
        )
