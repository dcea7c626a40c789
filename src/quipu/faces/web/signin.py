"""Signing in with a token, and out again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from quipu.errors import QuipuError, UnauthenticatedError
from quipu.faces.http import problems
from quipu.faces.http.exchange import exchange_of
from quipu.faces.web import cookies, forms, sheets
from quipu.faces.web.door import Endpoint
from quipu.faces.web.sessions import fresh
from quipu.faces.web.visit import Site, Visit

#: Longer than any token; a signed statement of an identity provider may be long.
_LONGEST = 8_192


def showing(site: Site) -> Endpoint:
    """The form."""

    async def endpoint(request: Request) -> Response:
        ended = "ended" in request.query_params
        return _form(site, request, "Your session has ended. Sign in again." if ended else None)

    return endpoint


def sending(site: Site) -> Endpoint:
    """The form as it was filled in: a new session, never one that was there before."""

    async def endpoint(request: Request) -> Response:
        forms.check_sender(request)
        given = await forms.fields(request)
        cookie = cookies.read(cookies.SIGNIN, request)
        forms.check_secret(given.get(forms.FIELD), None if cookie is None else forms.sealed(site.key, cookie))
        target = forms.own_path(given.get("next"))
        if not cookies.may_sign_in(request):
            return _form(site, request, None, 403, target)
        token = given.get("token", "").strip()
        try:
            await _check(site, token, exchange_of(request.scope).client)
        except QuipuError as error:
            return _form(site, request, _why(error), problems.status_of(error), target)
        return _let_in(site, request, token, target)

    return endpoint


async def _check(site: Site, token: str, address: str) -> None:
    """Is it good? Who tries many that are not has to wait."""
    site.backoff.check(address)
    try:
        await site.service.credentials.principal(token if _is_likely(token) else "")
    except UnauthenticatedError:
        site.backoff.failed(address)
        raise


def _is_likely(token: str) -> bool:
    return token.isascii() and len(token) <= _LONGEST


def _let_in(site: Site, request: Request, token: str, target: str) -> Response:
    site.sessions.close(cookies.read(cookies.SESSION, request))
    response = sheets.guarded(RedirectResponse(target, status_code=303))
    cookies.write(cookies.SESSION, site.sessions.open(token), request, response)
    cookies.clear(cookies.SIGNIN, request, response)
    return response


def _why(error: QuipuError) -> str:
    if not isinstance(error, UnauthenticatedError):
        return " ".join(filter(None, (error.message, error.hint)))
    if error.reason in ("revoked_token", "expired_token", "suspended_tenant"):
        return error.message
    return "That is no token of this server. Check that it was copied whole."


def _form(
    site: Site, request: Request, message: str | None, status: int = 200, target: str | None = None
) -> Response:
    cookie = cookies.read(cookies.SIGNIN, request) or fresh(site.random)
    context = {
        "message": message,
        "csrf": forms.sealed(site.key, cookie),
        "next": forms.own_path(target or request.query_params.get("next")),
        "is_open_line": not cookies.may_sign_in(request),
    }
    response = sheets.rendered("signin.html", context, status)
    cookies.write(cookies.SIGNIN, cookie, request, response)
    return response


async def sign_out(visit: Visit) -> Response:
    """The session ends here, whatever the browser keeps."""
    await visit.form()
    visit.site.sessions.close(cookies.read(cookies.SESSION, visit.request))
    response = sheets.guarded(RedirectResponse("/signin", status_code=303))
    cookies.clear(cookies.SESSION, visit.request, response)
    return response
