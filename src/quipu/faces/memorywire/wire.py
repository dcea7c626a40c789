"""The wire of memorywire: what may come in, and how it becomes a request of the model.

JSON text → `loads` → `parsed` → request. The schemas in `schemas/` say what is accepted, and the bodies here mirror
them. Three small languages inside requests are passed on as they are, and the rules judge them: a filter, a
procedure, and `retain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, overload

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire_hits import HitReply, hit_body
from quipu.faces.memorywire.wire_json import loads
from quipu.faces.memorywire.wire_parts import (
    EmbeddingBody,
    LinkBody,
    PolicyBody,
    PrivacyIntentBody,
    ProvenanceBody,
)
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_records import ImportBody, ImportLine, import_line
from quipu.faces.memorywire.wire_remember import (
    LooseBatchBody,
    RememberBatch,
    RememberBatchBody,
    RememberBody,
)
from quipu.faces.memorywire.wire_replies import (
    ExpireReply,
    ForgetReply,
    MergeReply,
    RecallReply,
    RememberReply,
)
from quipu.faces.memorywire.wire_requests import ExpireBody, ForgetBody, MergeBody, RecallBody
from quipu.faces.memorywire.wire_shown import RecordReply, record_body
from quipu.model.operations import ExpireRequest, ForgetRequest, MergeRequest, RecallRequest, RememberRequest

__all__ = [
    "BODIES",
    "EmbeddingBody",
    "ExpireBody",
    "ExpireReply",
    "ForgetBody",
    "ForgetReply",
    "HitReply",
    "ImportBody",
    "ImportLine",
    "LinkBody",
    "MergeBody",
    "MergeReply",
    "PolicyBody",
    "PrivacyIntentBody",
    "ProvenanceBody",
    "RecallBody",
    "RecallReply",
    "RecordReply",
    "RememberBatch",
    "RememberBatchBody",
    "RememberBody",
    "RememberReply",
    "Request",
    "RequestBodies",
    "checked",
    "hit_body",
    "import_line",
    "loads",
    "parsed",
    "record_body",
]

RequestBodies: TypeAlias = RememberBody | RecallBody | ForgetBody | MergeBody | ExpireBody
Request: TypeAlias = (
    RememberRequest | RecallRequest | ForgetRequest | MergeRequest | ExpireRequest | RememberBatch
)
Ignored: TypeAlias = tuple[str, ...]

BODIES: Mapping[str, type[RequestBodies]] = {
    "remember": RememberBody,
    "recall": RecallBody,
    "forget": ForgetBody,
    "merge": MergeBody,
    "expire": ExpireBody,
}


def checked(operation: str, data: object, *, strict: bool = True) -> tuple[RequestBodies, Ignored]:
    """The body of one of the five operations, `extensions` included, and the names of ignored fields."""
    return read(BODIES[operation], data, strict=strict)


@overload
def parsed(
    operation: Literal["remember"], data: object, *, strict: bool = True
) -> tuple[RememberRequest, Ignored]: ...
@overload
def parsed(
    operation: Literal["recall"], data: object, *, strict: bool = True
) -> tuple[RecallRequest, Ignored]: ...
@overload
def parsed(
    operation: Literal["forget"], data: object, *, strict: bool = True
) -> tuple[ForgetRequest, Ignored]: ...
@overload
def parsed(
    operation: Literal["merge"], data: object, *, strict: bool = True
) -> tuple[MergeRequest, Ignored]: ...
@overload
def parsed(
    operation: Literal["expire"], data: object, *, strict: bool = True
) -> tuple[ExpireRequest, Ignored]: ...
@overload
def parsed(
    operation: Literal["remember_batch"], data: object, *, strict: bool = True
) -> tuple[RememberBatch, Ignored]: ...
@overload
def parsed(operation: str, data: object, *, strict: bool = True) -> tuple[Request, Ignored]: ...
def parsed(operation: str, data: object, *, strict: bool = True) -> tuple[Request, Ignored]:
    """The request that a JSON value asks for, and the names of ignored fields; or an `InvalidError`.

    Strict, an unknown field is an error. Otherwise unknown top-level fields are dropped and named.
    """
    if operation == "remember_batch":
        return _batch(data, strict)
    body, ignored = checked(operation, data, strict=strict)
    return body.to_model(), ignored


def _batch(data: object, strict: bool) -> tuple[RememberBatch, Ignored]:
    """Each item judged by itself; in an atomic batch the first that is not valid fails the call."""
    batch, ignored = read(LooseBatchBody, data, strict=strict)
    items: list[RememberRequest | InvalidError] = []
    for index, item in enumerate(batch.items):
        try:
            body, dropped = read(RememberBody, item, strict=strict, under=("items", index))
        except InvalidError as error:
            if batch.atomic:
                raise
            items.append(error)
        else:
            items.append(body.to_model())
            ignored += tuple(f"items/{index}/{name}" for name in dropped)
    return RememberBatch(tuple(items), batch.atomic), ignored
