"""A small real HTTP server on loopback that answers from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Status, headers and body, whole or piece by piece.
Reply = tuple[int, dict[str, str], bytes | Iterator[bytes]]
#: Makes a reply from the body of the request.
Script = Callable[[bytes], Reply]


@dataclass
class Server:
    """Answers each request with the next scripted reply, the last one again and again, and keeps what it got."""

    url: str = ""
    replies: list[Script] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    #: Set when the test is over: what a silent endpoint waits for.
    is_over: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: bytes, headers: dict[str, str]) -> Reply:
        self.bodies.append(json.loads(body))
        self.headers.append(headers)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(body)


@contextmanager
def serving() -> Iterator[Server]:
    """The server, answering until the block ends."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, payload = state.answer(body, dict(self.headers))
            self.send_response(status)
            if isinstance(payload, bytes):
                headers = {**headers, "Content-Length": str(len(payload))}
                payload = iter([payload])
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in payload:
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None: ...

    class Listener(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hung up is part of the test."""

    http = Listener(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield state
    finally:
        state.is_over.set()
        http.shutdown()
        thread.join()
        http.server_close()
