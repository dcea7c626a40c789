"""What a caller sent, wherever it stands: path, query, headers, body."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request as HttpRequest

from quipu.errors import Fault, InvalidError
from quipu.model.value import strict_json
from quipu.operation import AnyOperation, Http, invalid
from quipu.schemas import fields, from_texts

JSON, NDJSON = "application/json", "application/x-ndjson"
#: The longest line of an NDJSON body: as long as a whole body may be.
LINE_BYTES = 4 << 20
#: `Prefer: wait` waits no longer.
LONGEST_WAIT_S = 60
_SAFE_IN_HEADER = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"


async def request_fields(operation: AnyOperation, http: HttpRequest) -> dict[str, Any]:
    """The fields of a request. Nothing may be said twice, and a word that is no field is refused by the model."""
    route = operation.http
    assert route is not None
    body: Mapping[str, Any] = {}
    if route.body == "json" and route.method not in ("GET", "DELETE"):
        body = await json_body(http, is_required=_needs_body(operation, route), items=route.lines)
    return joined(operation, http, body)


def joined(operation: AnyOperation, http: HttpRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body with those that stand elsewhere."""
    route = operation.http
    assert route is not None
    parts = [body, http.path_params]
    if http.scope["query_string"]:
        texts = {name: http.query_params.getlist(name) for name in http.query_params}
        parts.append(from_texts(operation.request, texts))
    if route.headers:
        headers = {
            name: [_header_field(header, value)]
            for header, name in route.headers.items()
            if (value := http.headers.get(header)) is not None
        }
        parts.append(from_texts(operation.request, headers))
    found = {name: value for part in parts for name, value in part.items()}
    if len(found) != sum(map(len, parts)):
        raise invalid([Fault("", "bad_value", "each field in one place only: path, query, header or body")])
    return found


def _header_field(header: str, value: str) -> str:
    """An entity tag stands in quotes."""
    return value.strip().removeprefix("W/").strip('"') if header == "If-Match" else value


def _needs_body(operation: AnyOperation, route: Http) -> bool:
    required = (field for field in fields(operation.request).values() if field.is_required)
    return any(f"{{{field.name}}}" not in route.path for field in required)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a caller would like (RFC 7240); what is not known is passed over."""

    #: A field that is not known is left out, and the answer names it.
    is_lenient: bool = False
    #: So many seconds an answer may wait for a person; None: not at all.
    wait_s: int | None = None


_NONE = Preferences()


def preferences(http: HttpRequest) -> Preferences:
    """The header Prefer."""
    given = http.headers.getlist("prefer")
    if not given:
        return _NONE
    words = [
        word.strip().lower() for header in given for part in header.split(",") for word in part.split(";")
    ]
    waits = [word.removeprefix("wait=") for word in words if word.startswith("wait=")]
    wait_s = None
    if waits:
        if not (waits[0].isascii() and waits[0].isdecimal() and len(waits[0]) < 6):
            raise invalid([Fault("/Prefer", "bad_value", f"wait=N, N from 0 to {LONGEST_WAIT_S} seconds")])
        wait_s = min(int(waits[0]), LONGEST_WAIT_S)
    return Preferences("handling=lenient" in words, wait_s)


def header_text(text: str) -> str:
    """The text as it may stand in a header: anything but visible ASCII is percent-encoded."""
    return quote(text, safe=_SAFE_IN_HEADER, errors="replace")


# -- bodies -----------------------------------------------------------------------------------------------------------


def media_type(http: HttpRequest) -> str:
    """What the body says it is."""
    return http.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(
    http: HttpRequest, *, is_required: bool = True, items: str | None = None
) -> dict[str, Any]:
    """One JSON object. Where a field may stand for the whole body, `items` is its name, and a list is that field."""
    raw = await http.body()
    if not raw and not is_required:
        return {}
    if media_type(http) != JSON:
        # A page in a browser can send other types to a server that it must not reach.
        raise invalid([Fault("", "bad_content_type", JSON if items is None else f"{JSON} or {NDJSON}")])
    return json_object(raw, items=items)


def json_object(body: bytes, *, items: str | None = None) -> dict[str, Any]:
    """Python's reader with two hooks: pydantic's own lets a second `content` win and takes NaN into free JSON."""
    try:
        found: Any = strict_json(body.decode("utf-8"))
    except ValueError as error:
        raise _bad_json() from error
    if isinstance(found, list) and items is not None:
        return {items: found}
    if not isinstance(found, dict):
        raise _bad_json()
    return found  # pyright: ignore[reportUnknownVariableType]  whatever the caller sent


def _bad_json() -> InvalidError:
    return invalid([Fault("", "bad_json", "a JSON object, each name once, no NaN")])


async def line_groups(http: HttpRequest, *, most: int) -> AsyncIterator[list[bytes | None]]:
    """The lines of a body, as many at a time as are there, at most so many; empty ones are left out.

    The body is never held whole. None stands for a line that is too long.
    """
    if media_type(http) != NDJSON:
        raise invalid([Fault("", "bad_content_type", NDJSON)])
    begun, is_too_long = bytearray(), False
    async for piece in http.stream():
        *whole, rest = piece.split(b"\n")
        group: list[bytes | None] = []
        for end in whole:
            begun += end
            if is_too_long or len(begun) > LINE_BYTES:
                group.append(None)
            elif begun.strip():
                group.append(bytes(begun.rstrip(b"\r")))
            is_too_long = False
            begun.clear()
        begun += rest
        if len(begun) > LINE_BYTES:
            is_too_long = True
            begun.clear()
        for start in range(0, len(group), most):
            yield group[start : start + most]
    if is_too_long or begun.strip():
        yield [None if is_too_long or len(begun) > LINE_BYTES else bytes(begun)]


async def uploaded(http: HttpRequest) -> AsyncIterator[bytes]:
    """A body as it comes."""
    async for piece in http.stream():
        if piece:
            yield piece


async def uploaded_lines(http: HttpRequest) -> AsyncIterator[bytes]:
    """The lines of a body as they come, one at a time."""
    async for group in line_groups(http, most=1):
        for text in group:
            if text is None:
                raise invalid([Fault("", "too_large", f"lines of at most {LINE_BYTES:,} bytes")])
            yield text
