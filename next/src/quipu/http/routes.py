"""Operations as routes: read, dispatch, answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse
from starlette.routing import Route

from quipu.errors import QuipuError
from quipu.http.problems import problem_body
from quipu.http.read import request_fields
from quipu.operation import AnyOperation, Context, Response, authorised, dispatch, dispatch_stream
from quipu.schemas import Operations

Authenticate = Callable[[HttpRequest], Awaitable[Context]]
#: An event stream that has nothing to say is seen to be alive so often, and its credential is looked at again.
_HEARTBEAT_S = 15.0


def operation_routes(operations: Operations, authenticate: Authenticate) -> list[Route]:
    """One route for each operation that is reached over HTTP; fixed paths before those with a parameter."""
    served = [operation for operation in operations if operation.http is not None]
    routes = [_route(operation, authenticate) for operation in served]
    return sorted(routes, key=lambda route: (route.path.count("{"), -len(route.path)))


def _route(operation: AnyOperation, authenticate: Authenticate) -> Route:
    route = operation.http
    assert route is not None

    async def endpoint(http: HttpRequest) -> HttpResponse:
        ctx = await authenticate(http)
        given = await request_fields(operation, http)
        if operation.is_stream:
            return await _streamed(ctx, operation, given, http, authenticate)
        response = await dispatch(ctx, operation, given)
        return answer(ctx, response)

    return Route(route.path, endpoint, methods=[route.method], name=operation.name)


def answer(ctx: Context, response: Response) -> HttpResponse:
    """200, or 202 when a person decides; the version as an entity tag."""
    headers: dict[str, str] = {}
    if ctx.facts.seq is not None:
        headers["Quipu-Seq"] = str(ctx.facts.seq)
    if getattr(response, "replayed", False):
        headers["Idempotency-Replayed"] = "true"
    version = getattr(response, "version", None)
    if isinstance(version, int):
        headers["ETag"] = f'"{version}"'
    body = response.model_dump_json()
    return HttpResponse(body, 202 if response.is_held else 200, headers, media_type="application/json")


async def _streamed(
    ctx: Context,
    operation: AnyOperation,
    given: dict[str, Any],
    http: HttpRequest,
    authenticate: Authenticate,
) -> HttpResponse:
    """Items as server-sent events, or as lines of JSON. What is refused is refused before the stream begins."""
    request = authorised(ctx.principal, operation, operation.request.parse(given))
    route = operation.http
    assert route is not None
    items = dispatch_stream(ctx, operation, request)
    if route.answers == "events":

        async def still_allowed() -> None:
            renewed = await authenticate(http)
            authorised(renewed.principal, operation, request)

        return StreamingResponse(
            _events(items, still_allowed),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
    return StreamingResponse(_lines(items), media_type="application/x-ndjson")


async def _lines(items: AsyncIterator[Response]) -> AsyncIterator[bytes]:
    async with aclosing(items):  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]  an async generator
        try:
            async for item in items:
                yield item.model_dump_json().encode() + b"\n"
        except QuipuError as error:
            yield json.dumps({"error": problem_body(error, "")}).encode() + b"\n"


async def _events(
    items: AsyncIterator[Response], still_allowed: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """Ends when the caller goes, and when its credential is no longer good."""
    following = asyncio.ensure_future(anext(items, None))
    yield b": quipu\n\n"
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=_HEARTBEAT_S)
            if not done:
                try:
                    await still_allowed()
                except QuipuError:
                    return
                yield b": alive\n\n"
                continue
            item = following.result()
            if item is None:
                return
            seq = getattr(item, "seq", None)
            name = getattr(item, "type", "message")
            start = f"id: {seq}\n" if seq is not None else ""
            yield f"{start}event: {name}\ndata: {item.model_dump_json()}\n\n".encode()
            following = asyncio.ensure_future(anext(items, None))
    except QuipuError:
        return
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
