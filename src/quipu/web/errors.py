"""Errors as pages, for whoever reads pages; programs get problem bodies."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import Response as HttpResponse
from starlette.types import Scope

from quipu.errors import InternalError, QuipuError
from quipu.http.exchange import exchange_of
from quipu.http.problems import problem_response, status_of
from quipu.web.render import rendered

if TYPE_CHECKING:
    from quipu.web.app import Visit

_TITLES = {
    "forbidden": "You may not see or do this",
    "not_found": "There is nothing here",
    "validation_error": "That cannot be understood",
    "secret_leakage": "That holds a secret",
    "conflict": "Something has changed meanwhile",
    "rate_limited": "Too many requests",
    "quota_exceeded": "The budget is spent",
    "backend_unavailable": "The memory does not answer",
    "timeout": "That took too long",
    "tampered": "This is not what was written",
    "unverifiable": "This could not be checked",
}
_TITLES_BY_REASON = {"too_large": "That is too large"}
#: Programs ask here, whatever they say that they read.
_PROGRAMS = ("/v1/", "/memorywire/", "/mcp", "/oap", "/.well-known/", "/static/")


def error_page(scope: Scope, error: QuipuError) -> HttpResponse | None:
    """The page, within the frame of whoever is signed in; None for a program."""
    if not _is_read_by_a_person(scope):
        return None
    visit: Visit | None = scope["state"].get("visit")
    fault = fault_of(scope, error)
    if visit is None:
        answer = rendered("error_alone.html", {"fault": fault}, fault["status"])
    else:
        answer = rendered("error.html", visit.frame() | {"fault": fault}, fault["status"])
    told = problem_response(error, exchange_of(scope).request_id)
    for name in ("retry-after", "allow"):
        if name in told.headers:
            answer.headers[name] = told.headers[name]
    return answer


def fault_of(scope: Scope, error: QuipuError) -> dict[str, Any]:
    """What a person is told. Of our own failures that is the number under which the log knows more."""
    is_ours = error.code == InternalError.code
    is_reading = scope["method"] in ("GET", "HEAD")
    return {
        "title": _TITLES_BY_REASON.get(error.reason or "") or _TITLES.get(error.code, "Something went wrong"),
        "message": "It is not your fault. The log says more under this number." if is_ours else error.message,
        "hint": None if is_ours else error.hint,
        "status": status_of(error),
        "request_id": exchange_of(scope).request_id,
        "again": None if is_reading else quote(scope["path"]),
        # What may be a secret is not repeated.
        "typed": {} if error.code == "secret_leakage" else scope["state"].get("typed", {}),
    }


def _is_read_by_a_person(scope: Scope) -> bool:
    if scope["path"].startswith(_PROGRAMS):
        return False
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted
