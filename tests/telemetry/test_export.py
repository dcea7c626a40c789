"""From our own programs to a collector: over real sockets, decoded by OpenTelemetry's own messages."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from quipu.telemetry.check import checked, is_memory
from quipu.telemetry.export import close, exporting
from tests.requirement import requirement
from tests.telemetry.receiver import receiving

QUIPU = Path(sys.executable).with_name("quipu")
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@contextmanager
def serving(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A server that was started with these variables; its address."""
    line = [
        QUIPU,
        "serve",
        "--json",
        "--port",
        "0",
        "--no-auth",
        "--store-url",
        f"sqlite:///{folder / 'm.db'}",
    ]
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "QUIPU_EMBEDDER": "none", "OTEL_BSP_SCHEDULE_DELAY": "200", **environment},
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@requirement("opentelemetry:export.programs")
def test_a_server_sends_its_spans_and_metrics_to_the_collector(tmp_path: Path) -> None:
    with receiving() as receiver:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        with serving(tmp_path, environment) as address:
            told = {"traceparent": PARENT}
            httpx.post(
                f"{address}/v1/memories", json={"content": "Ana likes tea.", "agent_id": "ana"}, headers=told
            )
            receiver.wait_for("update_memory main")
            httpx.post(
                f"{address}/v1/memories/recall", json={"query": "tea", "agent_id": "ana"}, headers=told
            )
        # The server has ended: what was waiting has come too.
        found = receiver.read()
        resource = receiver.requests("/v1/traces")[0].resource_spans[0].resource
        names = {pair.key: pair.value.string_value for pair in resource.attributes}
    assert (names["service.name"], names["deployment.environment.name"]) == ("quipu", "test")
    memory = [span for span in found.spans if is_memory(span)]
    assert {"update_memory main", "search_memory"} <= {span.name for span in memory}
    requests = {span.span_id: span for span in found.spans if span.kind == "SERVER"}
    for span in memory:
        assert span.attributes["quipu.memory.side"] == "server"
        if span.name != "create_memory_store main":
            assert requests[span.parent_id].name.startswith("POST /v1/memories")
    assert {point.name for point in found.points} >= {
        "quipu.server.operation.duration",
        "http.server.request.duration",
    }
    assert [one for one in checked(found.spans, found.points) if one.id != "disconnected"] == []


@requirement("opentelemetry:export.programs")
def test_mcp_on_standard_input_sends_its_spans_too(tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": PARENT,
    }
    call = {
        "name": "remember",
        "arguments": {"content": "Ana likes tea.", "type": "semantic", "agent_id": "ana"},
        "_meta": meta,
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    with receiving() as receiver:
        environment = {**os.environ, "QUIPU_EMBEDDER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        process = subprocess.Popen(
            [QUIPU, "mcp", "--store-url", f"sqlite:///{tmp_path / 'm.db'}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        assert "mem_" in process.stdout.readline().decode()
        process.communicate(timeout=60)  # it hangs up: what waits is sent
        spans = receiver.read().spans
    by_id = {span.span_id: span for span in spans}
    (memory,) = (span for span in spans if span.name == "update_memory main")
    tool = by_id[memory.parent_id]
    assert (tool.name, tool.kind, tool.attributes["mcp.method.name"]) == (
        "tools/call remember",
        "SERVER",
        "tools/call",
    )
    assert memory.attributes["quipu.memory.side"] == "server"
    assert len({memory.trace_id, tool.trace_id}) == 1


@requirement("opentelemetry:export.patience")
def test_the_end_of_a_program_waits_for_all_of_a_collector_no_longer_than_it_may() -> None:
    never = threading.Event()
    late = threading.Timer(60, never.set)
    late.start()
    close([never.wait, never.wait], patience_s=0.3)
    assert not never.is_set()
    late.cancel()
    never.set()


@requirement("opentelemetry:export.patience")
def test_a_server_whose_collector_does_not_answer_ends_in_time(tmp_path: Path) -> None:
    import socket

    with socket.socket() as silent:  # it takes connections, and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with serving(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as address:
            answer = httpx.post(
                f"{address}/v1/memories", json={"content": "Ana likes tea.", "agent_id": "ana"}
            )
            assert answer.status_code == 200
            began = time.monotonic()
        assert time.monotonic() - began < 45  # far less than the SDK would try


@requirement("opentelemetry:export.programs")
def test_who_names_no_collector_loads_no_sdk() -> None:
    code = (
        "import sys\n"
        "from quipu.telemetry.export import exporting\n"
        "with exporting(frozenset()): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


@requirement("opentelemetry:export.programs")
def test_without_the_extra_one_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with exporting({"traces"}):
        pass
    assert ["quipu-memory[telemetry]" in record.message for record in caplog.records] == [True]
