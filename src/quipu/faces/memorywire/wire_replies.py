"""The bodies of responses. Each mirrors its schema in `schemas/operations` and is made from a response of the model.

`Reply.from_model(response, extensions).body()` is ready for JSON. Hits are plain dictionaries from the start, so a
long answer costs one dictionary for each hit and nothing more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from quipu.faces.memorywire.wire_hits import HitReply, hit_body, plain
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.value import Json, JsonObject

Count: TypeAlias = Annotated[int, Field(ge=0)]


class ExtensionsReply(TypedDict):
    """What Quipu has to say beyond memorywire v0."""

    quipu: dict[str, Any]


class Reply(BaseModel):
    """An answer of the wire: closed, with `extensions` only for those who asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def body(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {name: value for name, value in self.__dict__.items() if name in self.model_fields_set}

    @classmethod
    def made(cls, beyond: JsonObject | None, **values: Any) -> Self:
        """Without validation: the values are ours. `beyond` is what `extensions` shall say."""
        if beyond is not None:
            # Sorted, so that an answer that was kept and comes again has the same bytes, however it was kept.
            values["extensions"] = {
                "quipu": {k: _sorted(plain(v)) for k, v in sorted(beyond.items()) if v is not None}
            }
        return cls.model_construct(**values)


def _sorted(value: Json) -> Json:
    """The same value with its members in order."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class RememberReply(Reply):
    """Stored, or held for a person."""

    id: Annotated[str, Field(min_length=1)]
    stored_at: int
    stores: list[str]
    pending_approval: bool
    approval_url: str | None
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: RememberResponse, extensions: bool = False) -> RememberReply:
        return cls.made(
            response.extensions if extensions else None,
            id=response.id,
            stored_at=response.stored_at,
            stores=list(response.stores),
            pending_approval=response.pending_approval,
            approval_url=response.approval_url,
        )


class RecallReply(Reply):
    """The hits, best first."""

    results: list[HitReply]
    fusion_used: Literal["rrf", "max", "weighted"]
    stores_queried: list[str]
    latency_ms: Count
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: RecallResponse, extensions: bool = False) -> RecallReply:
        return cls.made(
            response.extensions if extensions else None,
            results=[hit_body(hit) for hit in response.results],
            fusion_used=response.fusion_used.value,
            stores_queried=list(response.stores_queried),
            latency_ms=response.latency_ms,
        )


class ForgetRowReply(TypedDict):
    """What one backend did."""

    store: str
    count: Count
    error: str | None


class ForgetReply(Reply):
    """What was really removed."""

    forgotten_ids: list[str]
    hard_delete: bool
    stores: list[ForgetRowReply]
    pending_approval: bool
    approval_url: str | None
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: ForgetResponse, extensions: bool = False) -> ForgetReply:
        return cls.made(
            response.extensions if extensions else None,
            forgotten_ids=list(response.forgotten_ids),
            hard_delete=response.hard_delete,
            stores=[{"store": row.store, "count": row.count, "error": row.error} for row in response.stores],
            pending_approval=response.pending_approval,
            approval_url=response.approval_url,
        )


class MergeReply(Reply):
    """How many duplicates really collapsed."""

    canonical: str
    merged_count: Count
    strategy_used: Literal["keep_canonical", "merge_content", "keep_highest_confidence"]
    stores: list[str]
    pending_approval: bool
    approval_url: str | None
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: MergeResponse, extensions: bool = False) -> MergeReply:
        return cls.made(
            response.extensions if extensions else None,
            canonical=response.canonical,
            merged_count=response.merged_count,
            strategy_used=response.strategy_used.value,
            stores=list(response.stores),
            pending_approval=response.pending_approval,
            approval_url=response.approval_url,
        )


class ExpireReply(Reply):
    """How many records the action changed."""

    matched_count: Count
    action_taken: Literal["forget", "archive", "demote"]
    stores: list[str]
    pending_approval: bool
    approval_url: str | None
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: ExpireResponse, extensions: bool = False) -> ExpireReply:
        return cls.made(
            response.extensions if extensions else None,
            matched_count=response.matched_count,
            action_taken=response.action_taken.value,
            stores=list(response.stores),
            pending_approval=response.pending_approval,
            approval_url=response.approval_url,
        )
