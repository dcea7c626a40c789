"""Operations as an OpenAPI 3.1 document. It is read off the definitions; nothing in it is written twice."""

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu._version import __version__
from quipu.http.problems import REASON_STATUS, STATUS, no_address
from quipu.http.read import JSON, NDJSON
from quipu.http.routes import packed
from quipu.http.v0 import v0_operations
from quipu.memory.memorywire import v0_schemas
from quipu.operation import AnyOperation, Http
from quipu.schemas import DIALECT, Field, Operations, PlainSchema, fields, without

_MEDIA = {"json": JSON, "lines": NDJSON, "events": "text/event-stream", "file": "application/octet-stream"}
_NULLABLE_TEXT = {"type": ["string", "null"]}
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "code", "retryable", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "urn:quipu:error: and the code."},
        "title": {"type": "string", "description": "What the code means."},
        "status": {"type": "integer"},
        "code": {"enum": sorted(STATUS), "description": "Stable; for programs to go by."},
        "reason": {**_NULLABLE_TEXT, "description": "A stable word below the code."},
        "detail": {"type": "string", "description": "What went wrong, for a person."},
        "hint": {**_NULLABLE_TEXT, "description": "What to do or to type next."},
        "errors": {
            "type": "array",
            "description": "What is wrong with the request, one by one.",
            "items": {
                "type": "object",
                "required": ["pointer", "reason", "accepted"],
                "properties": {
                    "pointer": {"type": "string", "description": "Where, as a JSON pointer."},
                    "reason": {"type": "string", "description": "Why, in a stable word."},
                    "accepted": {"type": "string", "description": "What would be accepted."},
                },
            },
        },
        "retryable": {"type": "boolean", "description": "Whether the same request may go well later."},
        "request_id": {"type": "string", "description": "What the server's log calls this request."},
    },
}
#: Requests that show what an operation is for. A test sends each of them through its model.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "remember": {"content": "Ana lives in Lisbon", "tags": ["home"], "metadata": {"city": "Lisbon"}},
    "remember_many": {"items": [{"content": "Ana lives in Lisbon"}, {"content": "Ana has a cat"}]},
    "update": {"content": "Ana lives in Porto"},
    "recall": {"query": "where does Ana live?", "k": 5},
    "forget": {"ids": ["mem_01JZ8Y2M3N4P5Q6R7S8T9V0WXY"], "reason": "Ana asked for it"},
    "merge": {
        "canonical": "mem_01JZ8Y2M3N4P5Q6R7S8T9V0WXY",
        "duplicates": ["mem_01JZ8Y2M3N4P5Q6R7S8T9V0WXZ"],
    },
    "expire": {"policy": {"older_than_days": 90}, "action": "archive"},
    "create_store": {"name": "team", "description": "What everybody knows."},
    "create_token": {"name": "shop-bot", "roles": ["agent"], "agents": ["shop"]},
}
_HEADERS = {
    "Quipu-Request-Id": "What the server's log calls this request.",
    "Quipu-Seq": "The journal position of what was written.",
    "ETag": "The version, for If-Match.",
    "Idempotency-Replayed": "The answer that was given before; nothing was done again.",
    "Quipu-Ignored-Fields": "Fields that are not known, where `Prefer: handling=lenient` lets them pass.",
    "Preference-Applied": "That the answer waited for a decision.",
    "Retry-After": "Seconds until it may go well.",
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 256},
    "description": "`handling=lenient` leaves out fields that are not known and names them; `wait=N` waits up to 60 s "
    "for the decision about a held write.",
}
_TAGS = {
    "v0": "memorywire v0: closed forms of its own.",
    "openwop": "OpenWOP: runs of workflows.",
    "oap": "OAP: memory under a grant.",
    "probes": "For load balancers and operators.",
}


