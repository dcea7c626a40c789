"""Errors as problem bodies (RFC 9457): the one table of statuses, and our words for errors that are not ours."""

import errno
import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response as HttpResponse

from quipu.errors import (
    BackendUnavailableError,
    Fault,
    ForbiddenError,
    InternalError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnauthenticatedError,
)
from quipu.operation import invalid

MEDIA_TYPE = "application/problem+json"
#: A test fails for an error that is missing here.
STATUS = {
    "validation_error": 400,
    "secret_leakage": 422,
    "unauthenticated": 401,
    "forbidden": 403,
    "approval_rejected": 403,
    "not_found": 404,
    "conflict": 409,
    "quota_exceeded": 429,
    "rate_limited": 429,
    "unsupported": 501,
    "tampered": 500,
    "unverifiable": 500,
    "timeout": 504,
    "backend_unavailable": 503,
    "internal_error": 500,
}
#: Where HTTP has a status of its own for a reason.
REASON_STATUS = {
    ("validation_error", "too_large"): 413,
    ("validation_error", "bad_content_type"): 415,
    ("validation_error", "bad_method"): 405,
    ("timeout", "slow_body"): 408,
}
#: Errors that pass; without a better word they may be tried again after a second.
_PASSING = ("rate_limited", "quota_exceeded", "backend_unavailable")
#: No room for a file that a request needs, such as one that is being sent.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = logging.getLogger("quipu.http")


def status_of(error: QuipuError) -> int:
    return REASON_STATUS.get((error.code, error.reason or ""), STATUS[error.code])


def problem_body(error: QuipuError, request_id: str) -> dict[str, Any]:
    """What a caller sees. Of our own failures that is the request id and nothing else."""
    is_ours = error.code == InternalError.code
    return {
        "type": f"urn:quipu:error:{error.code}",
        "title": (type(error).__doc__ or "").partition("\n")[0],
        "status": status_of(error),
        "code": error.code,
        "reason": None if is_ours else error.reason,
        "detail": InternalError().message if is_ours else error.message,
        "hint": None if is_ours else error.hint,
        "errors": [
            {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
            for fault in error.faults
        ],
        "retryable": error.is_retryable,
        "request_id": request_id,
    }


def problem_json(error: QuipuError, request_id: str) -> bytes:
    """The same as bytes. A text with half a character in it cannot be sent: ASCII escapes say it all the same."""
    return json.dumps(problem_body(error, request_id), separators=(",", ":")).encode("ascii")


def problem_response(error: QuipuError, request_id: str) -> HttpResponse:
    """The answer, with the headers that belong to it."""
    headers: dict[str, str] = {}
    if error.code == "unauthenticated":
        # RFC 6750 section 3: the attribute only where a credential was given and is not good.
        is_given = error.reason not in (None, "no_credential")
        headers["WWW-Authenticate"] = 'Bearer realm="quipu"' + (', error="invalid_token"' if is_given else "")
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif error.code in _PASSING:
        headers["Retry-After"] = "1"
    if error.reason == "bad_method":
        headers["Allow"] = error.faults[0].accepted
    return HttpResponse(problem_json(error, request_id), status_of(error), headers, media_type=MEDIA_TYPE)


def wrong_method(allowed: str) -> InvalidError:
    """The address is right and the method is not."""
    return invalid([Fault("", "bad_method", allowed)])


def no_address() -> NotFoundError:
    return NotFoundError("There is no such address.", reason="address", hint="/docs lists every address.")


def known_error(raised: Exception, request_id: str) -> QuipuError:
    """Every error in our words. What nobody foresaw goes to the log, by kind and place: its text may hold what was sent."""
    known: QuipuError = InternalError()
    if isinstance(raised, QuipuError):
        known = raised
    elif isinstance(raised, HTTPException):
        known = _of_starlette(raised)
    elif isinstance(raised, OSError) and raised.errno in _FULL:
        known = BackendUnavailableError("The server has no room left for this.", reason="disk_full")
    if known.code == InternalError.code:
        said = {"message": "a request failed", "request_id": request_id, "trace": list(places(raised))}
        _log.error("%s", json.dumps(said))
    return known


def _of_starlette(raised: HTTPException) -> QuipuError:
    match raised.status_code:
        case 401:
            return UnauthenticatedError(reason="no_credential")
        case 403:
            return ForbiddenError()
        case 404:
            return no_address()
        case 405:
            return wrong_method((raised.headers or {}).get("Allow", "another method"))
        case 413:
            return invalid([Fault("", "too_large", "a smaller body")])
        case status:
            return InvalidError(reason="bad_value") if status < 500 else InternalError()


def places(error: BaseException | None) -> Iterator[str]:
    """Kinds and places of an error and its causes, without their messages."""
    while error is not None:
        yield f"{type(error).__module__}.{type(error).__qualname__}"
        for frame in traceback.extract_tb(error.__traceback__):
            yield f"{frame.filename}:{frame.lineno} {frame.name}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
