"""Errors as problem bodies (RFC 9457): the one table of statuses, and the last line of defence."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from quipu.errors import Fault, InvalidError, NotFoundError, QuipuError, presentable

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
#: Reasons of a validation error that HTTP has a status of its own for.
_REASON_STATUS = {"too_large": 413, "bad_content_type": 415, "bad_method": 405}


def status_of(error: QuipuError) -> int:
    return (
        _REASON_STATUS.get(error.reason or "", STATUS[error.code])
        if error.code == "validation_error"
        else STATUS[error.code]
    )


def problem_body(error: QuipuError, request_id: str) -> dict[str, Any]:
    return {
        "type": f"urn:quipu:error:{error.code}",
        "title": error.message,
        "status": status_of(error),
        "code": error.code,
        "reason": error.reason,
        "hint": error.hint,
        "errors": [
            {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
            for fault in error.faults
        ],
        "retryable": error.is_retryable,
        "request_id": request_id,
    }


async def problem(http: HttpRequest, raised: Exception) -> HttpResponse:
    """Whatever went wrong, as an answer that says what to do and gives nothing away."""
    error = _error(raised)
    request_id = getattr(http.state, "request_id", "")
    headers: dict[str, str] = {}
    if error.code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="quipu"'
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif error.code in ("rate_limited", "quota_exceeded", "backend_unavailable"):
        headers["Retry-After"] = "1"
    # A text with half a character in it cannot be sent: ASCII escapes say it all the same.
    body = json.dumps(problem_body(error, request_id)).encode("ascii")
    return HttpResponse(body, status_of(error), headers, media_type="application/problem+json")


def _error(raised: Exception) -> QuipuError:
    if isinstance(raised, HTTPException):
        if raised.status_code == 405:
            return InvalidError(
                "This address does not take this method.",
                faults=[Fault("", "bad_method", (raised.headers or {}).get("Allow", "another method"))],
            )
        return NotFoundError("There is no such address.", reason="address", hint="/docs lists every address.")
    return presentable(raised)
