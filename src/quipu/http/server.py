"""A server process: bind, serve, drain, close. What was acknowledged is never lost by its end."""

import contextlib
import errno
import gc
import signal
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import uvicorn

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.http.app import App
from quipu.http.connection import Connection
from quipu.http.settings import HttpSettings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Longer than proxies keep an idle connection, so that they never send into one that is being closed.
_KEEP_ALIVE_S = 75
#: So many objects come to be before the youngest are searched for garbage.
_YOUNG = 10_000


def bound_socket(settings: HttpSettings) -> socket.socket:
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


def address_of(settings: HttpSettings, listening: socket.socket) -> str:
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

    def __init__(self, app: App, settings: HttpSettings) -> None:
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
    settings: HttpSettings,
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
