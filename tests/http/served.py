"""The real server on a socket, in a thread of its own, and bare connections to it."""

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from quipu.config import Settings
from quipu.http.server import Server, bound_socket, serve
from tests.http.conftest import Server as InProcess
from tests.http.conftest import Servers

PATIENCE_S = 20.0


@dataclass
class Served:
    """A running server, and what stands behind it."""

    settings: Settings
    port: int
    running: Server
    inside: InProcess
    loop: asyncio.AbstractEventLoop
    url: str

    def client(self, token: str = "good", **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, **options)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def open_gate(self) -> None:
        self.loop.call_soon_threadsafe(self.inside.rig.gate.set)

    def shut_gate(self) -> None:
        self.loop.call_soon_threadsafe(self.inside.rig.gate.clear)


@contextlib.contextmanager
def served(**given: Any) -> Iterator[Served]:
    """A server until the end of the block."""
    settings = Settings(port=0, shutdown_grace_s=5).model_copy(update=given)
    listening = bound_socket(settings)
    ready, found = threading.Event(), list[Served]()
    failures = list[BaseException]()

    async def main() -> None:
        servers = Servers()
        inside = await servers(**given)
        running = Server(inside.app, settings)

        async def started(url: str) -> None:
            port = listening.getsockname()[1]
            found.append(Served(settings, port, running, inside, asyncio.get_running_loop(), url))
            ready.set()

        await serve(inside.app, settings, listening, started, server=running)
        await servers.close()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        assert not failures, failures
        yield found[0]
    finally:
        if found:
            found[0].open_gate()
            found[0].running.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "it did not end"


def wait_for(happened: Callable[[], object]) -> None:
    """Until it has; a bounded wait, not a guess how long it takes."""
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            said += piece
    return said


def read_until(connection: socket.socket, text: bytes) -> bytes:
    """Until the other side has said something."""
    said = b""
    while text not in said:
        piece = connection.recv(65536)
        assert piece, said
        said += piece
    return said


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Authorization: Bearer good", *headers]
    return "\r\n".join([*lines, "", ""]).encode()
