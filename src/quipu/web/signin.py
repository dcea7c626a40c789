"""Signing in: with a token, with a link that works once, or at the identity provider."""

from dataclasses import dataclass

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.access.credentials import Credentials
from quipu.access.signin_links import SigninLinks
from quipu.errors import QuipuError, UnauthenticatedError
from quipu.http.authentication import Backoff
from quipu.http.problems import status_of
from quipu.model.principal import Principal
from quipu.web import forms
from quipu.web.app import form_secret
from quipu.web.render import guarded, rendered
from quipu.web.session import (
    FORM,
    LIFE_MS,
    SESSION,
    Sessions,
    clear_cookie,
    fresh,
    may_sign_in,
    read_cookie,
    set_cookie,
)

#: Longer than any token; a signed statement of an identity provider may be long.
_LONGEST = 16_384
_FORM_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The page that asks who somebody is."""

    sessions: Sessions
    credentials: Credentials
    links: SigninLinks
    backoff: Backoff
    #: On a server that asks nobody there is nothing to sign in to.
    is_open: bool = False

    def routes(self) -> list[Route]:
        return [
            Route("/signin", self._shown, methods=["GET"]),
            Route("/signin", self._sent, methods=["POST"]),
        ]

    async def _shown(self, http: HttpRequest) -> HttpResponse:
        if self.is_open:
            return guarded(RedirectResponse("/", status_code=303))
        ended = "ended" in http.query_params
        return self._form(http, "Your session has ended. Sign in again." if ended else None)

    async def _sent(self, http: HttpRequest) -> HttpResponse:
        """A new session, never one that was there before."""
        forms.check_sender(http)
        given, _ = await forms.form_fields(http)
        cookie = read_cookie(http, FORM)
        forms.check_secret(given.get(forms.SECRET), form_secret(cookie or fresh(self.sessions.random)))
        target = forms.own_path(given.get("next"))
        if not may_sign_in(http):
            return self._form(http, None, 403, target)
        try:
            principal = await self._principal(http, given)
        except QuipuError as error:
            return self._form(http, _why(error), status_of(error), target)
        await self.sessions.end(read_cookie(http, SESSION))
        answer = guarded(RedirectResponse(target, status_code=303))
        set_cookie(http, answer, SESSION, await self.sessions.begin(principal), LIFE_MS // 1000)
        clear_cookie(http, answer, FORM)
        return answer

    async def _principal(self, http: HttpRequest, given: forms.Fields) -> Principal:
        """Who it is. Whoever tries many that are not good has to wait."""
        place = "" if http.client is None else http.client.host
        self.backoff.check(place)
        link, token = given.get("link", "").strip(), given.get("token", "").strip()
        try:
            if link:
                return await self.links.redeemed(link)
            return await self.credentials.principal(token if _is_likely(token) else "")
        except UnauthenticatedError:
            self.backoff.failed(place)
            raise

    def _form(
        self, http: HttpRequest, message: str | None, status: int = 200, target: str | None = None
    ) -> HttpResponse:
        cookie = read_cookie(http, FORM) or fresh(self.sessions.random)
        context = {
            "message": message,
            "csrf": form_secret(cookie),
            "next": forms.own_path(target or http.query_params.get("next")),
            # A link signs in only by a button: programs that look at links before people do must not use it up.
            "link": http.query_params.get("link", "") if http.method == "GET" else "",
            "is_unprotected": not may_sign_in(http),
            "takes_statements": self.credentials.identities is not None,
        }
        answer = rendered("signin.html", context, status)
        set_cookie(http, answer, FORM, cookie, _FORM_S)
        return answer


def _is_likely(token: str) -> bool:
    return token.isascii() and len(token) <= _LONGEST


def _why(error: QuipuError) -> str:
    if not isinstance(error, UnauthenticatedError):
        return " ".join(filter(None, (error.message, error.hint)))
    if error.reason in ("revoked_token", "expired_token", "suspended_tenant"):
        return error.message
    return "That is not known here. Check that it was copied whole; a link works once, for 15 minutes."
