"""What goes over the pipe between Quipu and a vendor's process: one JSON object per line.

To the worker      {"call": 7, "verb": "put", "given": [...]}     {"answer": 3, "result": ...}
From the worker    {"reply": 7, "part": ...}  {"reply": 7, "result": ...}  {"reply": 7, "error": {...}}
                   {"ask": 3, "of": 7, "what": "embed", "given": [...]}

Both ends are the same version of Quipu, so a value is written field by field and read by its annotations.
"""

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quipu.errors import BackendUnavailableError, InvalidError, QuipuError, UnsupportedError

T = TypeVar("T")
_ERRORS: Mapping[str, type[QuipuError]] = {
    kind.code: kind for kind in (BackendUnavailableError, InvalidError, UnsupportedError)
}


def line(message: Mapping[str, Any]) -> bytes:
    """One message, with the newline that ends it."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def plain(value: Any) -> Any:
    """A value of the port as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, str) or not isinstance(value, Sequence | frozenset):
        return value
    return [plain(item) for item in cast("Iterable[Any]", value)]


def read(kind: type[T], value: Any) -> T:
    """The value of that type again."""
    return cast("T", _read(kind, value))


def read_all(kind: type[T], values: Iterable[Any]) -> list[T]:
    """Several of them."""
    return [read(kind, value) for value in values]


def _read(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else _read(next(one for one in inner if one is not NoneType), value)
    if origin is tuple:
        return tuple(_read(inner[0], item) for item in value)
    if origin is frozenset:
        return frozenset(_read(inner[0], item) for item in value)
    if kind is bytes:
        return base64.b64decode(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _read(_types(kind)[name], item) for name, item in value.items()})
    return value


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def error_body(error: BaseException) -> dict[str, str | None]:
    """What is said of a failure: our own words, and where it arose; never a vendor's message."""
    if isinstance(error, QuipuError) and error.code in _ERRORS:
        place = _place(error.__cause__ or error)
        return {
            "code": error.code,
            "message": error.message,
            "reason": error.reason,
            "hint": error.hint,
            "at": place,
        }
    return {"code": None, "at": _place(error)}


def _place(error: BaseException) -> str:
    """The kind of an error and the line it came from: neither can hold memory text."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return type(error).__name__ + where


class VendorError(Exception):
    """What happened in the vendor's process: its kind and its place."""


def raised(body: Mapping[str, str | None]) -> QuipuError:
    """The error on this side, with its cause kept as far as it may be told."""
    kind = _ERRORS.get(body["code"] or "")
    if kind is None:
        error: QuipuError = BackendUnavailableError("The mirror failed.", reason="mirror_unreachable")
    else:
        error = kind(body["message"], reason=body["reason"], hint=body["hint"])
    error.__cause__ = VendorError(body["at"])
    return error
