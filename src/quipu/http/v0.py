"""memorywire v0, a wire of its own beside ours: its paths, its closed answers, our operations.

It translates names and shapes and decides nothing: `parse` and `dispatch` are the same as everywhere, so rules, limits
and error codes are too.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from quipu.errors import NotFoundError
from quipu.http.authentication import Authentication
from quipu.http.routes import DecisionWait, Dialect, Dump, operation_endpoints
from quipu.memory.memorywire import closed_answer, open_request, v0_schemas
from quipu.operation import AnyOperation, Response
from quipu.schemas import Operations

PREFIX = "/memorywire/v0"


def v0_operations(operations: Operations) -> Mapping[str, AnyOperation]:
    """Those that v0 has, by its names for them, each at its address there."""
    return {
        operation.http.v0: replace(
            operation, http=replace(operation.http, path=f"{PREFIX}/{operation.http.v0}")
        )
        for operation in operations
        if operation.http is not None and operation.http.v0 is not None
    }


def v0_dialect(name: str) -> Dialect:
    """One of v0's operations in v0's forms."""

    def opened(http: HttpRequest, given: dict[str, Any]) -> tuple[dict[str, Any], Dump]:
        has_extensions = http.headers.get("quipu-extensions", "").strip().lower() == "true"
        if isinstance(given.get("extensions"), bool):
            has_extensions = given.pop("extensions") or has_extensions

        def dump(response: Response) -> bytes:
            body = closed_answer(name, response, has_extensions=has_extensions)
            return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()

        return open_request(name, given), dump

    return opened


def v0_endpoints(
    operations: Operations, authentication: Authentication, waiting: DecisionWait | None = None
) -> list[tuple[str, str, ASGIApp]]:
    """Method, path and application of each."""
    return [
        endpoint
        for name, operation in v0_operations(operations).items()
        for endpoint in operation_endpoints([operation], authentication, waiting, v0_dialect(name))
    ]


def schema_routes(operations: Operations) -> list[Route]:
    """v0's schemas, for everybody."""
    schemas = v0_schemas(v0_operations(operations))

    async def names(_: HttpRequest) -> HttpResponse:
        return JSONResponse({"schemas": sorted(schemas)})

    async def one(http: HttpRequest) -> HttpResponse:
        name = http.path_params["name"]
        if name not in schemas:
            raise NotFoundError(
                "There is no such schema.", reason="schema", hint=f"{PREFIX}/schemas lists them."
            )
        return JSONResponse(schemas[name], media_type="application/schema+json")

    return [Route(f"{PREFIX}/schemas", names), Route(f"{PREFIX}/schemas/{{name}}", one)]
