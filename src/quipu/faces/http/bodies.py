"""Reading what was sent, with every check: media type, JSON, depth, sizes. Limits themselves are in `receiving`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from starlette.requests import Request

from quipu.errors import Fault, InvalidError
from quipu.faces.http.json_text import loads, refuse_deep

JSON = "application/json"
NDJSON = "application/x-ndjson"
#: The longest line of an NDJSON body: as long as a whole body may be.
LINE_BYTES = 4 << 20


def media_type(request: Request, *accepted: str) -> str:
    """The media type of the body, if it is one of those accepted."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in accepted:
        message = f"The body must be {' or '.join(accepted)}."
        raise InvalidError(message, reason="media_type", faults=[Fault("", "media_type", tuple(accepted))])
    return given


async def json_body(request: Request) -> object:
    """The value that a JSON body stands for."""
    media_type(request, JSON)
    body = await request.body()
    refuse_deep(body)
    return loads(body)


async def json_object(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The object that a JSON body is. With `may_be_empty` no body at all is an empty object."""
    if may_be_empty and not await request.body():
        return {}
    value = await json_body(request)
    if not isinstance(value, dict):
        raise InvalidError.at("", "bad_json", "The body must be a JSON object.", accepted=["object"])
    return cast("dict[str, Any]", value)


async def lines(request: Request, *, longest: int = LINE_BYTES) -> AsyncIterator[bytes]:
    """The lines of a body, one at a time, without their ends; empty ones are left out.

    The body is never held whole. A line that is longer than `longest` bytes is refused.
    """
    begun: list[bytes] = []
    size = 0
    async for piece in request.stream():
        first, *others = piece.split(b"\n")
        begun.append(first)
        size += len(first)
        if size > longest:
            raise _too_long(longest)
        if others:
            whole = [b"".join(begun), *others[:-1]]
            begun, size = [others[-1]], len(others[-1])
            for line in filter(bytes.strip, whole):
                yield _fitting(line.rstrip(b"\r"), longest)
    if (last := b"".join(begun)).strip():
        yield _fitting(last.rstrip(b"\r"), longest)


def _fitting(line: bytes, longest: int) -> bytes:
    if len(line) > longest:
        raise _too_long(longest)
    return line


def _too_long(longest: int) -> InvalidError:
    return InvalidError.at("", "too_large", "A line is too long.", accepted=[f"at most {longest} bytes"])
