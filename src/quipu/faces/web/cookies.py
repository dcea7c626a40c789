"""The cookies of the page, and over which connections they may travel.

Beyond this machine only over TLS: `__Host-` names make the browser hold us to that. On loopback a plain name does.
"""

from __future__ import annotations

import ipaddress

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.web.sessions import LIFE_MS

SESSION = "quipu"
#: Ties the sign-in form to the browser it was shown in.
SIGNIN = "quipu-signin"


def is_tls(request: Request) -> bool:
    """Whether the browser came by TLS, as far as this server was told."""
    return request.url.scheme == "https"


def is_loopback(request: Request) -> bool:
    """Whether the browser names this machine itself. A foreign name that points here does not count."""
    host = (request.url.hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_sign_in(request: Request) -> bool:
    return is_tls(request) or is_loopback(request)


def name_of(cookie: str, request: Request) -> str:
    """What the cookie is called on this connection."""
    return f"__Host-{cookie}" if is_tls(request) else cookie


def read(cookie: str, request: Request) -> str | None:
    return request.cookies.get(name_of(cookie, request)) or None


def write(cookie: str, value: str, request: Request, response: Response) -> None:
    response.set_cookie(
        name_of(cookie, request),
        value,
        max_age=LIFE_MS // 1000,
        path="/",
        secure=is_tls(request),
        httponly=True,
        samesite="strict",
    )


def clear(cookie: str, request: Request, response: Response) -> None:
    response.delete_cookie(
        name_of(cookie, request), path="/", secure=is_tls(request), httponly=True, samesite="strict"
    )
