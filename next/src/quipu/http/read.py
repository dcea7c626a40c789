"""What a caller sent, wherever it stands: path, query, headers, body."""

import json
from typing import Any, cast

from starlette.requests import Request as HttpRequest

from quipu.errors import Fault, InvalidError
from quipu.operation import AnyOperation, Http, invalid
from quipu.schemas import fields, from_texts

MOST_BYTES = 4 * 1024 * 1024
_DEEPEST = 100


async def request_fields(operation: AnyOperation, http: HttpRequest) -> dict[str, Any]:
    """The fields of a request. Nothing may be said twice, and a word that is no field is refused by the model."""
    route = operation.http
    assert route is not None
    texts = {name: http.query_params.getlist(name) for name in http.query_params}
    headers = {
        name: [_header_text(header, value)]
        for header, name in route.headers.items()
        if (value := http.headers.get(header)) is not None
    }
    has_body = route.method not in ("GET", "DELETE")
    body = await json_body(http, is_required=_needs_body(operation, route)) if has_body else {}
    parts = (
        from_texts(operation.request, texts),
        from_texts(operation.request, headers),
        body,
        http.path_params,
    )
    found = {name: value for part in parts for name, value in part.items()}
    if len(found) != sum(map(len, parts)):
        raise invalid([Fault("", "bad_value", "each field in one place only: path, query, header or body")])
    return found


def _header_text(header: str, value: str) -> str:
    """An entity tag stands in quotes."""
    return value.strip().removeprefix("W/").strip('"') if header == "If-Match" else value


def _needs_body(operation: AnyOperation, route: Http) -> bool:
    required = (field for field in fields(operation.request).values() if field.is_required)
    return any(f"{{{field.name}}}" not in route.path for field in required)


async def json_body(http: HttpRequest, *, is_required: bool = True) -> dict[str, Any]:
    """One JSON object."""
    raw = await body_bytes(http)
    if not raw and not is_required:
        return {}
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # A page in a browser can send other types to a server that it must not reach.
        raise invalid([Fault("", "bad_content_type", "a body of type application/json")])
    return strict_json(raw)


async def body_bytes(http: HttpRequest) -> bytes:
    chunks, size = list[bytes](), 0
    async for chunk in http.stream():  # counted while it comes: a length in a header proves nothing
        size += len(chunk)
        if size > MOST_BYTES:
            raise invalid([Fault("", "too_large", f"a body of at most {MOST_BYTES:,} bytes")])
        chunks.append(chunk)
    return b"".join(chunks)


def strict_json(body: bytes) -> dict[str, Any]:
    """Python's reader with two hooks: pydantic's own lets a second `content` win and takes NaN into free JSON."""
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _bad_json() from error
    if not isinstance(found, dict):
        raise _bad_json()
    return cast("dict[str, Any]", found)


def _bad_json() -> InvalidError:
    return invalid([Fault("", "bad_json", "a JSON object, each name once, no NaN")])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
