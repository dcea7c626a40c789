"""uvicorn, run by us: one loop, one process, and an end in which nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.faces.http.connections import ImpatientProtocol
from quipu.faces.http.lifecycle import Lifecycle, Stage

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Longer than proxies keep an idle connection, so that they never send into one that is being closed.
_KEEP_ALIVE_S = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where and how to listen, and how to stop."""

    host: str = "127.0.0.1"
    port: int = 8321
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: Whose word about the real client is taken; empty: nobody's.
    trusted_proxies: tuple[str, ...] = ()
    #: What is at work may take so long to finish.
    grace_s: int = 20
    #: So long the server goes on after it has said that it is not ready, for load balancers to notice.
    delay_s: float = 0

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"


def bind(options: ServerOptions) -> socket.socket:
    """A listening place, or an error that says what is in the way."""
    host = options.host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidError(f"There is no address {host}.", reason="bad_address") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)  # from here on who comes waits, and is not refused
    except OSError as error:
        listening.close()
        raise _no_place(options, error) from error
    return listening


def _no_place(options: ServerOptions, error: OSError) -> BackendUnavailableError:
    where = f"{options.host}:{options.port}"
    if error.errno == errno.EADDRINUSE:
        return BackendUnavailableError(
            f"Another program listens on {where}.",
            reason="port_in_use",
            hint="Choose another --port, or stop the other program; it may be another `quipu serve`.",
        )
    hint = "Choose another --host or --port; ports below 1024 need special rights."
    return BackendUnavailableError(f"Cannot listen on {where}.", reason="cannot_listen", hint=hint)


def check_tls(options: ServerOptions) -> None:
    """Refuse a certificate that cannot be used, before anything is opened."""
    if options.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise InvalidError(
            "The certificate and its key cannot be used.",
            reason="bad_certificate",
            hint="--tls-cert takes a PEM file with the certificate chain, --tls-key the key that belongs to it.",
        ) from error


def address_of(options: ServerOptions, listening: socket.socket) -> str:
    """The address to type into a browser."""
    port = listening.getsockname()[1]
    host = options.host.strip("[]")
    if host in ("0.0.0.0", "::"):  # noqa: S104  told to people, not bound
        host = "localhost"
    return f"{options.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class Settings(uvicorn.Config):
    """uvicorn's settings, with TLS 1.3 or later: grants and tokens travel over nothing older (OAP contract 5.1)."""

    def load(self) -> None:
        super().load()
        if self.ssl is not None:
            self.ssl.minimum_version = ssl.TLSVersion.TLSv1_3


class Server(uvicorn.Server):
    """uvicorn's server, which drains before it stops and ends quietly."""

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, delay_s: float) -> None:
        super().__init__(config)
        self._lifecycle, self._delay_s = lifecycle, delay_s

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

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._lifecycle.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._lifecycle.drain()
        end = asyncio.get_running_loop().time() + self._delay_s
        while not self.force_exit and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a signal sets a flag
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
        if self.force_exit:  # whoever is in a hurry still gets a closed ledger
            await self.lifespan.shutdown()


def _hung_up() -> tuple[int, ...]:
    """The signal of a terminal that is shut, where there is one; who asks for it to be ignored (`nohup`) is heeded."""
    number: int | None = getattr(signal, "SIGHUP", None)
    return () if number is None or signal.getsignal(number) is signal.SIG_IGN else (number,)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on the fastest loop that is installed."""
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        runner.run(main)


def server(app: ASGIApp, lifecycle: Lifecycle, options: ServerOptions) -> Server:
    """A server that is not running yet."""
    protocol: Any = ImpatientProtocol
    config = Settings(
        app,
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies),
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=options.grace_s,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        # A request that was sent before the last one was answered would begin inside that one's trace.
        reset_contextvars=True,
        workers=1,
    )
    return Server(config, lifecycle, options.delay_s)


async def serve(
    running: Server, listening: socket.socket, lifecycle: Lifecycle, on_ready: Callable[[], None]
) -> None:
    """Serve until somebody asks for an end. What keeps the server from starting is raised."""

    async def announce() -> None:
        await lifecycle.settled()
        if lifecycle.stage is Stage.READY:
            on_ready()

    announcing = asyncio.create_task(announce())
    try:
        await running.serve(sockets=[listening])
    finally:
        announcing.cancel()
        await asyncio.gather(announcing, return_exceptions=True)
    if lifecycle.failure is not None:
        raise lifecycle.failure
