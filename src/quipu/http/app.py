"""The application: addresses inside, and the layers around them in one list."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.config import Settings
from quipu.http.authentication import Authentication
from quipu.http.exchange import ErrorPage, Exchanges, Observer, Spans
from quipu.http.hosts import KnownHosts
from quipu.http.jobs import Job, JobLog, Jobs
from quipu.http.limits import Lifecycle, Limits
from quipu.http.openapi import document_routes
from quipu.http.probes import AskGauges, AskHealth, Metrics, probe_routes
from quipu.http.routes import Addresses, DecisionWait, operation_endpoints
from quipu.http.v0 import schema_routes, v0_endpoints
from quipu.schemas import Operations

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SENT = (
    *("Authorization", "Content-Type", "Content-Encoding", "Idempotency-Key", "If-Match", "Last-Event-ID"),
    *("Prefer", "Quipu-Extensions", "traceparent"),
    *("Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id"),
)
_SHOWN = (
    *("ETag", "Idempotency-Replayed", "openwop-Idempotent-Replay", "Preference-Applied", "Retry-After"),
    *("Quipu-Request-Id", "Quipu-Seq", "Quipu-Ignored-Fields", "Mcp-Session-Id", "WWW-Authenticate"),
)


@dataclass(frozen=True, slots=True)
class App:
    """The application as a server runs it."""

    asgi: ASGIApp
    lifecycle: Lifecycle
    #: Those that are no operations: probes, the document, pages, protocols.
    routes: tuple[BaseRoute, ...]
    #: Method and path of further addresses of protocols.
    addresses: tuple[tuple[str, str], ...]
    #: What a server that runs it does by itself.
    jobs: Jobs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.asgi(scope, receive, send)


def app(
    operations: Operations,
    authentication: Authentication,
    health: AskHealth,
    new_id: Callable[[str], str],
    settings: Settings,
    *,
    protocols: Sequence[BaseRoute] = (),
    addresses: Sequence[tuple[str, str, ASGIApp]] = (),
    described: Mapping[str, Any] | None = None,
    waiting: DecisionWait | None = None,
    gauges: AskGauges | None = None,
    observers: Sequence[Observer] = (),
    spans: Spans | None = None,
    jobs: Sequence[Job] = (),
    job_log: JobLog | None = None,
    error_page: ErrorPage | None = None,
) -> App:
    """Every operation behind its address.

    `protocols` are routes that a public contract prescribes, or that serve pages; `addresses` are such as well, with ids
    in them that may hold an encoded slash: method, path, application. `described` are their paths for the OpenAPI
    document. `waiting` waits for decisions about held writes, `gauges` are numbers for /metrics, `job_log` says how jobs go, `error_page` shows an
    error to who reads pages, or speaks another protocol.
    """
    lifecycle, metrics = Lifecycle(), Metrics()
    endpoints = [
        *operation_endpoints(operations, authentication, waiting),
        *v0_endpoints(operations, authentication, waiting),
        *addresses,
    ]
    others = [
        *probe_routes(
            health=health,
            gauges=gauges,
            lifecycle=lifecycle,
            metrics=metrics,
            authentication=authentication,
            is_metrics_public=settings.metrics_public,
        ),
        *document_routes(operations, described or {}),
        *schema_routes(operations),
        *protocols,
    ]
    inside = Limits(Addresses(endpoints, others), settings, lifecycle)
    made: ASGIApp = Exchanges(
        inside,
        settings=settings,
        hosts=KnownHosts(settings, is_open=authentication.everybody is not None),
        lifecycle=lifecycle,
        new_id=new_id,
        observers=(metrics, *observers),
        spans=spans,
        error_page=error_page,
    )
    if settings.cors_origins:
        made = CORSMiddleware(
            made,
            allow_origins=settings.cors_origins,
            allow_methods=_METHODS,
            allow_headers=_SENT,
            expose_headers=_SHOWN,
        )
    further = tuple((method, path) for method, path, _ in addresses)
    return App(made, lifecycle, tuple(others), further, Jobs(jobs, job_log))
