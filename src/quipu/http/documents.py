"""The OpenAPI document and the packaged page that shows it, for everybody. Nothing comes from another address."""

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.http.openapi import document
from quipu.http.problems import no_address
from quipu.http.routes import packed
from quipu.schemas import Operations

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
