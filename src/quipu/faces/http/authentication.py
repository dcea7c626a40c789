"""Who is asking: a bearer credential, a face's own way, or, on this machine only, whoever sits at it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.errors import UnauthenticatedError
from quipu.faces.http.backoff import Backoff, Remembered
from quipu.faces.http.catalogue import Authenticator
from quipu.faces.http.exchange import exchange_of
from quipu.model.principal import Principal, local
from quipu.service.credentials import unknown_credential

__all__ = [
    "Authentication",
    "Authenticator",
    "Bearer",
    "Credentials",
    "everybody_is_local",
    "no_credential",
    "principal_of",
]

#: No token and no JWT of ours is longer.
_LONGEST = 8192


class Credentials(Protocol):
    """What turns a credential's text into a principal: `MemoryService.credentials`."""

    async def principal(self, text: str) -> Principal:
        """Raises UnauthenticatedError for one that is not good."""
        ...


def principal_of(request: Request) -> Principal:
    """The authenticated caller."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        raise no_credential()
    return principal


def no_credential() -> UnauthenticatedError:
    """Nobody said who they are, or not in a way that is understood here."""
    return UnauthenticatedError(
        "No credential was sent.",
        reason="no_credential",
        hint="Send `Authorization: Bearer <token>`; `quipu token create` makes a token.",
    )


async def everybody_is_local(_request: Request) -> Principal:
    """Open mode, on loopback only: whoever reaches the server is the person at this machine."""
    return local()


class Bearer:
    """`Authorization: Bearer …`. Repeated bad credentials from one address are slowed down.

    A credential that was good a moment ago is not held up by a bad neighbour behind the same address.
    """

    def __init__(self, credentials: Credentials, backoff: Backoff) -> None:
        self._credentials, self._backoff = credentials, backoff
        self._good = Remembered()

    async def __call__(self, request: Request) -> Principal | None:
        given = request.headers.getlist("authorization")
        if not given:
            return None
        address = exchange_of(request.scope).client
        digest = sha256("\0".join(given).encode("utf-8", "surrogateescape")).digest()
        if digest not in self._good:
            self._backoff.check(address)
        try:
            principal = await self._credentials.principal(_token(given))
        except UnauthenticatedError:
            self._good.discard(digest)
            self._backoff.failed(address)
            raise
        self._good.add(digest)
        return principal


def _token(given: Sequence[str]) -> str:
    schemes = {header.partition(" ")[0].lower() for header in given}
    if "bearer" not in schemes:
        # RFC 6750 section 3.1: for another way of saying who one is there is no error code, only the one that is asked for.
        raise no_credential()
    text = given[0].partition(" ")[2].strip()
    is_odd = len(given) > 1 or not text or len(text) > _LONGEST
    if is_odd or not text.isascii():
        raise unknown_credential()
    return text


class Authentication:
    """Sets `request.state.principal`. What is not public is not reached without one."""

    def __init__(self, app: ASGIApp, *, authenticators: Sequence[Authenticator]) -> None:
        self.app = app
        self._authenticators = tuple(authenticators)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._authenticate(Request(scope, receive))
        await self.app(scope, receive, send)

    async def _authenticate(self, request: Request) -> None:
        exchange = exchange_of(request.scope)
        if exchange.place.is_unasked:
            return
        own, brings_own = exchange.place.face.authenticator, exchange.place.face.brings_own
        if brings_own is not None and exchange.place.is_public and brings_own(request):
            return
        for authenticator in (*self._authenticators, *(() if own is None else (own,))):
            principal = await authenticator(request)
            if principal is not None:
                exchange.principal = request.state.principal = principal
                return
        if not exchange.place.is_public:
            raise no_credential()
