"""Who is signed in to the page. Sessions are rows of the ledger, so that any server may answer.

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
from starlette.responses import Response as HttpResponse

from quipu.access.credentials import Credentials, unknown_credential
from quipu.access.model import WEB_SESSIONS, WebSession
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.model.principal import Permission, Principal
from quipu.secrets.sealing import Sealing

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
