"""What reviewers decide, and why records are brought back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from quipu.faces.memorywire.wire_faults import refused
from quipu.faces.memorywire.wire_names import TypeName
from quipu.faces.memorywire.wire_parts import (
    Body,
    Integer,
    Name,
    Object,
    PrivacyIntentBody,
    RequestBody,
    Share,
    Tag,
)
from quipu.model.governance import Edit
from quipu.model.record import MemoryType


class EditBody(Body):
    """What a reviewer changes before it is committed."""

    content: str | Object | None = None
    type: TypeName | None = None
    metadata: Object | None = None
    tags: Annotated[list[Tag], Field(max_length=64)] | None = None
    confidence: Share | None = None
    expires_at: Integer | None = None
    privacy_intent: PrivacyIntentBody | None = None

    def edit(self) -> Edit:
        """What the service is asked for."""
        return Edit(
            content=self.content,
            type=None if self.type is None else MemoryType(self.type),
            metadata=self.metadata,
            tags=None if self.tags is None else tuple(self.tags),
            confidence=self.confidence,
            expires_at=self.expires_at,
            privacy_intent=None if self.privacy_intent is None else self.privacy_intent.to_model(),
        )


class MergeIntoBody(Body):
    """The record that a reviewer wants the new text merged into."""

    canonical: str
    strategy: Literal["keep_canonical", "merge_content", "keep_highest_confidence"] = "keep_canonical"


class DecisionBody(RequestBody):
    """What a reviewer decides."""

    approved: bool
    reason: str | None = None
    etag: str | None = None
    edit: EditBody | None = None
    merge_into: MergeIntoBody | None = None
    supersedes: Annotated[list[Name], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _a_no_changes_nothing(self) -> DecisionBody:
        if not self.approved and self.beyond:
            raise refused("bad_value", "A no changes nothing.", at=self.beyond)
        return self

    @property
    def beyond(self) -> tuple[str, ...]:
        """What is asked for beside a yes or no."""
        given: dict[str, Any] = {
            "edit": self.edit,
            "merge_into": self.merge_into,
            "supersedes": self.supersedes,
        }
        return tuple(name for name, value in given.items() if value is not None)


class RestoreBody(RequestBody):
    """Why a record is brought back."""

    reason: str | None = None
