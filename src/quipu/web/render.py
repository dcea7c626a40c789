"""Templates to answers, with the headers that every page has. Everything that a template is given is escaped."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse
from starlette.responses import Response as HttpResponse

from quipu.governance.diffs import words
from quipu.memory.page import pick_value
from quipu.web import drawing, journal_words, text

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
        "verb": journal_words.verb,
        "entry_kind": journal_words.kind,
        "entry_ops": journal_words.ops,
        "activity_columns": journal_words.activity_columns,
        "activity_legend": journal_words.activity_legend,
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