def document(operations: Operations, described: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Its schemas are JSON Schema 2020-12, as they are. `described` are paths of protocols, in OpenAPI's form."""
    served = [operation for operation in operations if operation.http is not None]
    models: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for operation in served:
        models[operation.request, "validation"] = None
        models[operation.response, "serialization"] = None
    template = "#/components/schemas/{model}"
    found_places, found = models_json_schema(
        list(models), schema_generator=PlainSchema, ref_template=template
    )
    components: dict[str, Any] = {**found.get("$defs", {}), "Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for operation in served:
        route = operation.http
        assert route is not None
        request = found_places[operation.request, "validation"]
        response = found_places[operation.response, "serialization"]
        item = paths.setdefault(re.sub(r":path(?=})", "", route.path), {})
        item[route.method.lower()] = _described(operation, route, request, response, components)
    paths |= _v0_paths(operations, components, paths)
    paths |= _PROBES
    paths |= described or {}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Quipu",
            "version": __version__,
            "description": "One memory for every agent.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components,
            "headers": {
                name: {"description": text, "schema": {"type": "string"}} for name, text in _HEADERS.items()
            },
            "responses": _problems(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `quipu token create`, or a signed token of the identity provider.",
                }
            },
        },
        "security": [{"token": []}],
    }


# -- answers ----------------------------------------------------------------------------------------------------------


def _problems() -> dict[str, Any]:
    """One answer for each status, with the codes and reasons that it has."""
    codes: dict[int, list[str]] = {}
    for code, status in STATUS.items():
        codes.setdefault(status, []).append(code)
    for (code, reason), status in REASON_STATUS.items():
        codes.setdefault(status, []).append(f"{code} ({reason})")
    return {
        f"Problem{status}": {
            "description": ", ".join(names) + ".",
            "headers": _headers("Quipu-Request-Id", *(("Retry-After",) if status in (429, 503) else ())),
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, names in sorted(codes.items())
    }


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _responses(
    operation: AnyOperation, route: Http, content: dict[str, Any], *, has_body: bool
) -> dict[str, Any]:
    headers = ["Quipu-Request-Id"]
    is_write = operation.span not in (None, "search_memory", "quipu.memory.review", "quipu.consolidate")
    if operation.repeat == "with_key" or is_write or operation.name == "recall":
        headers.append("Quipu-Seq")
    if "version" in operation.response.model_fields:
        headers.append("ETag")
    if "replayed" in operation.response.model_fields:
        headers.append("Idempotency-Replayed")
    responses: dict[str, Any] = {
        "200": {"description": "Done.", "headers": _headers(*headers), "content": content}
    }
    if "pending_approval" in operation.response.model_fields:
        responses["202"] = {
            "description": "Held: a person decides.",
            "headers": _headers(*headers, "Preference-Applied"),
            "content": content,
        }
    statuses = [400, 401, *(() if route.is_public else (403,))]
    if fields(operation.request):
        # What is named may be unknown, in another state, too large, a secret, or ask for a part that is not here.
        statuses += [404, 409, 413, 422, 501]
    if has_body:
        statuses += [408, 413, 415, 422]
    for status in sorted({*statuses, 429, 500, 503, 504}):
        responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    return responses


# -- one operation ----------------------------------------------------------------------------------------------------


def _described(
    operation: AnyOperation,
    route: Http,
    request: Mapping[str, Any],
    response: Mapping[str, Any],
    components: dict[str, Any],
) -> dict[str, Any]:
    known = fields(operation.request)
    in_path = [name for name in known if f"{{{name}}}" in route.path.replace(":path", "")]
    is_json = route.body == "json" and route.method not in ("GET", "DELETE")
    in_query = [] if is_json else [name for name in known if name not in in_path]
    in_query = [name for name in in_query if name not in route.headers.values() or not is_json]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [
            *(_parameter(known[name], "path") for name in in_path),
            *(_parameter(known[name], "query") for name in in_query),
            *(_header(known[name], header) for header, name in route.headers.items()),
            *([_PREFER] if is_json else []),
        ],
    }
    if is_json:
        described["requestBody"] = _body(operation, route, request, in_path, components)
    elif route.body != "json":
        media = NDJSON if route.body == "lines" else "application/octet-stream"
        described["requestBody"] = {"required": True, "content": {media: {"schema": {"type": "string"}}}}
    content: dict[str, Any] = {_MEDIA[route.answers]: {"schema": response}}
    if route.answers == "file":
        content = {"*/*": {}}  # each file says what it is
    if route.lines is not None:
        content[NDJSON] = {"schema": _items_of(response, components)}
    described["responses"] = _responses(
        operation, route, content, has_body=route.method not in ("GET", "DELETE")
    )
    if route.is_public:
        described["security"] = [{}, {"token": []}]
    return described


