"""The bodies of remember and batch remember, as `schemas/operations` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import Field, ValidationInfo, field_validator, model_validator

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire_faults import refused
from quipu.faces.memorywire.wire_names import SentimentName, TypeName
from quipu.faces.memorywire.wire_parts import (
    EmbeddingBody,
    Integer,
    Key,
    LinkBody,
    Object,
    PrivacyIntentBody,
    RequestBody,
    Share,
    Strings,
    Tag,
)
from quipu.model.operations import Embedding, RememberRequest, UpdateStrategy
from quipu.model.record import DETAIL_FIELDS, MemoryType
from quipu.model.store import MAIN

Upto256: TypeAlias = Annotated[str, Field(max_length=256)]


class RememberBody(RequestBody):
    """Keep a memory, or change one when `id` is given."""

    agent_id: Annotated[str, Field(min_length=1, max_length=256)]
    user_id: Upto256 | None = None
    type: TypeName
    content: str | Object
    metadata: Object | None = None
    confidence: Share = 1.0
    source: str | None = None
    expires_at: Integer | None = None
    approval_required: bool = False
    store: str = MAIN
    session_id: str | None = None
    id: str | None = None
    update_strategy: Literal["overwrite", "merge", "append"] = "overwrite"
    importance: Share | None = None
    idempotency_key: Key | None = None
    privacy_intent: PrivacyIntentBody | None = None
    embedding: EmbeddingBody | None = None
    tags: Annotated[list[Tag], Field(max_length=64)] | None = None
    links: Annotated[list[LinkBody], Field(max_length=64)] | None = None
    event_time: Integer | None = None
    location: str | None = None
    participants: Strings | None = None
    sentiment: SentimentName | None = None
    valence: Annotated[float, Field(ge=-1, le=1)] | None = None
    arousal: Share | None = None
    emotion: str | None = None
    target: str | None = None
    reasoning: str | None = None
    extensions: bool = False

    @field_validator("content", mode="plain")
    @classmethod
    def _text_or_machine(cls, value: object, info: ValidationInfo) -> str | Object:
        """Text, or an object for a procedure. Whether it is a machine that works is for the rules to say."""
        if isinstance(value, str):
            if not value:
                raise refused("bad_value", "The content is empty.", "at least 1 character")
            return value
        if not isinstance(value, dict):
            raise refused("bad_value", "The content is not text.", "string")
        if info.data.get("type", "procedural") != "procedural":
            raise refused("wrong_type", "Only a procedure's content may be an object.", "string")
        return cast("Object", value)

    @field_validator(*DETAIL_FIELDS)
    @classmethod
    def _of_this_type(cls, value: object, info: ValidationInfo) -> object:
        only = DETAIL_FIELDS[cast("str", info.field_name)]
        if info.data.get("type", only) != only:
            raise refused("wrong_type", f"This field belongs to {only.value} memories.", only.value)
        return value

    @model_validator(mode="after")
    def _append_to_something(self) -> RememberBody:
        if self.update_strategy != "overwrite" and self.id is None:
            raise refused(
                "bad_value", "This strategy goes with the id of a record.", "id", at=("update_strategy",)
            )
        return self

    def to_model(self, embedding: Embedding | None = None) -> RememberRequest:
        """The request; a vector that did not come as JSON is handed in."""
        details = {n: v for n in DETAIL_FIELDS if (v := getattr(self, n)) is not None}
        return RememberRequest(
            agent_id=self.agent_id,
            type=MemoryType(self.type),
            content=self.content,
            user_id=self.user_id,
            metadata=self.metadata,
            # An append keeps what is not given, so absent stays absent.
            confidence=self.confidence if "confidence" in self.model_fields_set else None,
            source=self.source,
            expires_at=self.expires_at,
            approval_required=self.approval_required,
            store=self.store,
            session_id=self.session_id,
            id=self.id,
            update_strategy=UpdateStrategy(self.update_strategy),
            importance=self.importance,
            idempotency_key=self.idempotency_key,
            privacy_intent=None if self.privacy_intent is None else self.privacy_intent.to_model(),
            embedding=embedding if self.embedding is None else self.embedding.to_model(),
            tags=None if self.tags is None else tuple(self.tags),
            links=None if self.links is None else tuple(link.to_model() for link in self.links),
            details=details,
            reasoning=self.reasoning,
            finds_similar=self.extensions,
        )


@dataclass(frozen=True, slots=True)
class RememberBatch:
    """Many remember requests. Unless `atomic`, an item that is not valid stands as its error in its place."""

    items: tuple[RememberRequest | InvalidError, ...]
    atomic: bool = False


class RememberBatchBody(RequestBody):
    """Many remember requests, all valid."""

    items: Annotated[list[RememberBody], Field(min_length=1, max_length=1000)]
    atomic: bool = False

    def to_model(self) -> RememberBatch:
        return RememberBatch(tuple(item.to_model() for item in self.items), self.atomic)


class LooseBatchBody(RequestBody):
    """The same with items as they came, to be judged one by one."""

    items: Annotated[list[object], Field(min_length=1, max_length=1000)]
    atomic: bool = False
