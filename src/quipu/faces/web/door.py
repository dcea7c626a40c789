"""The way in: who asks, and what a person sees who may not, or for whom something went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from quipu.errors import QuipuError, UnauthenticatedError
from quipu.faces.http import problems
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.exchange import exchange_of
from quipu.faces.web import cookies, forms, sheets
from quipu.faces.web.visit import Site, Visit, address
from quipu.model.principal import Principal

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

#: What a person is told, by code; the error's own sentence and hint follow.
_TITLES = {
    "forbidden": "You may not see or do this",
    "not_found": "There is nothing here",
    "validation_error": "That cannot be understood",
    "conflict": "Something has changed meanwhile",
    "rate_limited": "A little slower, please",
    "quota_exceeded": "The budget is spent",
    "backend_unavailable": "The memory does not answer",
    "timeout": "That took too long",
}
#: Where the reason says more than the code.
_TITLES_BY_REASON = {"too_large": "That is too large"}

#: Where to look for something else of the kind that is not there.
_LISTS = {
    "memories": ("/memories", "Look for a memory"),
    "review": ("/review", "To what waits for a decision"),
    "grants": ("/grants", "To what is lent"),
    "runs": ("/runs", "To all runs"),
    "imports": ("/imports", "To all imports"),
}


class SignedIn:
    """The session's cookie as a way to say who is asking. The credential is checked anew at every request."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, request: Request) -> Principal | None:
        found = self._site.sessions.find(cookies.read(cookies.SESSION, request))
        if found is None or found.credential is None:
            return None
        return await self._site.service.credentials.principal(found.credential)


def visited(site: Site, handler: Handler) -> Endpoint:
    """An endpoint for those who are known."""

    async def endpoint(request: Request) -> Response:
        principal = principal_of(request)
        found = site.sessions.find(cookies.read(cookies.SESSION, request))
        if found is not None:
            return await handler(
                Visit(site=site, request=request, principal=principal, session=found.session)
            )
        # Known without having signed in: the server asks nobody, or a program shows its token itself.
        name = site.sessions.open(None)
        response = await handler(
            Visit(site=site, request=request, principal=principal, session=site.sessions.get(name))
        )
        cookies.write(cookies.SESSION, name, request, response)
        return response

    return endpoint


class ErrorPages:
    """Errors in the look of the page, for those who read pages."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, request: Request, error: QuipuError) -> Response | None:
        if not _is_person(request):
            return None
        if isinstance(error, UnauthenticatedError):
            return await self._turned_away(request, error)
        if error.reason == "starting":
            return starting_page(request, error)
        return fault_page(request, error, self._visit(request))

    def _visit(self, request: Request) -> Visit | None:
        """The frame of the page, where it is known whose page it is."""
        found = self._site.sessions.find(cookies.read(cookies.SESSION, request))
        principal: Principal | None = getattr(request.state, "principal", None)
        if found is None or principal is None:
            return None
        return Visit(site=self._site, request=request, principal=principal, session=found.session)

    async def _turned_away(self, request: Request, error: UnauthenticatedError) -> Response:
        """To the sign-in page, and from there back to where one wanted to go. What was typed into a form is not lost."""
        is_reading = request.method in ("GET", "HEAD")
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # The browser keeps a strict cookie back from what another site sends. A link is asked for once more, by our
            # own page; a form is refused. Neither says anything about the session, so neither ends it.
            if is_reading:
                return sheets.rendered("opening.html", {"target": _here(request)})
            return fault_page(request, forms.foreign(), None)
        name = cookies.read(cookies.SESSION, request)
        self._site.sessions.close(name)
        wanted = _here(request) if is_reading else _page_of(request)
        target = address("/signin", next=None if wanted == "/" else wanted, ended="1" if name else None)
        typed: Mapping[str, str] = {}
        if not is_reading and name is not None:
            typed = await forms.typed(request)
        if typed:
            response = sheets.rendered("ended.html", {"target": target, "typed": typed}, 401)
            response.headers.update(problems.headers(error))
        else:
            response = sheets.guarded(RedirectResponse(target, status_code=303))
        if name is not None:
            cookies.clear(cookies.SESSION, request, response)
        return response


def _onward(request: Request, error: QuipuError) -> tuple[str, str] | None:
    """Where to go on from an error, and what that is called."""
    if error.reason == "missing_scope":
        return "/health", "See what you may do"
    if error.code != "not_found" or request.method not in ("GET", "HEAD"):
        return None
    return _LISTS.get(request.url.path.split("/")[1], _LISTS["memories"])


def _is_person(request: Request) -> bool:
    """Browsers say that they want a page; programs do not."""
    return "text/html" in request.headers.get("accept", "")


def _here(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _page_of(request: Request) -> str:
    """The page that a form was on: most are sent to their own, the others to something beneath it."""
    is_page = "GET" in exchange_of(request.scope).place.methods
    return forms.own_path(_here(request) if is_page else request.url.path.rpartition("/")[0])


def starting_page(request: Request, error: QuipuError) -> Response:
    """The server has only just begun; the page asks again by itself. What a form holds is not sent twice unasked."""
    is_reading = request.method in ("GET", "HEAD")
    wait = error.retry_after or 1
    context = {"wait": max(2, wait) if is_reading else None}
    response = sheets.rendered("starting.html", context, problems.status_of(error))
    response.headers.update(problems.headers(error))
    return response


def fault_page(request: Request, error: QuipuError, visit: Visit | None) -> Response:
    """An error, said to a person."""
    told = problems.on_the_wire(error)
    status = problems.status_of(told)
    is_ours = told.code == "internal_error"
    fault = {
        "title": _TITLES_BY_REASON.get(told.reason or "") or _TITLES.get(told.code, "Something went wrong"),
        "message": "It is not your fault. The log knows more under this number." if is_ours else told.message,
        "hint": told.hint,
        "accepted": [] if told.reason == "method" else [word for one in told.faults for word in one.accepted],
        "status": status,
        "onward": _onward(request, told),
        "request_id": exchange_of(request.scope).request_id,
        "again": None if request.method in ("GET", "HEAD") else _page_of(request),
        # What may be a secret is not repeated.
        "typed": {} if told.code == "secret_leakage" else getattr(request.state, "typed", {}),
    }
    if visit is None:
        response = sheets.rendered("stopped.html", {"fault": fault}, status)
    else:
        response = visit.page("fault.html", status, fault=fault)
    response.headers.update(problems.headers(told))
    return response
