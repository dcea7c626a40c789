"""A receiver of OTLP over HTTP, small but real: it decodes what exporters send with OpenTelemetry's own messages."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from quipu.telemetry.check import Exported, exported

_MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Receiver:
    """What has arrived."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._bodies: list[tuple[str, bytes]] = []
        self._arrived = threading.Condition()

    def took(self, path: str, body: bytes) -> None:
        with self._arrived:
            self._bodies.append((path, body))
            self._arrived.notify_all()

    def requests(self, path: str) -> list[Any]:
        """Decoded by OpenTelemetry's messages; raises for what is none."""
        return [_MESSAGES[path].FromString(body) for where, body in list(self._bodies) if where == path]

    def read(self) -> Exported:
        """As the checker reads the same, written to a file as JSON."""
        requests = [one for path in _MESSAGES for one in self.requests(path)]
        return exported("\n".join(json.dumps(MessageToDict(one)) for one in requests).encode())

    def wait_for(self, name: str, seconds: float = 60) -> None:
        """Until a span or a metric of this name has come."""

        def is_there() -> bool:
            found = self.read()
            return any(one.name == name for one in (*found.spans, *found.points))

        with self._arrived:
            assert self._arrived.wait_for(is_there, seconds), [one.name for one in self.read().spans]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver at work."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.took(
                self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
