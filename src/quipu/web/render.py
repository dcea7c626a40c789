"""Templates to answers, with the headers that every page has; and errors as pages, for whoever reads pages.

Everything that a template is given is escaped. Programs get problem bodies.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse
from starlette.responses import Response as HttpResponse
from starlette.types import Scope

from quipu.errors import InternalError, QuipuError
from quipu.governance.diffs import words
from quipu.http.exchange import exchange_of
from quipu.http.problems import problem_response, status_of
from quipu.memory.page import pick_value
from quipu.web import drawing, text

#: Nothing from elsewhere, nothing inline, in nobody's frame.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    # Not `no-referrer`: browsers would then hide from us, too, where a form came from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
    "Vary": "Cookie",
}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of ours that pages load."""

    data: bytes
    media_type: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    """All of them, by name."""
    found: dict[str, Asset] = {}
    for file in files("quipu.web").joinpath("static").iterdir():
        kind = next((kind for ending, kind in _TYPES.items() if file.name.endswith(ending)), None)
        if kind is not None:
            data = file.read_bytes()
            found[file.name] = Asset(data, kind, hashlib.sha256(data).hexdigest()[:16])
    return found


def asset_url(name: str) -> str:
    """The address of an asset; it changes with the asset, so a browser may keep it for good."""
    return f"/static/{name}?v={assets()[name].digest}"


@cache
def environment() -> Environment:
    """The templates of all rooms."""
    made = Environment(
        loader=PackageLoader("quipu.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(text.FILTERS)
    known: dict[str, Any] = {
        "asset": asset_url,
        "counted": text.counted,
        "marked": text.marked,
        "address": text.address,
        "words": words,
        "verb": text.verb,
        "entry_kind": text.kind,
        "entry_ops": text.ops,
        "pick_value": pick_value,
        **drawing.FUNCTIONS,
    }
    cast("dict[str, Any]", made.globals).update(known)
    return made


def rendered(template: str, context: Mapping[str, Any], status: int = 200) -> HttpResponse:
    """A page."""
    said = environment().get_template(template).render(context)
    return guarded(HTMLResponse(said.encode("utf-8", "replace"), status))


def guarded(answer: HttpResponse) -> HttpResponse:
    """Any other answer, with the same headers."""
    for name, value in _HEADERS.items():
        answer.headers[name] = value
    return answer


# -- errors ----------------------------------------------------------------------------------------------------------

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
    visit: Any = scope["state"].get("visit")
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
