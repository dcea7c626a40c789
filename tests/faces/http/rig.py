"""A face made for testing the plumbing: every manner a real one may have, and nothing of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quipu.errors import Fault, InvalidError, NotFoundError, QuipuError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import NDJSON, json_body, json_object, lines, media_type
from quipu.faces.http.catalogue import Face
from quipu.faces.http.headers import header_text
from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from tests.architecture.tree import ROOT

PROBLEM = json.loads((ROOT / "schemas" / "problem.json").read_text("utf-8"))
#: Never to be found in an answer, a log or a metric unless it was asked for.
SECRET = "zqsecretmark"  # noqa: S105  a word to look for, no password


def checked_problem(body: Any, status: int, code: str, reason: str | None = None) -> dict[str, Any]:
    """A body that the published schema accepts and that says what it should."""
    jsonschema.Draft202012Validator(PROBLEM).validate(body)
    assert (body["status"], body["code"], body.get("reason")) == (status, code, reason)
    assert body["request_id"].startswith("req_")
    assert body["type"] == f"urn:quipu:error:{code}"
    return body


def problem(response: Any, status: int, code: str, reason: str | None = None) -> dict[str, Any]:
    """The same, of a whole response."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = checked_problem(response.json(), status, code, reason)
    assert response.headers["quipu-request-id"] == body["request_id"]
    return body


class Rig:
    """The face, and what tests hold in their hands while it works."""

    def __init__(self) -> None:
        #: Requests that have come to `wait`, and what lets them go on.
        self.waiting = 0
        self.finished = 0
        self.is_open = False
        self.error: Exception = QuipuError()

    def faces(self, service: MemoryService) -> Sequence[Face]:
        self._service = service
        base = "/rig"
        routes = [
            Route(f"{base}/public", self.public),
            Route(f"{base}/whoami", self.whoami),
            Route(f"{base}/echo", self.echo, methods=["POST"]),
            Route(f"{base}/object", self.an_object, methods=["POST"]),
            Route(f"{base}/lines", self.lines, methods=["POST"]),
            Route(f"{base}/wait", self.wait, methods=["GET"]),
            Route(f"{base}/wait", self.wait, methods=["POST"]),
            Route(f"{base}/events", self.events),
            Route(f"{base}/fail", self.fail),
            Route(f"{base}/half", self.half),
            Route(f"{base}/large", self.large),
            Route(f"{base}/page", self.page),
            Route(f"{base}/header", self.header),
            Route(f"{base}/items/{{name}}", self.item),
            Route(f"{base}/remember", self.remember, methods=["POST"]),
        ]
        streaming = frozenset({f"{base}/lines", f"{base}/events"})
        return [
            Face(
                name="rig",
                routes=routes,
                prefix=base,
                public=frozenset({f"{base}/public"}),
                streaming=streaming,
                unbounded=frozenset({f"{base}/lines"}),
                operations={f"{base}/remember": "remember"},
            )
        ]

    async def public(self, request: Request) -> Response:
        principal = getattr(request.state, "principal", None)
        return JSONResponse({"name": None if principal is None else principal.name})

    async def whoami(self, request: Request) -> Response:
        principal = principal_of(request)
        return JSONResponse({"name": principal.name, "tenant": principal.tenant})

    async def echo(self, request: Request) -> Response:
        return JSONResponse(await json_body(request))

    async def an_object(self, request: Request) -> Response:
        return JSONResponse(await json_object(request, may_be_empty=True))

    async def lines(self, request: Request) -> Response:
        media_type(request, NDJSON)
        found = lines(request, longest=1000)
        first = await anext(found, None)
        self.waiting += 1

        async def told() -> AsyncIterator[bytes]:
            count = 0 if first is None else 1
            yield b'{"line":1}\n' if count else b""
            async for _ in found:
                count += 1
                yield f'{{"line":{count}}}\n'.encode()
            yield f'{{"summary":{count}}}\n'.encode()

        return StreamingResponse(told(), media_type=NDJSON)

    async def wait(self, _request: Request) -> Response:
        """Until the test opens the gate; a cancelled wait is no finished one."""
        self.waiting += 1
        while not self.is_open:  # noqa: ASYNC110  set from the test's thread
            await asyncio.sleep(0.01)
        self.finished += 1
        return JSONResponse({"done": True})

    async def events(self, _request: Request) -> Response:
        async def endless() -> AsyncIterator[bytes]:
            self.waiting += 1
            number = 0
            try:
                while True:
                    number += 1
                    yield f"id: {number}\ndata: {'x' * 2000}\n\n".encode()
                    await asyncio.sleep(0.02)
            finally:
                self.finished += 1

        return StreamingResponse(endless(), media_type="text/event-stream")

    async def fail(self, _request: Request) -> Response:
        raise self.error

    async def half(self, _request: Request) -> Response:
        async def broken() -> AsyncIterator[bytes]:
            yield b"the first half"
            await asyncio.sleep(0)
            raise RuntimeError(SECRET)

        return StreamingResponse(broken(), media_type="text/plain")

    async def large(self, _request: Request) -> Response:
        return JSONResponse({"text": "x" * 100_000})

    async def page(self, _request: Request) -> Response:
        return Response("<p>x</p>" * 10_000, media_type="text/html")

    async def header(self, request: Request) -> Response:
        return Response(headers={"X-Told": header_text(request.query_params["text"])})

    async def item(self, request: Request) -> Response:
        error = NotFoundError("It was merged.", reason="record")
        error.merged_into = "mem_2"  # type: ignore[attr-defined]  what a service puts on its errors
        if request.path_params["name"] == "wrong":
            raise InvalidError("Wrong.", reason="bad_value", faults=[Fault("/a~1b", "bad_value", ("x", "y"))])
        raise error

    async def remember(self, request: Request) -> Response:
        body = await json_object(request)
        wanted = RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content=body["content"])
        answer = await self._service.remember(principal_of(request), wanted)
        return JSONResponse({"id": answer.id})


def store_in(folder: Path) -> Path:
    """Where a test keeps its memory."""
    return folder / "memory.db"
