"""Forms that change something: sent by our own page, in the session they were shown in, or refused.

Two things are asked of each: the browser must not say that another site sent it, and it must carry the session's secret.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from quipu.errors import ForbiddenError, QuipuError

FIELD = "csrf"
_OWN = ("same-origin", "none")
#: Fields into which people type more than a word, as they are called on the page.
_TYPED = {
    "content": "What is remembered instead",
    "rules": "Your own rules",
    "ids": "Memories",
    "text": "Or text",
    "reason": "Why?",
}
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
#: Bytes of a form, and seconds to read it in, when it is not known who sends it.
_MOST_TYPED, _PATIENCE_S = 256 << 10, 5


async def fields(request: Request, max_files: int = 0) -> Mapping[str, str]:
    """The text fields of a form; the last of each name. Files are nobody's business here."""
    async with request.form(max_files=max_files, max_fields=50) as form:
        return {name: value for name, value in form.multi_items() if not isinstance(value, UploadFile)}


async def typed(request: Request) -> Mapping[str, str]:
    """What a person typed into a form that nobody will take: little is read, and nobody is waited for."""
    is_form = request.headers.get("content-type", "").startswith(_FORMS)
    length = request.headers.get("content-length", "")
    is_short = length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= _MOST_TYPED
    if not is_form or not is_short:
        return {}
    try:
        # A form with a place for a file sends one, even where none was chosen.
        given = await asyncio.wait_for(fields(request, max_files=1), _PATIENCE_S)
    except (HTTPException, ClientDisconnect, TimeoutError):
        return {}
    return kept(given)


def kept(given: Mapping[str, str]) -> Mapping[str, str]:
    """What a person typed, by the name it has on the page."""
    return {label: text for name, label in _TYPED.items() if (text := given.get(name, "").strip())}


def wrong_field(error: QuipuError, fields: Mapping[str, str]) -> str | None:
    """The field of a form that an error is about, found by the last part of its place that stands for one."""
    parts = [part for fault in error.faults[:1] for part in fault.pointer.split("/")]
    return next((fields[part] for part in reversed(parts) if part in fields), None)


def check_sender(request: Request) -> None:
    """Refuse what a browser says was sent by another site, or by a frame or a file that has no site."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, *_OWN):
        raise foreign()
    if origin == "null" and site == "same-origin":
        return  # our own page; a policy that sends no referrer also hides the origin
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise foreign()


def check_secret(given: str | None, expected: str | None) -> None:
    """Refuse a form without the secret of its session."""
    if given is None or expected is None:
        raise foreign()
    if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8")):
        raise foreign()


def sealed(key: bytes, cookie: str) -> str:
    """The secret of a sign-in form: only who has the cookie that came with it can send it."""
    return hmac.new(key, b"signin " + cookie.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def own_path(text: str | None) -> str:
    """A path of this page to go to next, or the first page. Never an address elsewhere."""
    if not text or not text.startswith("/") or text.startswith("//"):
        return "/"
    if any(character in "\\\x7f" or ord(character) <= 0x20 for character in text):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc or parts.path.startswith(("/signin", "/signout")) else text


def foreign() -> ForbiddenError:
    """What a form that is not ours is answered with."""
    return ForbiddenError(
        "This form was not sent by this page, or the page it was on is too old.",
        reason="foreign_form",
        hint="Open the page again and repeat what you did.",
    )
