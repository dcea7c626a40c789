"""Who asks: the Authorization header to a principal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request as HttpRequest

from quipu.errors import UnauthenticatedError
from quipu.model.principal import Principal
from quipu.operation import Context


class Credentials(Protocol):
    async def principal(self, text: str) -> Principal:
        """Raises UnauthenticatedError, in the same words whatever is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Authentication:
    """Turns a request into the context of its caller."""

    credentials: Credentials
    context: Callable[[Principal], Context]
    #: Who everybody is on an open server, which listens on loopback only; None: a credential is needed.
    everybody: Principal | None = None

    async def __call__(self, http: HttpRequest) -> Context:
        header = http.headers.get("authorization")
        if header is None:
            if self.everybody is None:
                raise UnauthenticatedError(hint="Send the header `Authorization: Bearer <token>`.")
            return self.context(self.everybody)
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise UnauthenticatedError(hint="Send the header `Authorization: Bearer <token>`.")
        return self.context(await self.credentials.principal(text.strip()))
