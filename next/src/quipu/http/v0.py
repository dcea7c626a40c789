"""memorywire v0, a wire of its own beside ours: its paths, its closed answers, our operations.

It translates names and shapes and decides nothing: `parse` and `dispatch` are the same as everywhere, so rules, limits
and error codes are too.
"""

import json

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.errors import Fault, NotFoundError
from quipu.http.read import json_body
from quipu.http.routes import Authenticate
from quipu.memory.memorywire import closed_answer, open_request, v0_schemas
from quipu.operation import AnyOperation, dispatch, invalid
from quipu.schemas import Operations

_PREFIX = "/memorywire/v0"


def v0_routes(operations: Operations, authenticate: Authenticate) -> list[Route]:
    """Each operation that v0 has, and its schemas."""
    served = {
        operation.http.v0: operation for operation in operations if operation.http and operation.http.v0
    }
    schemas = v0_schemas(served)

    async def names(_: HttpRequest) -> HttpResponse:
        return JSONResponse({"schemas": sorted(schemas)})

    async def one(http: HttpRequest) -> HttpResponse:
        name = http.path_params["name"]
        if name not in schemas:
            raise NotFoundError(
                "There is no such schema.", reason="schema", hint=f"{_PREFIX}/schemas lists them."
            )
        return JSONResponse(schemas[name], media_type="application/schema+json")

    return [
        *(_route(name, operation, authenticate) for name, operation in served.items()),
        Route(f"{_PREFIX}/schemas", names),
        Route(f"{_PREFIX}/schemas/{{name}}", one),
    ]


def _route(name: str, operation: AnyOperation, authenticate: Authenticate) -> Route:
    route = operation.http
    assert route is not None

    async def endpoint(http: HttpRequest) -> HttpResponse:
        ctx = await authenticate(http)
        given = await json_body(http) if route.method != "GET" else {}
        has_extensions = (
            given.pop("extensions", None) is True or http.headers.get("quipu-extensions") == "true"
        )
        ignored: list[str] = []
        if "handling=lenient" in http.headers.get("prefer", ""):
            ignored = [field for field in given if field not in operation.request.model_fields]
            given = {field: value for field, value in given.items() if field not in ignored}
        for header, field in route.headers.items():
            if (value := http.headers.get(header)) is not None:
                if field in given:
                    raise invalid([Fault(f"/{field}", "bad_value", "each field in one place only")])
                given[field] = value
        response = await dispatch(ctx, operation, open_request(name, given))
        body = closed_answer(name, response, has_extensions=has_extensions)
        headers = {"Quipu-Ignored-Fields": ", ".join(ignored)} if ignored else {}
        if ctx.facts.seq is not None:
            headers["Quipu-Seq"] = str(ctx.facts.seq)
        status = 202 if response.is_held else 200
        return HttpResponse(json.dumps(body), status, headers, media_type="application/json")

    return Route(f"{_PREFIX}/{name}", endpoint, methods=[route.method])
