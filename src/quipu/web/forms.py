"""Forms that change something: sent by our own page, in the session that they were shown in, or refused.

Two things are asked of each: the browser must not say that another site sent it, and it must carry the session's secret.
"""

import asyncio
import hmac
from urllib.parse import urlsplit

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from quipu.errors import Fault, ForbiddenError
from quipu.operation import invalid
from quipu.page import Fields

#: The field with the secret of the session.
SECRET = "csrf"  # noqa: S105  the name of a field
#: Fields that no person types, and those that may hold a secret: they are never shown again.
_NOT_TYPED = frozenset(
    {
        SECRET,
        "action",
        "once",
        "etag",
        "id",
        "pick",
        "next",
        "queue",
        "cursor",
        "token",
        "link",
        "value",
        "key",
    }
)
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_MOST_FIELDS, _MOST_FILES = 2000, 1
#: A form may hold a whole memory.
_MOST_PART = 4 << 20
#: Bytes of a form, and seconds to read it in, when it is not known who sends it.
_MOST_KEPT, _PATIENCE_S = 256 << 10, 5


async def form_fields(http: HttpRequest) -> tuple[Fields, UploadFile | None]:
    """The text fields of a form, and the file that it brings, if any. The file is closed with the request."""
    if not http.headers.get("content-type", "").startswith(_FORMS):
        raise invalid([Fault("", "bad_content_type", "a form")])
    form = await http.form(max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=_MOST_PART)
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile) and value.filename]
    return Fields(texts), files[0] if files else None


async def typed_fields(http: HttpRequest) -> dict[str, str]:
    """What a person typed into a form that nobody will take: little is read, and nobody is waited for."""
    length = http.headers.get("content-length", "")
    is_short = length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= _MOST_KEPT
    if not is_short:
        return {}
    try:
        given, _ = await asyncio.wait_for(form_fields(http), _PATIENCE_S)
    except (HTTPException, ClientDisconnect, TimeoutError, ValueError):
        return {}
    return typed_into(given)


def typed_into(given: Fields) -> dict[str, str]:
    """What a person typed, by the name of its field."""
    return {
        name.replace("_", " ").capitalize(): text
        for name in given
        if name not in _NOT_TYPED and (text := given.text(name)) is not None
    }


def check_sender(http: HttpRequest) -> None:
    """Refuse what a browser says was sent by another site, or by a frame or a file that has no site."""
    site, origin = http.headers.get("sec-fetch-site"), http.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise foreign_form()
    if origin == "null" and site == "same-origin":
        return  # our own page: a policy that sends no referrer also hides the origin
    if origin is not None and urlsplit(origin).netloc != http.headers.get("host", ""):
        raise foreign_form()


def check_secret(given: str | None, expected: str) -> None:
    """Refuse a form without the secret of its session."""
    if given is None or not hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8")
    ):
        raise foreign_form()


def own_path(text: str | None) -> str:
    """A path of this server to go to next, or the first page. Never an address elsewhere."""
    if not text or not text.startswith("/") or text.startswith("//"):
        return "/"
    if any(character in "\\\x7f" or ord(character) <= 0x20 for character in text):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc or parts.path.startswith(("/signin", "/signout")) else text


def foreign_form() -> ForbiddenError:
    """What a form that is not ours is answered with."""
    return ForbiddenError(
        "This form was not sent by this page, or the page it was on is too old.",
        reason="foreign_form",
        hint="Open the page again and repeat what you did.",
    )
