"""A server process: bind, serve, drain, close. What was acknowledged is never lost by its end."""

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from importlib.util import find_spec
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from quipu.config import Settings
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.http.app import App

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Longer than proxies keep an idle connection, so that they never send into one that is being closed.
_KEEP_ALIVE_S = 75
#: So many objects come to be before the youngest are searched for garbage.
_YOUNG = 10_000


def bound_socket(settings: Settings) -> socket.socket:
    """Listening, before anything else is opened: who comes meanwhile waits, and a port that is taken is reported at once."""
    host = settings.host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidError(f"There is no address {host}.", reason="bad_address") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise BackendUnavailableError(
                f"Another program listens on {where}.",
                reason="address_in_use",
                hint="Choose another --port, 0 for any that is free; the program may be another `quipu serve`.",
            ) from error
        hint = "Choose another --host or --port; ports below 1024 need special rights."
        raise BackendUnavailableError(
            f"Cannot listen on {where}.", reason="cannot_listen", hint=hint
        ) from error
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """The address to type into a browser."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::"):  # noqa: S104  shown to people, not bound
        host = "localhost"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def settle() -> None:
    """For a program of its own, once it is ready: what stands by then stays, and is not searched for garbage again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


class _Config(uvicorn.Config):
    """uvicorn's settings, with TLS 1.3 or later: tokens and grants travel over nothing older."""

    def load(self) -> None:
        super().load()
        if self.ssl is not None:
            self.ssl.minimum_version = ssl.TLSVersion.TLSv1_3


class Server(uvicorn.Server):
    """uvicorn's server, which drains before it stops and ends quietly."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._lifecycle = app.lifecycle
        protocol: Any = Connection
        super().__init__(
            _Config(
                app,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=list(settings.trusted_proxies),
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(settings.shutdown_grace_s),
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
                # A request that was sent before the last one was answered would begin inside that one's trace.
                reset_contextvars=True,
                workers=1,
            )
        )

    def stop(self) -> None:
        """Ask for an end, as a signal does."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """A signal asks for an end and is answered by one; it is not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {name: signal.signal(name, self.handle_exit) for name in (*_SIGNALS, *_hung_up())}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._lifecycle.drain()
        await super().shutdown(sockets)


def _hung_up() -> tuple[int, ...]:
    """The signal of a terminal that is shut, where there is one; who asks for it to be ignored (`nohup`) is heeded."""
    number: int | None = getattr(signal, "SIGHUP", None)
    return () if number is None or signal.getsignal(number) is signal.SIG_IGN else (number,)


async def serve(
    app: App,
    settings: Settings,
    listening: socket.socket,
    started: Callable[[str], Awaitable[None]] | None = None,
    *,
    server: Server | None = None,
) -> None:
    """Serve until a signal comes; requests at work get a while to finish, then the background jobs end.

    `started` is called with the address last of all: a first token is made there, so that nothing that can fail comes
    after it.
    """
    running = server or Server(app, settings)
    running.config.load()
    async with app.jobs:
        if started is not None:
            await started(address_of(settings, listening))
        await running.serve(sockets=[listening])


# -- connections ----------------------------------------------------------------------------------------------------

#: Headers must be there within this time, and be no larger.
HEADER_S = 15.0
HEADER_BYTES = 64 << 10
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

#: Which of uvicorn's parsers it is depends on what is installed.
_Protocol: Any = AutoHTTPProtocol


def _parser_without_offers() -> Any:
    """A parser that passes over offers of other protocols; None where the one that does so by itself is used."""
    if find_spec("httptools") is None:
        return None
    from httptools import HttpParserUpgrade, HttpRequestParser

    class ParserWithoutOffers(HttpRequestParser):
        """uvicorn's parser; a request with an offer is read once more, without it."""

        def __init__(self, protocol: Any) -> None:
            super().__init__(protocol)
            self._protocol = protocol
            # As uvicorn has it: an answer is sent also where something follows a request that was to be the last.
            self.set_dangerous_leniencies(lenient_data_after_close=True)

        @property
        def is_offered(self) -> bool:
            """Whether the request whose headers were just read will be read once more; a tunnel is refused instead."""
            return self.should_upgrade() and self.get_method() != b"CONNECT"

        def feed_data(self, data: Any) -> None:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as offer:
                rest = bytes(data)[offer.args[0] :]
                # Another parser: where the request was to be the last of its connection, this one takes nothing more.
                self._protocol.parser = ParserWithoutOffers(self._protocol)
                self._protocol.parser.feed_data(self._without_offer() + rest)

        def _without_offer(self) -> bytes:
            version = self.get_http_version().encode("ascii")
            line = b"%s %s HTTP/%s\r\n" % (self.get_method(), self._protocol.url, version)
            kept = (b"%s: %s\r\n" % row for row in self._protocol.headers if row[0] != b"upgrade")
            return b"".join([line, *kept, b"\r\n"])

    return ParserWithoutOffers


_Parser = _parser_without_offers()


class Connection(_Protocol):
    """uvicorn's protocol, with an end for callers that do not say in time what they want.

    1. The headers of a request must be there in time, from their first byte on, and be no larger than a limit.
    2. What is sent behind a request that is still at work is read no further than that, and so are the fields that may
       follow a body in pieces: the parser would keep all of it until it ends.
    3. When a connection is lost, every request of it that is still at work hears of it, not only the last that came in.
    4. Who offers another protocol along with a request is answered in this one. Some clients offer HTTP/2 with every
       first request of a connection, Java's own among them. To the fast parser such an offer is the end of HTTP/1.1: it
       would leave the body unread, and take it for the next request. So the offer is left out, and the parser is given
       the request once more. The slower parser passes over offers by itself.
    """

    header_s = HEADER_S
    _timer: asyncio.TimerHandle | None = None
    _waiting_bytes = 0
    _early_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        _Protocol.connection_made(self, transport)
        if _Parser is not None:
            self.parser = _Parser(self)
        #: Every request that is not answered yet; the protocol itself knows only the newest.
        self._unanswered: list[Any] = []
        self._expect()

    def data_received(self, data: bytes) -> None:
        before = self._progress()
        _Protocol.data_received(self, data)
        if self._is_at_work():
            self._stop_waiting()
            self._early_bytes = self._early_bytes + len(data) if self._progress() == before else 0
            if self._early_bytes > HEADER_BYTES and not self.transport.is_closing():
                self.flow.pause_reading()
            return
        self._expect()
        self._waiting_bytes += len(data)
        if self._waiting_bytes > HEADER_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Called by the parser that takes in several requests at once; the other one leaves them unread."""
        if self.parser.is_offered:
            return
        _Protocol.on_headers_complete(self)
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        if not self.parser.is_offered:
            _Protocol.on_message_complete(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        _Protocol.connection_lost(self, exc)
        for cycle in self._unanswered:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        self._unanswered.clear()

    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _progress(self) -> tuple[object, ...]:
        """What changes when a piece of a body, or another request, has come in; with anything else it stays."""
        cycle = self.cycle
        return () if cycle is None else (cycle, cycle.more_body, len(cycle.body))

    def _expect(self) -> None:
        """From the first byte on, not from the last: a byte a second is no sign of life."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.header_s, self.transport.close)

    def _stop_waiting(self) -> None:
        self._waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
