"""The application: routes, and the layers around them in one list."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from quipu.errors import QuipuError
from quipu.http.authentication import Authentication
from quipu.http.health import health_routes
from quipu.http.layers import Exchange, KnownHosts, LoadShedding
from quipu.http.openapi import document_routes
from quipu.http.problems import problem
from quipu.http.routes import operation_routes
from quipu.http.settings import HttpSettings
from quipu.http.v0 import v0_routes
from quipu.ledger.ledger import Health
from quipu.schemas import Operations


def app(
    operations: Operations,
    authentication: Authentication,
    health: Callable[[], Awaitable[Health]],
    new_id: Callable[[str], str],
    settings: HttpSettings,
    *,
    protocols: Sequence[BaseRoute] = (),
) -> Starlette:
    """`protocols` are routes that a public contract prescribes, or that serve pages."""
    routes: list[BaseRoute] = [
        *health_routes(health),
        *document_routes(operations),
        *operation_routes(operations, authentication),
        *v0_routes(operations, authentication),
        *protocols,
    ]
    layers = [
        Middleware(Exchange, new_id=new_id),
        Middleware(KnownHosts, settings=settings),
        Middleware(LoadShedding, settings=settings),
    ]
    if settings.cors_origins:
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Prefer"],
                expose_headers=["Quipu-Request-Id", "Quipu-Seq", "ETag", "Idempotency-Replayed"],
            )
        )
    handlers: dict[Any, Any] = {QuipuError: problem, HTTPException: problem, Exception: problem}
    return Starlette(routes=routes, middleware=layers, exception_handlers=handlers)
