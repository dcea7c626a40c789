"""Problems as responses, for every error that leaves a handler. No traceback, no request content, ever."""

from __future__ import annotations

import errno
import json
import logging
import traceback
from collections.abc import Iterator

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.errors import (
    BackendUnavailableError,
    Fault,
    ForbiddenError,
    InternalError,
    InvalidError,
    NotFoundError,
    QuipuError,
)
from quipu.faces.http import problems
from quipu.faces.http.authentication import no_credential
from quipu.faces.http.catalogue import Place
from quipu.faces.http.exchange import Exchange, exchange_of

_log = logging.getLogger("quipu.http")
#: No room for a file that a request needs, such as one that is being sent.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def problem_response(error: QuipuError, request_id: str | None = None) -> Response:
    """The error as application/problem+json, with the headers that belong to it."""
    body = problems.problem(error, request_id)
    return Response(
        json.dumps(body, separators=(",", ":")),
        status_code=body["status"],
        headers=problems.headers(error),
        media_type=problems.MEDIA_TYPE,
    )


class Answered:
    """Whatever goes wrong further in is answered here, in the manner of the face that was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        exchange = exchange_of(scope)
        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            exchange.error = "cancelled"  # nobody is left to be answered
        except Exception as error:  # noqa: BLE001  the last line of defence: no caller sees a traceback
            known = as_ours(error, exchange)
            exchange.error = known.code
            exchange.reason = known.reason
            if not has_begun:  # otherwise the answer stays unfinished, and the server closes the connection
                response = await self._response(known, Request(scope, receive))
                await response(scope, receive, send)

    @staticmethod
    async def _response(error: QuipuError, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        show = exchange.place.face.show_error
        try:
            shown = None if show is None else await show(request, error)
        except Exception as failure:  # noqa: BLE001  a page that cannot be made must not hide the error
            log_failure(failure, exchange.request_id)
            shown = None
        return shown or problem_response(error, exchange.request_id)


def as_ours(error: Exception, exchange: Exchange) -> QuipuError:
    """Every error in our words. What nobody foresaw goes to the log; the caller gets the request id."""
    known: QuipuError = InternalError()
    if isinstance(error, HTTPException):
        known = _of_the_router(error, exchange.place)
    elif isinstance(error, QuipuError):
        known = error
    elif isinstance(error, OSError) and error.errno in _FULL:
        known = BackendUnavailableError("The server has no room left for this.", reason="disk_full")
    if problems.on_the_wire(known).code == InternalError.code:
        log_failure(error, exchange.request_id)
    return known


def log_failure(error: BaseException, request_id: str) -> None:
    """Where it failed and what kind of failure it is; not its message, which may hold what was sent."""
    _log.error("failed", extra={"fields": {"request_id": request_id, "trace": list(trace(error))}})


def trace(error: BaseException | None) -> Iterator[str]:
    """Kinds and places of an error and its causes, without their messages."""
    while error is not None:
        yield f"{type(error).__module__}.{type(error).__qualname__}"
        for frame in traceback.extract_tb(error.__traceback__):
            yield f"{frame.filename}:{frame.lineno} {frame.name}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _of_the_router(error: HTTPException, place: Place) -> QuipuError:
    """What Starlette itself refuses."""
    match error.status_code:
        case 401:
            return no_credential()
        case 403:
            return ForbiddenError()
        case 404:
            return NotFoundError("There is nothing at this address.", reason="route")
        case 405:
            message = "This address does not take this method."
            return InvalidError(message, reason="method", faults=[Fault("", "method", place.methods)])
        case 413:
            return InvalidError.at("", "too_large", "The body is too large.")
        case 503:
            return BackendUnavailableError()
        case status:
            return InvalidError(reason="bad_value") if status < 500 else InternalError()
