"""A body that names a file by its address, where a file could stand as well."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request

from quipu.errors import InvalidError
from quipu.faces.http.json_text import loads, refuse_deep

#: No address with its members is longer; what is, is a file.
_LONGEST = 16 << 10
#: A length may be written with as many zeros before it as a header holds; with more digits it is not read.
_DIGITS = 18


async def linked(request: Request, members: frozenset[str]) -> dict[str, Any] | None:
    """`{"url": ...}`, perhaps with some of `members`; None where the body is a file, and can still be read as one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    is_told = length.isascii() and length.isdecimal() and len(length) <= _DIGITS
    if not kind.endswith("json") or not is_told or int(length) > _LONGEST:
        return None
    data = await request.body()
    try:
        refuse_deep(data)
        value: object = loads(data)
    except InvalidError:
        return None
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not isinstance(given.get("url"), str) or given.keys() - members - {"url"}:
        return None
    return given
