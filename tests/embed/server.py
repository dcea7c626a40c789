"""A small real HTTP server on loopback that answers from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Status, headers and body; made from the path and the body of the request.
Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Server:
    """Answers each request with the next scripted reply, the last one again and again, and keeps what it got."""

    url: str = ""
    replies: list[Callable[[str, bytes], Reply]] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        self.bodies.append(json.loads(body) if body else {})
        self.headers.append(headers)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(path, body)


@contextmanager
def serving() -> Iterator[Server]:
    """The server, answering until the block ends."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, payload = state.answer(self.path, body, dict(self.headers))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(payload))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield state
    finally:
        state.released.set()
        http.shutdown()
        thread.join()
        http.server_close()