def _body(
    operation: AnyOperation,
    route: Http,
    request: Mapping[str, Any],
    in_path: list[str],
    components: dict[str, Any],
) -> dict[str, Any]:
    schema = request
    if in_path:  # what stands in the path is no part of the body
        name = f"{operation.request.__name__}Body"
        components[name] = without(components[request["$ref"].rpartition("/")[2]], in_path)
        schema = {"$ref": f"#/components/schemas/{name}"}
    known = fields(operation.request)
    content: dict[str, Any] = {JSON: {"schema": schema}}
    if operation.name in EXAMPLES:
        content[JSON]["examples"] = {"example": {"value": dict(EXAMPLES[operation.name])}}
    if route.lines is not None:  # the list itself, or one of its items a line
        listed = components[request["$ref"].rpartition("/")[2]]["properties"][route.lines]
        content[JSON]["schema"] = {"anyOf": [schema, {"type": "array", "items": listed["items"]}]}
        content[NDJSON] = {"schema": listed["items"]}
    is_required = any(field.is_required and name not in in_path for name, field in known.items())
    return {"required": is_required, "content": content}


def _items_of(response: Mapping[str, Any], components: dict[str, Any]) -> Any:
    return components[response["$ref"].rpartition("/")[2]]["properties"]["results"]["items"]


def _parameter(field: Field, place: str) -> dict[str, Any]:
    schema = {key: value for key, value in field.schema.items() if key != "description"}
    parameter: dict[str, Any] = {
        "name": field.name,
        "in": place,
        "required": place == "path" or field.is_required,
        "description": field.description,
    }
    is_free = field.kind == "object" or (
        field.kind == "array" and schema.get("items", {}).get("type", "object") != "string"
    )
    if is_free:  # such a value is written as JSON
        return {**parameter, "content": {JSON: {"schema": schema}}}
    return {**parameter, "schema": schema}


def _header(field: Field, header: str) -> dict[str, Any]:
    return {
        "name": header,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": field.description,
    }


# -- what is no operation of ours -------------------------------------------------------------------------------------

_STATE = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}


def _probe(name: str, summary: str, statuses: Mapping[str, str]) -> dict[str, Any]:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["probes"],
            "security": [],
            "responses": {
                status: {"description": text, "content": {JSON: {"schema": _STATE}}}
                for status, text in statuses.items()
            },
        }
    }


_PROBES: Mapping[str, Any] = {
    "/healthz": _probe("healthz", "Whether the server lives.", {"200": "It does."}),
    "/readyz": _probe(
        "readyz", "Whether the server can work.", {"200": "It can.", "503": "Not now, with the reason."}
    ),
    "/metrics": {
        "get": {
            "operationId": "metrics",
            "summary": "Numbers for Prometheus. Needs server:operate.",
            "tags": ["probes"],
            "responses": {
                "200": {"description": "Text.", "content": {"text/plain": {"schema": {"type": "string"}}}},
                "401": {"$ref": "#/components/responses/Problem401"},
                "403": {"$ref": "#/components/responses/Problem403"},
            },
        }
    },
}


_ASK_EXTENSIONS = {"type": "boolean", "description": "Whether the answer has extensions too."}
_TOLD_EXTENSIONS = {
    "type": "object",
    "description": "Where they were asked for: `quipu`, with the fields that v0 does not have.",
}
_EXTENSIONS = {
    "name": "Quipu-Extensions",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["true", "false"]},
    "description": "Whether the answer has extensions too.",
}


