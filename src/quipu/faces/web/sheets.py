"""Templates to responses, with the headers that every page has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, Response

from quipu.faces.web import wording

#: Nothing from elsewhere, nothing inline, in nobody's frame.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers would then hide from us, too, where a form came from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of ours that pages load."""

    data: bytes
    media_type: str
    digest: str


_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def assets() -> Mapping[str, Asset]:
    """All of them, by name."""
    found: dict[str, Asset] = {}
    for file in files("quipu.faces.web").joinpath("static").iterdir():
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
    """The templates. Everything they are given is escaped unless it was marked as safe here."""
    made = Environment(
        loader=PackageLoader("quipu.faces.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(wording.FILTERS)
    known: dict[str, Any] = {"asset": asset_url, "counted": wording.counted, "marked": wording.marked}
    cast("dict[str, Any]", made.globals).update(known)
    return made


def rendered(template: str, context: Mapping[str, Any], status: int = 200) -> Response:
    """A page."""
    text = environment().get_template(template).render(context)
    return HTMLResponse(text.encode("utf-8", "replace"), status_code=status, headers=dict(HEADERS))


def guarded(response: Response) -> Response:
    """Any other response, with the same headers."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
