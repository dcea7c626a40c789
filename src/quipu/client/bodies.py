"""The model's requests as memorywire has them: what is not given is not sent."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, cast

from quipu.errors import InvalidError, UnsupportedError
from quipu.faces.http.json_text import DEPTH
from quipu.model.operations import (
    Embedding,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.rules import values

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
    body = _given(request, _NOT_SENT) | sent(request.details) | _embedding(request.embedding)
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


def sent(value: object, pointer: str = "") -> Any:
    """A value of a request, ready for JSON, or an `InvalidError` that says where it is none.

    Nothing is bent into shape: a set would come back as a list, a number as the text of a key.
    """
    try:
        ready = _sent(value, DEPTH)
    except RecursionError:
        # `from None`: the cause may hold the value.
        raise InvalidError.at(pointer, "too_large", "The object is nested too deeply.") from None
    wrong = next(values.value_faults(pointer, ready, DEPTH), None)
    if wrong is not None:
        fault, message = wrong
        raise InvalidError(message, reason=fault.reason, faults=[fault])
    return ready


def _sent(value: object, depth: int) -> Any:
    """Requests and their words as JSON has them; what is no JSON stays as it is, and is told."""
    if depth < 0:
        raise RecursionError
    if isinstance(value, Mapping):
        given = cast("Mapping[object, object]", value)
        return {name: _sent(member, depth - 1) for name, member in given.items()}
    if isinstance(value, list | tuple):
        return [_sent(item, depth - 1) for item in cast("Sequence[object]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        members = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: _sent(member, depth - 1) for name, member in members if member is not None}
    return value.value if isinstance(value, Enum) else value


def _given(request: Any, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields that say something else than their default."""
    told = ((field, getattr(request, field.name)) for field in fields(request))
    return {
        field.name: sent(value, f"/{field.name}")
        for field, value in told
        if field.name not in left_out and not _is_default(field, value)
    }


def _is_default(field: Field[Any], value: object) -> bool:
    """The very same: 0 is no False, and None where something has to be is the server's to refuse."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return type(value) is type(default) and value == default


def _embedding(embedding: Embedding | None) -> dict[str, Any]:
    """A vector as numbers; bytes are little-endian float32."""
    if embedding is None:
        return {}
    vector = embedding.vector
    if isinstance(vector, bytes):
        vector = struct.unpack(f"<{len(vector) // _NUMBER_BYTES}f", vector[: len(vector) // 4 * 4])
    try:
        numbers = [float(number) for number in vector]
    except (TypeError, ValueError, OverflowError):
        # `from None`: the cause may hold the value.
        raise InvalidError.at(
            "/embedding/vector", "bad_value", "vector is not a list of numbers.", accepted=["list of numbers"]
        ) from None
    return {"embedding": sent({"model": embedding.model, "vector": numbers}, "/embedding")}