def _v0_paths(
    operations: Operations, components: dict[str, Any], ours: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The same operations in v0's closed forms."""
    v0 = v0_operations(operations)
    for name, schema in v0_schemas(v0).items():
        shared: Mapping[str, Any] = schema.get("$defs", {})
        body = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "$defs")}
        components[_v0_name(name)] = _with_extensions(_moved(body), name)
        for part, definition in shared.items():
            components.setdefault(part, _moved(definition))
    paths: dict[str, Any] = {}
    by_name = {operation.name: operation for operation in operations}
    for name, operation in v0.items():
        route, own = operation.http, by_name[operation.name].http
        assert route is not None
        assert own is not None
        described = dict(ours[own.path][own.method.lower()])
        described |= {"operationId": f"v0_{operation.name}", "tags": ["v0"]}
        if route.method == "POST":
            described["parameters"] = [*described["parameters"], _EXTENSIONS]
        if route.lines is not None:  # each item is answered as remember is
            described["responses"] = {**described["responses"], "200": _v0_batch(described, components)}
        if _v0_name(f"{name}.request") in components:
            described["requestBody"] = {
                "required": True,
                "content": {
                    JSON: {"schema": {"$ref": f"#/components/schemas/{_v0_name(f'{name}.request')}"}}
                },
            }
            answer = {JSON: {"schema": {"$ref": f"#/components/schemas/{_v0_name(f'{name}.response')}"}}}
            described["responses"] = {
                status: {**response, "content": answer} if status.startswith("2") else response
                for status, response in described["responses"].items()
            }
        paths[route.path] = {route.method.lower(): described}
    return paths


def _with_extensions(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """What v0 has no field for is asked for, and answered, in one more member."""
    asked = _ASK_EXTENSIONS if name.endswith(".request") else _TOLD_EXTENSIONS
    return {**schema, "properties": {**schema["properties"], "extensions": asked}}


def _v0_batch(described: Mapping[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The answer to many, with v0's answer to each."""
    own = components["ItemResult"]
    one = {"anyOf": [{"$ref": f"#/components/schemas/{_v0_name('remember.response')}"}, {"type": "null"}]}
    response = {**one, "description": own["properties"]["response"]["description"]}
    components["V0ItemResult"] = {**own, "properties": {**own["properties"], "response": response}}
    item = {"$ref": "#/components/schemas/V0ItemResult"}
    many = components["RememberManyResponse"]
    results = {**many["properties"]["results"], "items": item}
    components["V0RememberBatchResponse"] = {**many, "properties": {"results": results}}
    whole = {"$ref": "#/components/schemas/V0RememberBatchResponse"}
    return {**described["responses"]["200"], "content": {JSON: {"schema": whole}, NDJSON: {"schema": item}}}


def _v0_name(name: str) -> str:
    return "V0" + "".join(part.capitalize() for part in re.split(r"\W", name))


def _moved(schema: Any) -> Any:
    """References to a schema's own parts, as references to the document's."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/")
            if key == "$ref" and isinstance(value, str)
            else _moved(value)
            for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType]  any JSON
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema  # pyright: ignore[reportUnknownVariableType]


# -- where it is shown -------------------------------------------------------------------------------------------------

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
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_A_MINUTE, _A_DAY = "public, max-age=60", "max-age=86400"


def document_routes(operations: Operations, described: Mapping[str, Any]) -> list[Route]:
    """The document, and the page that shows it. It is made when it is first asked for."""

    @cache
    def built() -> bytes:
        return json.dumps(document(operations, described), separators=(",", ":")).encode()

    async def describe(http: HttpRequest) -> HttpResponse:
        headers = {"Cache-Control": _A_MINUTE, "ETag": f'"{sha256(built()).hexdigest()[:32]}"'}
        if headers["ETag"] in http.headers.get("if-none-match", ""):
            return HttpResponse(status_code=304, headers=headers)
        return HttpResponse(packed(http, built(), headers), headers=headers, media_type="application/json")

    async def page(_: HttpRequest) -> HttpResponse:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    async def viewer_file(http: HttpRequest) -> HttpResponse:
        name = http.path_params["name"]
        headers = {"Cache-Control": _A_DAY}
        if name == "start.js":
            return HttpResponse(_START, headers=headers, media_type="text/javascript")
        if name not in _VIEWER_FILES:
            raise no_address()
        body = packed(http, _viewer_file(name), headers)
        return HttpResponse(body, headers=headers, media_type=_VIEWER_FILES[name])

    return [
        Route("/openapi.json", describe),
        Route("/v1/openapi.json", describe),
        Route("/docs", page),
        Route("/docs/{name}", viewer_file),
    ]


def _viewer_file(name: str) -> bytes:
    return files("swagger_ui").joinpath("static", name).read_bytes()
