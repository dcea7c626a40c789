"""Who asks: the Authorization header to a principal, and patience with addresses that guess."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from starlette.requests import Request as HttpRequest

from quipu.errors import RateLimitedError, UnauthenticatedError
from quipu.http.exchange import exchange_of
from quipu.http.limits import network_of, place_of
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.operation import Context

#: So many addresses are remembered; beyond it the one seen longest ago is forgotten.
MOST_ADDRESSES = 4096
#: Who asks for what everybody may have.
ANYBODY = Principal(tenant=DEFAULT_TENANT, name="anybody", permissions=frozenset())


class Credentials(Protocol):
    async def principal(self, text: str) -> Principal:
        """Raises UnauthenticatedError, in the same words whatever is wrong."""
        ...


@dataclass(slots=True)
class _Guesses:
    """What one network sent that was no credential."""

    count: float
    at: float
    until: float = 0.0


class Backoff:
    """Some bad credentials are free, then each costs twice the wait. One weighs half after a while."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        free: int = 10,
        longest_s: float = 300,
        half_life_s: float = 60,
    ) -> None:
        self._clock, self._free, self._longest_s, self._half_life_s = clock, free, longest_s, half_life_s
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that has to wait."""
        found = self._guesses.get(network_of(address))
        if found is not None and (left := found.until - self._clock()) > 0:
            raise RateLimitedError(
                "Too many bad credentials from this address.",
                reason="bad_credentials",
                retry_after_s=math.ceil(left),
            )

    def failed(self, address: str) -> None:
        """A bad credential came from there."""
        now, network = self._clock(), network_of(address)
        found = self._guesses.pop(network, None) or _Guesses(0.0, now)
        found.count = found.count * 0.5 ** ((now - found.at) / self._half_life_s) + 1
        found.at = now
        over = found.count - self._free
        if over > 0:
            found.until = now + min(2.0 ** min(over, 32), self._longest_s)
        self._guesses[network] = found
        if len(self._guesses) > MOST_ADDRESSES:
            self._guesses.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Authentication:
    """Turns a request into the context of its caller."""

    credentials: Credentials
    context: Callable[[Principal], Context]
    #: Who everybody is on an open server, which listens on loopback only; None: a credential is needed.
    everybody: Principal | None = None
    backoff: Backoff = field(default_factory=Backoff)

    async def __call__(self, http: HttpRequest, *, is_public: bool = False) -> Context:
        """`is_public`: who shows no credential is anybody. One that is shown must be good all the same."""
        given = http.headers.getlist("authorization")
        place = place_of(http.scope)
        if given:
            address = "" if http.client is None else http.client.host
            # Who was good a moment ago is not held up by a neighbour behind the same address who guesses.
            if not place.is_known:
                self.backoff.check(address)
            try:
                principal = await self.credentials.principal(_token(given))
            except UnauthenticatedError as error:
                if error.reason != "no_credential":
                    self.backoff.failed(address)
                place.refuse()
                raise
        elif self.everybody is not None:
            principal = self.everybody
        elif is_public:
            return self.context(ANYBODY)
        else:
            raise no_credential()
        place.sign_in(principal)
        exchange_of(http.scope).principal = principal
        return self.context(principal)


def _token(given: list[str]) -> str:
    if "bearer" not in {header.partition(" ")[0].lower() for header in given}:
        raise no_credential()
    text = given[0].partition(" ")[2].strip()
    return "" if len(given) > 1 or not text.isascii() else text


def no_credential() -> UnauthenticatedError:
    """Nobody said who they are, or not in a way that is understood here."""
    return UnauthenticatedError(
        "No credential was sent.",
        reason="no_credential",
        hint="Send the header `Authorization: Bearer <token>`; `quipu token create` makes a token.",
    )
