"""Operations as an OpenAPI 3.1 document, and the packaged page that shows it."""

import re
from importlib.resources import files
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu._version import __version__
from quipu.errors import NotFoundError
from quipu.http.problems import STATUS
from quipu.operation import AnyOperation, Http
from quipu.schemas import DIALECT, Field, Operations, PlainSchema, fields, without

#: What the page needs of the viewer's package.
_VIEWER_FILES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Quipu API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/docs/favicon-32x32.png"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><noscript>The document itself is at <a href="/openapi.json">/openapi.json</a>.</noscript>
<div id="swagger-ui"></div><script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script></body></html>
"""
_START = (
    'SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null});\n'
)
#: The viewer sets styles on elements and draws small pictures from data; nothing comes from elsewhere.
_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "What went wrong."},
        "status": {"type": "integer"},
        "code": {"enum": sorted(STATUS)},
        "reason": {"type": ["string", "null"], "description": "A stable word below the code."},
        "hint": {"type": ["string", "null"], "description": "What to do next."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("pointer", "reason", "accepted")},
            },
        },
        "retryable": {"type": "boolean"},
        "request_id": {"type": "string"},
    },
}


def document(operations: Operations) -> dict[str, Any]:
    """Its schemas are JSON Schema 2020-12, as they are."""
    served = [operation for operation in operations if operation.http is not None]
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for operation in served:
        models[operation.request, "validation"] = None
        models[operation.response, "serialization"] = None
    template = "#/components/schemas/{model}"
    places, found = models_json_schema(list(models), schema_generator=PlainSchema, ref_template=template)
    components: dict[str, Any] = {**found.get("$defs", {}), "Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for operation in served:
        route = operation.http
        assert route is not None
        refs = {
            "request": places[operation.request, "validation"],
            "response": places[operation.response, "serialization"],
        }
        path = re.sub(r":path(?=})", "", route.path)
        item = paths.setdefault(path, {})
        item[route.method.lower()] = _described(operation, route, refs, components)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Quipu",
            "version": __version__,
            "description": "One memory for every agent.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(
    operation: AnyOperation, route: Http, refs: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    media = {"json": "application/json", "lines": "application/x-ndjson", "events": "text/event-stream"}
    content = {media.get(route.answers, "application/octet-stream"): {"schema": refs["response"]}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if "pending_approval" in operation.response.model_fields:
        responses["202"] = {"description": "Held: a person decides.", "content": content}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses["default"] = {"description": "A problem.", "content": problem}
    known = fields(operation.request)
    in_path = [name for name in known if f"{{{name}}}" in route.path.replace(":path", "")]
    has_body = route.method not in ("GET", "DELETE")
    in_query = [] if has_body else [name for name in known if name not in in_path]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "responses": responses,
        "parameters": [
            *(_parameter(known[name], "path") for name in in_path),
            *(_parameter(known[name], "query") for name in in_query),
            *(
                {
                    "name": header,
                    "in": "header",
                    "required": False,
                    "schema": {"type": "string"},
                    "description": known[name].description,
                }
                for header, name in route.headers.items()
            ),
        ],
    }
    if has_body:
        schema = refs["request"]
        if in_path:  # what stands in the path is no part of the body
            name = f"{operation.request.__name__}Body"
            whole = components[schema["$ref"].rpartition("/")[2]]
            components[name] = without(whole, in_path)
            schema = {"$ref": f"#/components/schemas/{name}"}
        is_required = any(field.is_required and name not in in_path for name, field in known.items())
        described["requestBody"] = {
            "required": is_required,
            "content": {"application/json": {"schema": schema}},
        }
    return described


def _parameter(field: Field, place: str) -> dict[str, Any]:
    schema = {key: value for key, value in field.schema.items() if key != "description"}
    parameter: dict[str, Any] = {
        "name": field.name,
        "in": place,
        "required": place == "path" or field.is_required,
        "description": field.description,
    }
    if field.kind == "object":
        return {**parameter, "content": {"application/json": {"schema": schema}}}
    return {**parameter, "schema": schema}


def document_routes(operations: Operations) -> list[Route]:
    """The document, and the page that shows it."""
    built = document(operations)

    async def describe(_: HttpRequest) -> HttpResponse:
        return JSONResponse(built)

    async def page(_: HttpRequest) -> HttpResponse:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    async def viewer_file(http: HttpRequest) -> HttpResponse:
        name = http.path_params["name"]
        if name == "start.js":
            return HttpResponse(_START, media_type="text/javascript")
        if name not in _VIEWER_FILES:
            raise NotFoundError("There is no such address.", reason="address")
        found = files("swagger_ui").joinpath("static", name).read_bytes()
        return HttpResponse(found, media_type=_VIEWER_FILES[name], headers={"Cache-Control": "max-age=86400"})

    return [
        Route("/openapi.json", describe),
        Route("/v1/openapi.json", describe),
        Route("/docs", page),
        Route("/docs/{name}", viewer_file),
    ]
