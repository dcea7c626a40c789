"""A small HTTP server for operations: reads each by its binding, as the product's own does, and hands it to a function."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

from quipu.errors import NotFoundError, QuipuError
from quipu.http.streams import download
from quipu.operation import AnyOperation, Response
from quipu.schemas import from_texts

Answer = Callable[[AnyOperation, dict[str, Any]], Awaitable[Response]]
Stream = Callable[[AnyOperation, dict[str, Any]], AsyncIterator[Response]]
_STATUS = {
    "validation_error": 400,
    "unauthenticated": 401,
    "not_found": 404,
    "conflict": 409,
    "rate_limited": 429,
}


def problem(error: QuipuError) -> dict[str, Any]:
    return {
        "type": f"urn:quipu:error:{error.code}",
        "title": type(error).__doc__,
        "code": error.code,
        "reason": error.reason,
        "detail": error.message,
        "errors": [
            {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
            for fault in error.faults
        ],
        "retryable": error.is_retryable,
        "request_id": "req_1",
    }


class Server:
    """An ASGI application."""

    def __init__(
        self, operations: Sequence[AnyOperation], answer: Answer, stream: Stream | None = None
    ) -> None:
        self._answer, self._stream = answer, stream
        #: Exact paths before patterns, as `/v1/memories/recall` before `/v1/memories/{id}`.
        self._routes = sorted(
            ((operation.http, operation) for operation in operations if operation.http),
            key=lambda route: route[0].path.count("{"),
        )
        #: Methods and paths that were asked for, with their headers.
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        self.asked.append((scope["method"], scope["path"]))
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        try:
            operation, given = self._read(scope, body)
            if operation.http is not None and operation.http.answers == "file":
                assert self._stream is not None
                parts: Any = self._stream(operation, given)
                await (await download(parts))(scope, receive, send)
                return
            if operation.is_stream:
                await self._events(operation, given, send)
                return
            response = await self._answer(operation, given)
        except QuipuError as error:
            status, body = _STATUS.get(error.code, 500), problem(error)
            await _send(send, status, json.dumps(body).encode(), b"application/problem+json")
            return
        status = 202 if response.is_held else 200
        await _send(send, status, json.dumps(response.to_dict()).encode(), b"application/json")

    def _read(self, scope: Any, body: bytes) -> tuple[AnyOperation, dict[str, Any]]:
        path = scope["raw_path"].decode().partition("?")[0]
        for http, operation in self._routes:
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(http.path))
            found = re.fullmatch(pattern, path)
            if http.method == scope["method"] and found:
                texts = {name: [unquote(value)] for name, value in found.groupdict().items()}
                query = parse_qs(scope["query_string"].decode(), keep_blank_values=True, strict_parsing=False)
                given = from_texts(operation.request, {**texts, **query})
                has_fields = bool(body) and http.body == "json"
                return operation, {**given, **(json.loads(body) if has_fields else {})}
        raise NotFoundError

    async def _events(self, operation: AnyOperation, given: dict[str, Any], send: Any) -> None:
        assert self._stream is not None
        operation.request.parse(given)
        is_lines = operation.http is not None and operation.http.answers == "lines"
        await send(_start(200, b"application/x-ndjson" if is_lines else b"text/event-stream"))
        async for item in self._stream(operation, given):
            body = json.dumps(item.to_dict())
            text = f"{body}\n" if is_lines else f"id: {item.to_dict().get('seq', 0)}\ndata: {body}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


async def _send(send: Any, status: int, body: bytes, media_type: bytes) -> None:
    await send(_start(status, media_type))
    await send({"type": "http.response.body", "body": body})


def _start(status: int, media_type: bytes) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", media_type)]}
