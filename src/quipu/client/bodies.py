"""The model's requests as memorywire has them: what is not given is not sent."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from typing import Any

from quipu.errors import UnsupportedError
from quipu.faces.rest.forms import plain
from quipu.model.operations import (
    Embedding,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)

_NOT_SENT = frozenset(
    {"if_version", "details", "finds_similar", "run_id", "node_id", "memory_ref", "embedding"}
)
_NUMBER_BYTES = 4


def remember_body(request: RememberRequest) -> dict[str, Any]:
    """A remember request. `if_version` travels in a header."""
    if request.run_id is not None or request.node_id is not None:
        raise UnsupportedError(
            "A server does not take runs and nodes from a client; it knows them itself.",
            reason="run_by_client",
        )
    body = _given(request, _NOT_SENT) | plain(request.details) | _embedding(request.embedding)
    # The header asks for all that an answer has; the body, whether near-duplicates are looked for.
    return body | {"extensions": request.finds_similar}


def recall_body(request: RecallRequest) -> dict[str, Any]:
    """A recall request."""
    return _given(request, ("embedding",)) | _embedding(request.embedding)


def forget_body(request: ForgetRequest) -> dict[str, Any]:
    """A forget request."""
    return _given(request)


def merge_body(request: MergeRequest) -> dict[str, Any]:
    """A merge request."""
    return _given(request)


def expire_body(request: ExpireRequest) -> dict[str, Any]:
    """An expire request."""
    return _given(request)


def _given(request: Any, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields that say something else than their default."""
    told = ((field, getattr(request, field.name)) for field in fields(request))
    return {
        field.name: plain(value)
        for field, value in told
        if field.name not in left_out and value is not None and value != _default(field)
    }


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _embedding(embedding: Embedding | None) -> dict[str, Any]:
    """A vector as numbers; bytes are little-endian float32."""
    if embedding is None:
        return {}
    vector = embedding.vector
    if isinstance(vector, bytes):
        vector = struct.unpack(f"<{len(vector) // _NUMBER_BYTES}f", vector[: len(vector) // 4 * 4])
    return {"embedding": {"model": embedding.model, "vector": [float(number) for number in vector]}}
