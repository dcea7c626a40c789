"""Who is signed in to the page, and how they came in: with a token, with a link that works once, or with a statement of the
identity provider. Sessions are rows of the ledger, so that any server may answer.

The browser has a cookie that names the tenant and 256 random bits; the row has a hash of it, and the id of the token that
was signed in with. The token is looked up at every request, so whoever is shut out is shut out of the page as well.
"""

import base64
import hashlib
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.access.credentials import Credentials, SigninLinks, unknown_credential
from quipu.access.model import WEB_SESSIONS, WebSession
from quipu.errors import QuipuError, UnauthenticatedError
from quipu.http.authentication import Backoff
from quipu.http.problems import status_of
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.model.principal import Permission, Principal
from quipu.secrets.sealing import Sealing
from quipu.web import forms
from quipu.web.render import guarded, rendered

#: A session ends after so long without a request, and after so long in any case.
IDLE_MS, LIFE_MS = 8 * 3_600_000, 24 * 3_600_000
#: So often at most it is noted that somebody is still there.
_SEEN_MS = 5 * 60_000
_TEXT = re.compile(r"qs_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}")

#: The session; and what binds a form to a browser that has none.
SESSION, FORM = "quipu-session", "quipu-form"


@dataclass(frozen=True, slots=True)
class Found:
    """A session that goes on."""

    id: str
    csrf: str
    principal: Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Begins, finds and ends them."""

    ledger: Ledger
    credentials: Credentials
    sealing: Sealing
    clock: Callable[[], int]
    random: Callable[[int], bytes]

    async def begin(self, principal: Principal) -> str:
        """A new session; what the browser keeps of it."""
        now, tenant = self.clock(), principal.tenant
        text = f"qs_{tenant}_{fresh(self.random)}"
        session_id = _hash(text)
        sealed = None
        if principal.token_id is None:  # of the identity provider: there is no row that says who it is
            sealed = await self.sealing.seal(_written(principal), tenant, session_id)
        ends = [now + LIFE_MS, *(() if principal.expires_at is None else (principal.expires_at,))]
        session = WebSession(
            id=session_id,
            token_id=principal.token_id,
            principal=sealed,
            csrf=fresh(self.random),
            created_at=now,
            seen_at=now,
            expires_at=min(ends),
        )
        rows = await self.ledger.page(WEB_SESSIONS, tenant, limit=1000)
        ended = [(row.id,) for row in rows if _has_ended(row, now)]
        await self.ledger.update(tenant, WEB_SESSIONS, session, drop=ended)
        return text

    async def find(self, text: str) -> Found:
        """Who it is; or UnauthenticatedError."""
        named = _TEXT.fullmatch(text)
        if named is None:
            raise unknown_credential()
        tenant, session_id, now = named[1], _hash(text), self.clock()
        session = await self.ledger.get(WEB_SESSIONS, tenant, session_id)
        if session is None or _has_ended(session, now):
            raise unknown_credential()
        if session.token_id is not None:
            principal = await self.credentials.of_token(tenant, session.token_id)
        else:
            principal = _read(self.sealing.unseal(session.principal or b"", tenant, session_id), tenant)
        if now - session.seen_at > _SEEN_MS:
            await self._note_seen(tenant, session_id, now)
        return Found(session_id, session.csrf, principal)

    async def _note_seen(self, tenant: str, session_id: str, now: int) -> None:
        """Only if it is still there: who signs out meanwhile stays out."""

        def work(reader: Reader) -> tuple[None, list[WebSession]]:
            session = reader.get(WEB_SESSIONS, session_id)
            return None, [] if session is None else [replace(session, seen_at=now)]

        await self.ledger.revise(tenant, WEB_SESSIONS, work)

    async def end(self, text: str | None) -> None:
        """It is over, whatever the browser keeps."""
        named = None if text is None else _TEXT.fullmatch(text)
        if text is None or named is None:
            return
        if await self.ledger.get(WEB_SESSIONS, named[1], _hash(text)) is not None:
            await self.ledger.update(named[1], WEB_SESSIONS, drop=[(_hash(text),)])


def _has_ended(session: WebSession, now: int) -> bool:
    return now >= session.expires_at or now - session.seen_at >= IDLE_MS


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fresh(random: Callable[[int], bytes]) -> str:
    """256 random bits as text."""
    return base64.urlsafe_b64encode(random(32)).decode("ascii").rstrip("=")


_KEPT = (
    "name",
    "agents",
    "default_agent",
    "user_id",
    "review_stores",
    "review_operations",
    "trust",
    "expires_at",
)


def _written(principal: Principal) -> bytes:
    fields = {name: getattr(principal, name) for name in _KEPT}
    return json.dumps({**fields, "permissions": sorted(principal.permissions)}).encode()


def _read(text: bytes, tenant: str) -> Principal:
    fields: dict[str, Any] = json.loads(text)
    for name in ("agents", "review_stores", "review_operations"):
        fields[name] = tuple(fields[name])
    fields["permissions"] = frozenset(Permission(name) for name in fields["permissions"])
    return Principal(tenant=tenant, **fields)


# -- signing in ------------------------------------------------------------------------------------------------------

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


# -- cookies ----------------------------------------------------------------------------------------------------------


def is_tls(http: HttpRequest) -> bool:
    """Whether the browser came by TLS, as far as this server was told."""
    return http.url.scheme == "https"


def may_sign_in(http: HttpRequest) -> bool:
    """A token is typed in only where nobody can listen: by TLS, or on the machine itself by its own name."""
    if is_tls(http):
        return True
    host = (http.url.hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_cookie(http: HttpRequest, name: str) -> str | None:
    return http.cookies.get(_name(http, name)) or None


def set_cookie(http: HttpRequest, answer: HttpResponse, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(
        _name(http, name),
        value,
        max_age=seconds,
        path="/",
        secure=is_tls(http),
        httponly=True,
        samesite="strict",
    )


def clear_cookie(http: HttpRequest, answer: HttpResponse, name: str) -> None:
    answer.delete_cookie(_name(http, name), path="/", secure=is_tls(http), httponly=True, samesite="strict")


def _name(http: HttpRequest, name: str) -> str:
    """Under TLS a browser lets nobody else set a cookie of this name."""
    return f"__Host-{name}" if is_tls(http) else name


def form_secret(cookie: str) -> str:
    """What a form carries where there is no session: only who has the cookie can send it."""
    return hashlib.sha256(b"form " + cookie.encode("utf-8", "surrogatepass")).hexdigest()
