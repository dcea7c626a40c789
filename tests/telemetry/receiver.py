"""A collector, small but real: an HTTP server that takes OTLP as the exporters send it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from quipu.telemetry.checking import Point, Terms
from quipu.telemetry.checking import Span as Checked
from quipu.telemetry.names import Convention
from quipu.telemetry.reading import exported
from tests.conventions import exported_faults


class Receiver:
    """What has arrived, as bytes and as messages."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        #: Path and body of each request, unzipped.
        self.bodies: list[tuple[str, bytes]] = []
        #: Also what a test has put away.
        self._ever: list[bytes] = []
        self._arrived = threading.Condition()

    def took(self, path: str, body: bytes) -> None:
        with self._arrived:
            self.bodies.append((path, body))
            if path != "/v1/logs":  # no convention says how these look
                self._ever.append(body)
            self._arrived.notify_all()

    def wait_for(self, path: str, seconds: float = 30) -> None:
        """Until something came there."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: any(where == path for where, _ in self.bodies), seconds)

    @property
    def spans(self) -> list[Span]:
        """In the order in which they began."""
        found = [
            span
            for path, body in self.bodies
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return [
            metric
            for path, body in self.bodies
            if path == "/v1/metrics"
            for resource in MessageToDict(ExportMetricsServiceRequest.FromString(body))["resourceMetrics"]
            for scope in resource.get("scopeMetrics", ())
            for metric in scope["metrics"]
        ]

    @property
    def logs(self) -> list[LogRecord]:
        return [
            record
            for path, body in self.bodies
            if path == "/v1/logs"
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def checked(self) -> tuple[list[Checked], list[Point]]:
        """As the validator reads what came over the wire."""
        read = [exported(body) for path, body in self.bodies if path != "/v1/logs"]
        return [span for one in read for span in one.spans], [point for one in read for point in one.points]

    def faults(self, terms: Terms) -> list[str]:
        """What the validator says about all that ever came."""
        read = [exported(body) for body in self._ever]
        spans, points = [one.spans for one in read], [one.points for one in read]
        return exported_faults(list(chain(*spans)), list(chain(*points)), terms)


def values(span: Span) -> dict[str, Any]:
    """A span's attributes."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "") for pair in span.attributes}


@contextmanager
def receiving(convention: str = "proposal", *, allows_content: bool = False) -> Iterator[Receiver]:
    """A collector at work. All that came has to follow the convention in the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.took(self.path, body)
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
    terms = Terms(convention=Convention(convention), allows_content=allows_content)
    if faults := receiver.faults(terms):
        raise AssertionError("\n".join(faults))
