"""A real collector between us and a backend: Rotel, which takes OTLP over HTTP and sends it on over HTTP."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quipu.telemetry.check import checked, is_memory
from tests.requirement import requirement
from tests.telemetry.receiver import Receiver, receiving
from tests.telemetry.test_export import PARENT, TRACE, serving
from tests.vendors.environments import python_of

pytestmark = pytest.mark.vendor(name="rotel")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def collecting(receiver: Receiver) -> Iterator[str]:
    """Rotel at work; where it takes OTLP over HTTP."""
    agent = next(Path(python_of("rotel")).parents[1].glob("lib/python*/site-packages/rotel/rotel-agent"))
    http, grpc = _free_port(), _free_port()
    options = {
        "--otlp-http-endpoint": f"127.0.0.1:{http}",
        "--otlp-grpc-endpoint": f"127.0.0.1:{grpc}",
        "--otlp-exporter-endpoint": receiver.url,
        "--otlp-exporter-protocol": "http",
        "--batch-timeout": "100ms",
    }
    process = subprocess.Popen(
        [agent, "start", *(word for pair in options.items() for word in pair)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("ROTEL_")},
    )
    try:
        until = time.monotonic() + 60
        while True:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", http)) == 0:
                    break
            assert process.poll() is None, "the collector has ended"
            assert time.monotonic() < until, "the collector does not listen"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{http}"
    finally:
        process.terminate()
        process.wait(30)


@requirement("opentelemetry:export.collector")
def test_a_real_collector_takes_our_spans_and_metrics_and_sends_them_on(tmp_path: Path) -> None:
    import httpx

    with receiving() as backend, collecting(backend) as endpoint:
        with serving(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as address:
            told = {"traceparent": PARENT}
            httpx.post(
                f"{address}/v1/memories", json={"content": "Ana likes tea.", "agent_id": "ana"}, headers=told
            )
            httpx.post(
                f"{address}/v1/memories/recall", json={"query": "tea", "agent_id": "ana"}, headers=told
            )
        backend.wait_for("search_memory")
        backend.wait_for("update_memory main")
        backend.wait_for("quipu.server.operation.duration")
        found = backend.read()
    memory = [span for span in found.spans if is_memory(span) and span.name != "create_memory_store main"]
    assert len(memory) == 2
    assert {span.scope for span in memory} == {"quipu"}
    assert len({span.trace_id for span in memory}) == 1
    assert [one for one in checked(found.spans, found.points) if one.id != "disconnected"] == []
    traces = [
        span.trace_id.hex()
        for one in backend.requests("/v1/traces")
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert TRACE in traces
