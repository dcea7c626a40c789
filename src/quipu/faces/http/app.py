"""The application: faces inside, layers around them, each a few lines that do one thing.

From the outside in: id, place, log and metrics; the trace; security headers; other origins; unread bodies; problems; host names; the door
(starting, crowded); deadline; compression; the body's limits; credentials; the router.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request
from starlette.types import Lifespan

from quipu.faces.http.answers import Answered
from quipu.faces.http.authentication import Authentication
from quipu.faces.http.catalogue import Authenticator, Catalogue, Face
from quipu.faces.http.deadlines import Deadline
from quipu.faces.http.door import Door
from quipu.faces.http.exchange import REQUEST_ID, Observer, Recorded
from quipu.faces.http.headers import SecurityHeaders
from quipu.faces.http.hosts import KnownHosts
from quipu.faces.http.lifecycle import Lifecycle
from quipu.faces.http.lingering import Lingering
from quipu.faces.http.receiving import Received
from quipu.faces.http.settings import HttpSettings
from quipu.faces.http.tracing import RequestSpans, Traced
from quipu.ports.surroundings import Clock, MintId

__all__ = ["Authenticator", "Face", "Plumbing", "application"]

#: A page carries its form's token beside text of others: compressed together, their length would tell about it.
_NOT_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "text/html")
_SMALLEST = 1024
_COMPRESSION = 5

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SENT = ("Authorization", "Content-Encoding", "Idempotency-Key", "If-Match", "Last-Event-ID", "Prefer")
_SENT_OURS = ("Quipu-Extensions", "traceparent")
_TOLD = ("ETag", "Idempotency-Replayed", "Preference-Applied", "Retry-After")
_TOLD_OURS = (REQUEST_ID, "Quipu-Seq", "Quipu-Stores-Failed", "Quipu-Ignored-Fields")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plumbing:
    """What the layers are made of, handed in."""

    clock: Clock
    mint_id: MintId
    authenticators: Sequence[Authenticator]
    lifecycle: Lifecycle
    settings: HttpSettings = HttpSettings()  # noqa: RUF009  frozen, so one for all is safe
    observers: Sequence[Observer] = ()
    lifespan: Lifespan[Any] | None = None
    #: Makes spans of requests; None: nobody looks.
    spans: RequestSpans | None = None


def application(faces: Sequence[Face], plumbing: Plumbing) -> Starlette:
    """One application that speaks every face."""
    catalogue = Catalogue(faces)
    app = Starlette(
        routes=catalogue.routes,
        middleware=list(_layers(catalogue, plumbing)),
        exception_handlers={HTTPException: _leave_to_answered},
        lifespan=plumbing.lifespan,
    )
    app.router.redirect_slashes = (
        False  # an address is right or wrong; a redirect would repeat what the caller sent
    )
    return app


def _layers(catalogue: Catalogue, plumbing: Plumbing) -> Sequence[Middleware]:
    settings = plumbing.settings
    return [
        Middleware(
            Recorded,
            catalogue=catalogue,
            mint_id=plumbing.mint_id,
            clock=plumbing.clock,
            observers=plumbing.observers,
        ),
        *([Middleware(Traced, spans=plumbing.spans)] if plumbing.spans is not None else []),
        Middleware(SecurityHeaders, is_https=settings.is_https),
        *([_other_origins(settings, catalogue.faces)] if settings.cors_origins else []),
        Middleware(Lingering, lifecycle=plumbing.lifecycle),
        Middleware(Answered),
        Middleware(KnownHosts, settings=settings),
        Middleware(Door, lifecycle=plumbing.lifecycle, most=settings.most_requests),
        Middleware(Deadline, seconds=settings.request_timeout_s, lifecycle=plumbing.lifecycle),
        Middleware(
            GZipMiddleware,
            minimum_size=_SMALLEST,
            compresslevel=_COMPRESSION,
            exclude_content_types=_NOT_COMPRESSED,
        ),
        Middleware(Received, most=settings.body_bytes, pause_s=settings.body_timeout_s),
        Middleware(Authentication, authenticators=plumbing.authenticators),
    ]


def _other_origins(settings: HttpSettings, faces: Sequence[Face]) -> Middleware:
    sent = sorted(name for face in faces for name in face.sent_headers)
    shown = sorted(name for face in faces for name in face.shown_headers)
    return Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=_METHODS,
        allow_headers=(*_SENT, *_SENT_OURS, *sent),
        expose_headers=(*_TOLD, *_TOLD_OURS, *shown),
    )


async def _leave_to_answered(_request: Request, error: Exception) -> NoReturn:
    raise error
