"""Answers: one JSON value, or lines that come as the work goes on.

Long work answers with `{"progress": …}` any number of times and one `{"result": …}`. What goes wrong after the status
has been sent is told by a last line, `{"error": problem}`. Empty lines keep the connection open meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from quipu.faces.http.answers import as_ours
from quipu.faces.http.bodies import NDJSON
from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.problems import problem
from quipu.faces.rest.forms import dumped, plain

#: Told how far it is, whenever that is known.
Tell: TypeAlias = Callable[[Any], None]

#: So long an error may take to become the answer's own status.
_GLANCE_S = 1.0
#: Less than any proxy's patience, and than the client's.
_SILENCE_S = 10.0
#: How often progress is told.
_LOOK_S = 0.25
#: So many lines wait for a slow reader.
_AHEAD = 64


def answered(value: object, status: int = 200) -> Response:
    """A value of the model, or a dictionary of them, as JSON."""
    return JSONResponse(plain(value), status)


def nothing() -> Response:
    """Done, and nothing to tell."""
    return Response(status_code=204)


async def streamed(request: Request, items: AsyncIterator[object]) -> Response:
    """Values as lines, as they come. What goes wrong at once is the answer's status."""
    lines = _lines(request, items)
    try:
        first = await anext(lines)
    except StopAsyncIteration:
        first = b""
    return StreamingResponse(_on(first, lines), media_type=NDJSON)


async def worked(request: Request, work: Callable[[Tell], Awaitable[object]]) -> Response:
    """Long work: how far it is, then its result."""
    return await streamed(request, _work(work))


async def _on(first: bytes, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for line in lines:
            yield line
    finally:
        await lines.aclose()


async def _lines(request: Request, items: AsyncIterator[object]) -> AsyncGenerator[bytes]:
    news: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_AHEAD)

    async def read() -> None:
        try:
            async for item in items:
                await news.put(dumped(plain(item)))
            await news.put(None)
        except Exception as error:  # noqa: BLE001  told to the caller, as a status or as the last line
            await news.put(error)

    reading = asyncio.create_task(read())
    patience = _GLANCE_S
    try:
        while True:
            try:
                async with asyncio.timeout(patience):
                    item = await news.get()
            except TimeoutError:
                item = b"\n"
            match item:
                case None:
                    return
                case Exception():
                    if patience == _GLANCE_S:
                        raise item
                    yield dumped({"error": _told(request, item)})
                    return
                case bytes():
                    yield item
            patience = _SILENCE_S
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _work(work: Callable[[Tell], Awaitable[object]]) -> AsyncGenerator[dict[str, object]]:
    latest: list[object] = []

    async def run() -> object:
        return await work(latest.append)

    task = asyncio.create_task(run())
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_S)
            if latest:
                yield {"progress": latest[-1]}
                latest.clear()
        yield {"result": await task}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _told(request: Request, error: Exception) -> dict[str, Any]:
    exchange = exchange_of(request.scope)
    return problem(as_ours(error, exchange), exchange.request_id)
