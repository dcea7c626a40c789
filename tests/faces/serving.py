"""The real server, for tests: in this process on a thread of its own, or as a process of its own.

`served(path)` gives a running server and its service; `Program` runs `quipu serve` and can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from quipu.bootstrap.serving import WebApp, server_options, web_app
from quipu.bootstrap.telemetry import Watched
from quipu.config import Config
from quipu.faces.http import server
from quipu.faces.http.catalogue import Face
from quipu.ports.embedder import Embedder
from quipu.ports.surroundings import Clock
from quipu.service.memory import MemoryService
from tests.conventions import command

PATIENCE_S = 30
T = TypeVar("T")


@dataclass
class Served:
    """A server at work."""

    url: str
    #: A token that may do everything in tenant `default` and run the server; empty in open mode.
    admin_token: str = field(repr=False)
    web: WebApp = field(repr=False)
    _loop: asyncio.AbstractEventLoop = field(repr=False)
    _server: server.Server = field(repr=False)

    @property
    def service(self) -> MemoryService:
        """The service behind it. It lives on the server's loop: call it through `do`."""
        return self.web.running.service

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's own loop, from the test's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def headers(self, token: str | None = None) -> dict[str, str]:
        given = self.admin_token if token is None else token
        return {"Authorization": f"Bearer {given}"} if given else {}

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client that shows the administrator's token, or another; "" shows none."""
        return httpx.Client(base_url=self.url, headers=self.headers(token), timeout=PATIENCE_S, **options)

    def async_client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers=self.headers(token), timeout=PATIENCE_S, **options
        )

    def connect(self) -> socket.socket:
        """A bare connection, for what no client would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def ask_to_stop(self) -> None:
        """What a signal does."""
        self._server.should_exit = True


@contextlib.contextmanager
def served(
    store: Path | None = None,
    *,
    is_open: bool = False,
    more: Callable[[MemoryService], Sequence[Face]] | None = None,
    embedder: Embedder | None = None,
    clock: Clock | None = None,
    watched: Watched | None = None,
    **settings: Any,
) -> Iterator[Served]:
    """The server over a store (None: one in memory), with any setting of `Config`; without another word no model."""
    where = "sqlite://:memory:" if store is None else f"sqlite://{store}"
    config = Config(**{"store_url": where, "embedder": "none", "port": 0, "shutdown_grace_s": 5, **settings})
    told: queue.Queue[Served | BaseException] = queue.Queue()
    listening = server.bind(server_options(config))
    address = server.address_of(server_options(config), listening)

    async def work() -> None:
        handed: dict[str, Any] = {} if clock is None else {"clock": clock}
        web = await web_app(
            config,
            is_open=is_open,
            makes_first_token=True,
            more=more,
            embedder=embedder,
            watched=watched,
            **handed,
        )
        running = server.server(web.asgi, web.lifecycle, server_options(config))

        def ready() -> None:
            token = "" if web.first_token is None else web.first_token.text
            told.put(Served(address, token, web, asyncio.get_running_loop(), running))

        await server.serve(running, listening, web.lifecycle, ready)

    def run() -> None:
        try:
            server.run(work())
        except BaseException as error:  # noqa: BLE001  handed to the test, which raises it
            told.put(error)

    thread = threading.Thread(target=run, name="served", daemon=True)
    thread.start()
    first = told.get(timeout=PATIENCE_S)
    if isinstance(first, BaseException):
        thread.join(PATIENCE_S)
        listening.close()
        raise first
    try:
        yield first
    finally:
        first.ask_to_stop()
        thread.join(PATIENCE_S)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"
        if not told.empty() and isinstance(failure := told.get(), BaseException):
            raise failure


class Program:
    """`quipu serve` as a process of its own."""

    command: tuple[str, ...] = ("serve",)

    def __init__(self, store: Path, *words: str, **environment: str) -> None:
        line = command(*self.command, "--json", "--port", "0", *words)
        given = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("QUIPU_", "MEMORYWIRE_"))
            },
            "QUIPU_STORE": f"sqlite://{store}",
            "QUIPU_EMBEDDER": "none",
            "XDG_CONFIG_HOME": str(store.parent / "no-settings"),
            **environment,
        }
        self.process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=given
        )
        self._log: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            self.process.wait(PATIENCE_S)
            raise AssertionError(f"quipu serve ended: {self.log}")
        self.told: dict[str, str] = json.loads(said)
        self.url = self.told["address"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._log.append(line)

    @property
    def log(self) -> str:
        """What it wrote to standard error so far."""
        return b"".join(self._log).decode()

    @property
    def token(self) -> str:
        """The administrator's token; only the first run tells one."""
        return self.told["token"]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
