"""How much of the server one caller may have: places at work, time, and the size of a body."""

import asyncio
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.config import Settings
from quipu.errors import BackendUnavailableError, DeadlineError, Fault, QuipuError
from quipu.http.hosts import PROBES
from quipu.http.read import LINE_BYTES
from quipu.model.principal import Principal
from quipu.operation import invalid


class Lifecycle:
    """Set by the server, looked at by readiness and by every answer. A server that drains never goes back."""

    def __init__(self) -> None:
        self.is_draining = False
        self._ends: dict[Callable[[], None], None] = {}

    def drain(self) -> None:
        """The end has begun: what is at work is finished, streams without an end are ended."""
        self.is_draining = True
        for end in tuple(self._ends):
            end()

    def on_drain(self, end: Callable[[], None]) -> None:
        """Call it when the server drains; at once if it does already."""
        self._ends[end] = None
        if self.is_draining:
            end()

    def off_drain(self, end: Callable[[], None]) -> None:
        """It came to its end by itself."""
        self._ends.pop(end, None)


#: So many credentials that were good are remembered; what was used longest ago is forgotten.
MOST_KNOWN = 4096
#: A reader of an answer that takes nothing for so long is gone.
_STALL_S = 60.0
#: Who is not signed in waits so long for a place.
_TURN_S = 1.0
_ANONYMOUS = "not signed in"
_PIECE = 64 << 10
#: A body without a limit may unpack to so many times its size; what people send is far below.
_RATIO = 200
#: So large may a body be, and so long may it pause.
BODY_BYTES, BODY_PAUSE_S = LINE_BYTES, 15.0
#: What is left of a body that nobody wants: a small one is most often here already, a large one is read for a moment.
_GLANCE_BYTES, _GLANCE_S = 256 << 10, 0.05
_LINGER_BYTES, _LINGER_S = 64 << 20, 2.0


# -- places -----------------------------------------------------------------------------------------------------------


