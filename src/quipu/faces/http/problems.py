"""Errors on the wire: one table of statuses and one closed shape, RFC 9457 (memorywire contract 3.4).

Nothing here needs an HTTP library; `answers` makes responses of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quipu.errors import BackendUnavailableError, Fault, InternalError, QuipuError

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[str, int] = {
    "validation_error": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "approval_rejected": 403,
    "not_found": 404,
    "conflict": 409,
    "secret_leakage": 422,
    "quota_exceeded": 429,
    "rate_limited": 429,
    "internal_error": 500,
    "unsupported": 501,
    "backend_unavailable": 503,
    "timeout": 504,
}
#: Where the reason says more than the code.
STATUS_BY_REASON: Mapping[tuple[str, str], int] = {
    ("validation_error", "method"): 405,
    ("validation_error", "too_large"): 413,
    ("validation_error", "media_type"): 415,
    ("timeout", "slow_body"): 408,
}
#: What an error may bring along, as an attribute, beside the members that all have.
OPTIONAL = ("approval_url", "proposal_id", "merged_into", "available_triggers")
#: Errors that pass; without a better word they may be tried again after a second.
_PASSING = ("rate_limited", "quota_exceeded", "backend_unavailable")


def on_the_wire(error: QuipuError) -> QuipuError:
    """The same, or, where the wire has no word for it, that something failed here: a broken chain is our business.

    A key that is missing is a part that does not answer: somebody can put it back, and is told so.
    """
    if error.code in STATUS:
        return error
    if error.reason == "missing_key":
        return BackendUnavailableError(
            " ".join(filter(None, (error.message, error.hint))), reason=error.reason, hint=error.hint
        )
    return InternalError()


def status_of(error: QuipuError) -> int:
    """The HTTP status of an error."""
    known = on_the_wire(error)
    return STATUS_BY_REASON.get((known.code, known.reason or ""), STATUS[known.code])


def problem(error: QuipuError, request_id: str | None = None) -> dict[str, Any]:
    """The body that tells an error."""
    return dict(_members(on_the_wire(error), request_id))


def _members(error: QuipuError, request_id: str | None) -> Iterator[tuple[str, Any]]:
    yield "type", f"urn:quipu:error:{error.code}"
    yield "title", title_of(type(error))
    yield "status", status_of(error)
    yield "code", error.code
    # Of our own failures the caller learns the request id and nothing else.
    if error.code != InternalError.code:
        if error.reason is not None:
            yield "reason", error.reason
        yield "detail", _detail(error)
        if error.faults:
            yield "errors", [_told(fault) for fault in error.faults]
    yield "retryable", error.retryable
    if request_id is not None:
        yield "request_id", request_id
    for name in OPTIONAL:
        value: Any = getattr(error, name, None)
        if value is not None:
            yield name, value if isinstance(value, str) else list(value)


def _detail(error: QuipuError) -> str:
    """What is the matter; who is not let in is told at once what to do: they can ask nothing else here."""
    return (
        f"{error.message} {error.hint}" if error.code == "unauthenticated" and error.hint else error.message
    )


def title_of(kind: type[QuipuError]) -> str:
    """A phrase that belongs to the code: the first line of the class's docstring."""
    return next(iter((kind.__doc__ or "").strip().splitlines()), "").rstrip(".")


def _told(fault: Fault) -> dict[str, Any]:
    told: dict[str, Any] = {"pointer": fault.pointer, "reason": fault.reason}
    return {**told, "accepted": list(fault.accepted)} if fault.accepted else told


def headers(error: QuipuError) -> dict[str, str]:
    """Headers that belong to an error: when to come back, how to say who one is, which methods there are."""
    told: dict[str, str] = {}
    if error.retry_after is not None or error.code in _PASSING:
        told["Retry-After"] = str(max(1, error.retry_after or 1))
    if error.code == "unauthenticated":
        # RFC 6750 section 3: the attribute only where a credential was given and is not good.
        is_given = error.reason not in (None, "no_credential")
        told["WWW-Authenticate"] = 'Bearer realm="quipu"' + (', error="invalid_token"' if is_given else "")
    if error.reason == "method":
        told["Allow"] = ", ".join(method for fault in error.faults for method in fault.accepted)
    return told