class Places:
    """Counts who is at work. Requests that are not signed in have a few places of their own, so that they shut nobody
    out; those that are have a share each, so that no credential takes all."""

    def __init__(self, most: int) -> None:
        """Of 200 places a credential may have 50, and 32 more are for whoever is not signed in."""
        self.most, self.share = most, max(1, most // 4)
        self.anonymous = max(1, most * 4 // 25)
        self.at_work = 0
        self.waiting = 0
        self._taken: dict[str, int] = {}
        self._line = deque[asyncio.Future[None]]()
        #: Digest of a good credential → whose it is.
        self._known: OrderedDict[bytes, str] = OrderedDict()

    def beside(self, credential: bytes, network: str) -> "Place":
        """No place at all, for what is always let in."""
        return Place(self, sha256(credential).digest() if credential else b"", network)

    async def turn(self, place: "Place") -> None:
        """Wait a moment where all places of those not signed in are taken: a client that begins with many requests is no attack."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _TURN_S
        while self.waiting >= self.anonymous and not place.is_known and len(self._line) < self.most:
            turn = loop.create_future()
            self._line.append(turn)
            try:
                async with asyncio.timeout_at(end):
                    await turn
            except TimeoutError:
                return
            finally:
                if turn in self._line:
                    self._line.remove(turn)
        if place.is_known:
            self.wake()  # whoever is next may have the place that this one does not need

    def wake(self) -> None:
        """A place has become free."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def enter(self, place: "Place") -> None:
        """Take a place, or BackendUnavailableError. A credential that was good before need not be looked at first."""
        who = self._known.get(place.digest)
        if who is not None:
            self._known.move_to_end(place.digest)
            place.take(who)
        else:
            place.wait()

    def is_known(self, digest: bytes) -> bool:
        return digest in self._known

    def know(self, digest: bytes, who: str) -> None:
        self._known[digest] = who
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        self._known.pop(digest, None)

    def add(self, who: str, share: int) -> None:
        taken = self._taken.get(who, 0)
        if taken >= share:
            raise _crowded("Too many of your requests are at work.")
        self._taken[who] = taken + 1

    def remove(self, who: str) -> None:
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]


class Place:
    """Where one request stands: among those that are not signed in, at work, or nowhere any more."""

    __slots__ = ("_is_at_work", "_network", "_places", "_who", "digest")

    def __init__(self, places: Places, digest: bytes, network: str) -> None:
        self._places, self.digest, self._network = places, digest, network
        self._who: str | None = None
        self._is_at_work = False

    @property
    def is_known(self) -> bool:
        """Whether this credential was good a moment ago."""
        return self._places.is_known(self.digest)

    def wait(self) -> None:
        """Among those that are not signed in."""
        places = self._places
        if places.waiting >= places.anonymous:
            raise _crowded("Too many requests are at work that are not signed in.")
        places.add(_ANONYMOUS, places.anonymous)
        places.waiting += 1
        self._who = _ANONYMOUS

    def take(self, who: str) -> None:
        """At work, on behalf of somebody."""
        places = self._places
        if places.at_work >= places.most:
            raise _crowded("Too many requests are at work.")
        places.add(who, places.share)
        self.leave()
        places.at_work += 1
        self._who, self._is_at_work = who, True

    def sign_in(self, principal: Principal) -> None:
        """The credential is good: from the few places to the many."""
        # Without a credential everybody is the same person, so the network stands for them.
        who = f"at {self._network}" if principal.is_local else f"{principal.tenant}/{principal.name}"
        if self.digest:
            self._places.know(self.digest, who)
        if not self._is_at_work and self._who is not None:
            self.take(who)

    def refuse(self) -> None:
        """The credential is good no longer."""
        self._places.forget(self.digest)

    def leave(self) -> None:
        if self._who is None:
            return
        self._places.remove(self._who)
        if self._is_at_work:
            self._places.at_work -= 1
        else:
            self._places.waiting -= 1
            self._places.wake()
        self._who, self._is_at_work = None, False


def _crowded(message: str) -> QuipuError:
    return BackendUnavailableError(message, reason="overloaded", retry_after_s=1)


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Whoever has one address of a /64 has them all."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed) if parsed.version == 4 else str(ip_network((parsed, 64), strict=False))


# -- time -------------------------------------------------------------------------------------------------------------


class Allowance:
    """What one request may still have. Handlers that need more than others ask here."""

    __slots__ = (
        "_is_endless",
        "_lifecycle",
        "_limit",
        "body",
        "has_begun",
        "is_drained",
        "is_in_pieces",
        "place",
    )

    def __init__(self, place: Place, limit: asyncio.Timeout, body: "Body", lifecycle: Lifecycle) -> None:
        self.place, self._limit, self.body, self._lifecycle = place, limit, body, lifecycle
        self.has_begun = self.is_in_pieces = self._is_endless = self.is_drained = False

    def prolong(self, seconds: float) -> None:
        """More time until the answer begins: somebody waits for a person."""
        end = self._limit.when()
        if end is not None:
            self._limit.reschedule(end + seconds)

    def lift(self) -> None:
        """A body without an end: only its pauses and what it unpacks to are limited."""
        self._limit.reschedule(None)
        self.body.most = None

    def begin(self, message: Message) -> None:
        """The answer begins; one that comes piece by piece takes as long as it takes.

        An event stream needs no place, and is ended when the server drains.
        """
        self.has_begun = True
        headers = {name.lower(): value for name, value in message.get("headers", ())}
        self.is_in_pieces = b"content-length" not in headers
        if self.is_in_pieces:
            self.stall(None)
        if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            self._is_endless = True
            self.place.leave()
            self._lifecycle.on_drain(self._end)

    def stall(self, seconds: float | None) -> None:
        """So long the reader may take for the next piece; None: nothing is on its way to them."""
        if not self._limit.expired() and not self.is_drained:
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(None if seconds is None else now + seconds)

    def leave(self) -> None:
        self.place.leave()
        if self._is_endless:
            self._lifecycle.off_drain(self._end)

    def _end(self) -> None:
        self.stall(0.0)
        self.is_drained = True


def allowance_of(scope: Scope) -> Allowance | None:
    """None for probes, which have no limits."""
    return scope["state"].get("allowance")


def lift_limits(scope: Scope) -> None:
    """For a body that is worked on while it comes."""
    allowance = allowance_of(scope)
    if allowance is not None:
        allowance.lift()


def place_of(scope: Scope) -> Place:
    """Where a request stands."""
    found: Place = scope["state"]["place"]
    return found


class Limits:
    """Lets a request in, begins its answer in time or says that it was not done, and lets it go."""

    def __init__(self, app: ASGIApp, settings: Settings, lifecycle: Lifecycle) -> None:
        self._app, self._lifecycle = app, lifecycle
        self._seconds = settings.request_timeout_s
        self.places = Places(settings.most_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credential = b"\0".join(value for name, value in scope["headers"] if name == b"authorization")
        client = scope.get("client")
        network = network_of(client[0]) if client else ""
        if scope["path"] in PROBES:
            scope["state"]["place"] = self.places.beside(credential, network)
            await self._app(scope, receive, send)
            return
        scope["state"]["place"] = place = self.places.beside(credential, network)
        if self.places.waiting >= self.places.anonymous:
            await self.places.turn(place)
        self.places.enter(place)
        limit = asyncio.timeout(self._seconds)
        allowance = Allowance(place, limit, scope["state"]["body"], self._lifecycle)
        scope["state"]["allowance"] = allowance

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                allowance.begin(message)
                await send(message)
            elif allowance.is_in_pieces or message.get("more_body", False):
                allowance.stall(_STALL_S)
                await send(message)
                allowance.stall(None)
            else:
                await send(message)

        try:
            async with limit:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if not limit.expired():
                raise
            if not allowance.has_begun:
                raise DeadlineError("The request was not done in time.", reason="deadline") from None
            if not allowance.is_drained:
                raise ClientDisconnect from None  # the reader takes nothing any more
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            allowance.leave()


# -- bodies -----------------------------------------------------------------------------------------------------------


class Body:
    """One body on its way in: not too large, not too slow, unpacked piece by piece; and what becomes of the rest of one
    that was not wanted, which must not be taken for the next request."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        #: None: no limit.
        self.most: int | None = BODY_BYTES
        self.count = 0
        #: The answer is out and some of the body is still to come, so the connection ends with it.
        self.closes = False
        self._receive, self._pause_s = receive, BODY_PAUSE_S
        self._headers = Headers(scope=scope)
        self._gzip: _Gzip | None = None
        self._unpacked: Iterator[bytes] = iter(())
        self._has_begun = False
        names = {name for name, _ in scope["headers"]}
        self._is_all_here = b"transfer-encoding" not in names and (
            b"content-length" not in names or self._headers["content-length"] == "0"
        )
        #: A sender that waits for "100 Continue" sends nothing after an answer.
        self._is_waiting = b"expect" in names

    async def receive(self) -> Message:
        """The next piece, checked."""
        if not self._has_begun:
            self._begin()
        if self._gzip is None:
            return self._counted(await self._next())
        while True:
            piece = next(self._unpacked, None)
            if piece is not None:
                await asyncio.sleep(0)  # others get their turn, however much there is to unpack
                return self._counted({"type": "http.request", "body": piece, "more_body": True})
            if self._is_all_here:
                if self._gzip.is_done:
                    return await self._receive()  # for the disconnect, whenever it comes
                self._gzip.end()
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await self._next()
            if message["type"] != "http.request":
                return message
            self._unpacked = self._gzip.pieces(message.get("body", b""), is_bounded=self.most is not None)

    def _begin(self) -> None:
        """What the sender says of the body is believed when it is too much."""
        self._has_begun = True
        match self._headers.get("content-encoding", "identity").strip().lower():
            case "identity" | "":
                announced = self._headers.get("content-length", "")
                if self.most is not None and announced.isdecimal() and int(announced[:20]) > self.most:
                    raise self._too_large()
            case "gzip" | "x-gzip":
                self._gzip = _Gzip()
            case _:
                raise invalid(
                    [Fault("", "bad_content_type", "a body that is packed with gzip, or not at all")]
                )

    async def _next(self) -> Message:
        if self._is_all_here:
            return await self._receive()  # nothing is missing: this waits for the sender to leave
        try:
            async with asyncio.timeout(self._pause_s):
                message = await self._receive()
        except TimeoutError:
            raise DeadlineError("The body does not come.", reason="slow_body") from None
        self._is_all_here = not message.get("more_body", False)
        return message

    def _counted(self, message: Message) -> Message:
        self.count += len(message.get("body", b""))
        if self.most is not None and self.count > self.most:
            raise self._too_large()
        return message

    def _too_large(self) -> QuipuError:
        return invalid([Fault("", "too_large", f"a body of at most {self.most:,} bytes")])

    async def before_answer(self, status: int) -> None:
        """An answer begins: whatever is still to come is not wanted, but by who answers while reading."""
        if not self._is_all_here and (status >= 400 or self.most is not None):
            await self._throw_away(_GLANCE_BYTES, _GLANCE_S)
            self.closes = not self._is_all_here

    async def after_answer(self) -> None:
        """A sender that is cut off in the middle would never see the answer."""
        await self._throw_away(_LINGER_BYTES, _LINGER_S)

    async def _throw_away(self, most: int, seconds: float) -> None:
        if self._is_waiting:
            return
        try:
            async with asyncio.timeout(seconds):
                while not self._is_all_here and most > 0:
                    message = await self._receive()
                    self._is_all_here = not message.get("more_body", False)
                    most -= len(message.get("body", b""))
        except TimeoutError:
            return


class _Gzip:
    """Unpacks, never more than a piece at a time. Several files in one are one."""

    def __init__(self) -> None:
        self._inflate: Any = _inflate()
        self._raw = self._out = 0
        self.is_done = False

    def pieces(self, raw: bytes, *, is_bounded: bool) -> Iterator[bytes]:
        self._raw += len(raw)
        while raw:
            if self._inflate.eof:
                self._inflate = _inflate()
            try:
                piece = self._inflate.decompress(raw, _PIECE)
            except zlib.error:
                raise _damaged() from None
            raw = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._out += len(piece)
            if not is_bounded and self._out > _PIECE * 16 + _RATIO * self._raw:
                raise invalid(
                    [Fault("", "too_large", f"a body that unpacks to less than {_RATIO} times its size")]
                )
            if piece:
                yield piece

    def end(self) -> None:
        """A file that stops in the middle is damaged."""
        self.is_done = True
        if self._raw and not self._inflate.eof:
            raise _damaged()


def _inflate() -> Any:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _damaged() -> QuipuError:
    return invalid([Fault("", "bad_file", "a whole gzip file; this one is damaged or cut short")])
