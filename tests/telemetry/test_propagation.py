"""One trace over processes: the client's, the server's, and memory's own, as a real collector receives them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from opentelemetry import propagate
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import quipu
from quipu.bootstrap.telemetry import Telemetry, Watched
from quipu.telemetry.checking import checked
from quipu.telemetry.settings import Side
from tests.faces.mcp.hosts import stdio
from tests.faces.serving import Program, served
from tests.requirement import requirement
from tests.telemetry.receiver import Receiver, receiving, values
from tests.telemetry.shown import Shown, attributes

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
_SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "60000"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def program(collector: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """`quipu serve` as an operator runs it, told where to export by the standard variable."""
    store = tmp_path_factory.mktemp("otlp") / "memory.db"
    with Program(store, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **_SOON) as running:
        yield running


async def arrived(receiver: Receiver, is_it: Callable[[Span], bool], patience_s: float = 20) -> Span:
    """The span, once it has come."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        found = [span for span in receiver.spans if is_it(span)]
        if found:
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError([span.name for span in receiver.spans])


@requirement("telemetry:propagation.http")
async def test_a_server_goes_on_with_its_callers_trace(collector: Receiver, program: Program) -> None:
    headers = {
        "Authorization": f"Bearer {program.token}",
        "traceparent": f"00-{TRACE}-{PARENT}-01",
        "baggage": "customer=mara",
    }
    body = {"agent_id": "ana", "query": "what does Mara like?"}
    async with httpx.AsyncClient(base_url=program.url, headers=headers) as http:
        (await http.post("/memorywire/v0/recall", json=body)).raise_for_status()
    span = await arrived(
        collector,
        lambda one: one.trace_id.hex() == TRACE and one.name.startswith("search_memory"),
    )
    server = await arrived(collector, lambda one: one.span_id == span.parent_span_id)
    assert server.kind == Span.SPAN_KIND_SERVER
    assert server.name == "POST /memorywire/v0/recall"
    assert server.parent_span_id.hex() == PARENT
    assert values(server)["http.response.status_code"] == 200
    assert values(span)["quipu.memory.side"] == "server"
    assert "mara" not in str(values(server)) + str(values(span))
    assert not any(b"what does Mara" in body for _, body in collector.bodies)


@requirement("oap:headers.trace")
async def test_memory_exchange_has_a_name_of_its_own_for_the_trace(
    collector: Receiver, program: Program
) -> None:
    trace = TRACE[::-1]
    headers = {"OAP-Trace": f"00-{trace}-{PARENT}-01"}
    async with httpx.AsyncClient(base_url=program.url, headers=headers) as http:
        answer = await http.get("/.well-known/oap-tool.json")
    assert answer.headers["OAP-Trace"] == headers["OAP-Trace"]
    server = await arrived(collector, lambda one: one.trace_id.hex() == trace)
    assert (server.name, server.parent_span_id.hex()) == ("GET /.well-known/oap-tool.json", PARENT)


@requirement("telemetry:propagation.client")
async def test_a_remote_call_is_one_trace_with_a_span_on_each_side(
    collector: Receiver, program: Program, shown: Shown
) -> None:
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    async with quipu.connect(program.url, token=program.token, agent_id="ana", telemetry=told) as memory:
        kept = await memory.remember("tea", user_id="mara")
    mine = shown.span("update_memory main")
    given = attributes(mine)
    address = httpx.URL(program.url)
    assert (given["server.address"], given["server.port"]) == (address.host, address.port)
    assert given["quipu.memory.side"] == "caller"
    assert given["gen_ai.memory.id"] == kept.id
    assert mine.kind.name == "CLIENT"
    assert shown.findings() == []
    assert mine.context is not None
    trace = f"{mine.context.trace_id:032x}"
    server = await arrived(
        collector,
        lambda one: one.trace_id.hex() == trace and one.kind == Span.SPAN_KIND_SERVER,
    )
    inner = await arrived(collector, lambda one: one.parent_span_id == server.span_id)
    assert server.parent_span_id.hex() == f"{mine.context.span_id:016x}"
    assert inner.name == "update_memory main"
    assert values(inner)["gen_ai.memory.id"] == kept.id
    (point,) = shown.points("gen_ai.client.operation.duration")
    assert point[1].count == 1


class Failing(TraceContextTextMapPropagator):
    """A propagator of somebody's own that does not work."""

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        raise RuntimeError("no way")


async def test_a_propagator_that_fails_does_not_fail_the_call(program: Program, shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(Failing())
    try:
        async with quipu.connect(program.url, token=program.token, agent_id="ana", telemetry=told) as memory:
            kept = await memory.remember("tea")
    finally:
        propagate.set_global_textmap(before)
    assert attributes(shown.span("update_memory main"))["gen_ai.memory.id"] == kept.id


@asynccontextmanager
async def http_client(program: Program) -> AsyncIterator[Client]:
    http = create_mcp_http_client(headers={"Authorization": f"Bearer {program.token}"})
    async with http, Client(streamable_http_client(program.url + "/mcp", http_client=http)) as client:
        yield client


async def called(client: Client, tracers: TracerProvider) -> tuple[str, str]:
    """Remember something within a span of the test's; gives its trace and span."""
    with tracers.get_tracer("agent").start_as_current_span("agent") as span:
        done = await client.call_tool("remember", {"content": "tea", "type": "semantic"})
        assert not done.is_error, done
        context = span.get_span_context()
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


async def check_mcp(collector: Receiver, trace: str, parent: str) -> None:
    outer = await arrived(
        collector, lambda one: one.trace_id.hex() == trace and one.name == "tools/call remember"
    )
    inner = await arrived(collector, lambda one: one.parent_span_id == outer.span_id)
    assert outer.parent_span_id.hex() == parent
    assert inner.name == "update_memory main"
    assert values(inner)["quipu.memory.side"] == "server"


@requirement("telemetry:propagation.mcp")
async def test_mcp_over_http_goes_on_with_the_trace_in_meta(
    collector: Receiver, program: Program, shown: Shown
) -> None:
    async with http_client(program) as client:
        trace, parent = await called(client, shown.tracers)
    await check_mcp(collector, trace, parent)


@requirement("telemetry:propagation.mcp")
async def test_mcp_over_stdio_goes_on_with_the_trace_in_meta(
    collector: Receiver, shown: Shown, tmp_path: Path
) -> None:
    server = stdio(tmp_path / "memory.db", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **_SOON)
    async with Client(stdio_client(server)) as client:
        trace, parent = await called(client, shown.tracers)
    await check_mcp(collector, trace, parent)


@requirement("telemetry:export.metrics")
async def test_what_a_server_exports_follows_the_convention(shown: Shown, tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with receiving() as collector:
        with Program(store, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **_SOON) as program:
            async with http_client(program) as client:
                await called(client, shown.tracers)
            headers = {"Authorization": f"Bearer {program.token}"}
            async with httpx.AsyncClient(base_url=program.url, headers=headers) as http:
                body = {"agent_id": "ana", "query": "tea", "user_id": "mara"}
                (await http.post("/memorywire/v0/recall", json=body)).raise_for_status()
                assert (await http.post("/memorywire/v0/recall", json={"agent_id": "ana"})).is_error
            assert program.stop() == 0  # sends what waits
        spans, points = collector.checked
    assert {span.name for span in spans} >= {"update_memory main", "search_memory main", "POST /mcp"}
    assert checked(spans, points) == []
    names = {point.name for point in points}
    assert {"quipu.server.operation.duration", "http.server.request.duration"} <= names
    assert {"mcp.server.operation.duration", "quipu.memory.search.results"} <= names
    assert "gen_ai.client.operation.duration" not in names  # the caller counts its calls
    labels = {str(value) for point in points for value in point.labels.values()}
    assert not labels & {"mara", "ana", "main", "tea"}


@requirement("telemetry:propagation.no-second-span")
def test_a_span_that_is_already_there_is_not_opened_again(shown: Shown) -> None:
    """As when somebody's own instrumentation wraps the application."""
    watched = Watched(telemetry=Telemetry(tracer_provider=shown.tracers), side=Side.SERVER)
    with served(is_open=True, watched=watched) as at:
        shown.clear()
        app, tracer = at.web.asgi, shown.tracers.get_tracer("contrib")

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            with tracer.start_as_current_span("theirs"):
                await app(scope, receive, send)

        async def asked() -> None:
            transport = httpx.ASGITransport(app=wrapped)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                body = {"agent_id": "ana", "query": "tea"}
                headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
                (await http.post("/memorywire/v0/recall", json=body, headers=headers)).raise_for_status()

        at.do(asked())
        theirs, search = shown.span("theirs"), shown.span("search_memory main")
        assert search.parent == theirs.context
        assert len(shown.spans) == 2


def test_a_request_sent_before_the_last_was_answered_has_a_trace_of_its_own(shown: Shown) -> None:
    """Two at once over one connection: the server begins the second while it ends the first."""
    watched = Watched(telemetry=Telemetry(tracer_provider=shown.tracers), side=Side.SERVER)
    with served(is_open=True, watched=watched) as at:
        shown.clear()
        host, _, port = at.url.removeprefix("http://").partition(":")
        one = f"GET /quipu/v1/stores HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
        last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        with socket.create_connection((host, int(port)), timeout=30) as pipe:
            pipe.sendall((one + last).encode())
            answered = b"".join(iter(lambda: pipe.recv(65_536), b""))
        assert answered.count(b"HTTP/1.1 200 OK") == 2
    requests = [span for span in shown.spans if span.name == "GET /quipu/v1/stores"]
    assert len(requests) == 2
    assert [span.parent for span in requests] == [None, None]


@pytest.mark.parametrize("capture", ["EVENT_ONLY", "NO_CONTENT"])
def test_events_of_a_server_reach_the_collector_too(capture: str, tmp_path: Path) -> None:
    """Errors always, and content only where it is asked for."""
    settings = {
        "QUIPU_TELEMETRY_EVENTS": "true",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": capture,
    }
    with receiving() as receiver:
        url = receiver.url
        with Program(tmp_path / "memory.db", OTEL_EXPORTER_OTLP_ENDPOINT=url, **settings) as program:
            headers = {"Authorization": f"Bearer {program.token}"}
            with httpx.Client(base_url=program.url, headers=headers, timeout=30) as http:
                body = {"agent_id": "ana", "content": "Mara likes oolong", "type": "semantic"}
                http.post("/memorywire/v0/remember", json=body).raise_for_status()
                missing = {"agent_id": "ana", "query": "which oolong?", "store": "nowhere"}
                assert http.post("/memorywire/v0/recall", json=missing).status_code == 404
            assert program.stop() == 0
        names = [record.event_name for record in receiver.logs]
        details = ["quipu.memory.operation.details"] if capture == "EVENT_ONLY" else []
        assert names == [*details, "gen_ai.client.operation.exception"]
        assert {record.trace_id for record in receiver.logs} <= {span.trace_id for span in receiver.spans}
        said = b"".join(body for _, body in receiver.bodies)
        assert (b"Mara likes oolong" in said) is (capture == "EVENT_ONLY")
        assert b"which oolong" not in said


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@requirement("telemetry:export.unreachable")
@pytest.mark.parametrize("kind", ["hanging", "dead"])
def test_a_collector_that_is_gone_slows_nobody_and_stops_nothing(
    black_hole: str, kind: str, tmp_path: Path
) -> None:
    url = black_hole if kind == "hanging" else "http://127.0.0.1:9"
    with Program(tmp_path / "memory.db", OTEL_EXPORTER_OTLP_ENDPOINT=url, **_SOON) as program:
        headers = {"Authorization": f"Bearer {program.token}"}
        with httpx.Client(base_url=program.url, headers=headers, timeout=30) as http:
            body = {"agent_id": "ana", "query": "tea"}
            slowest = 0.0
            for _ in range(30):
                began = time.perf_counter()
                http.post("/memorywire/v0/recall", json=body).raise_for_status()
                slowest = max(slowest, time.perf_counter() - began)
        assert slowest < 5  # an export that hangs takes ten
        began = time.perf_counter()
        assert program.stop() == 0
        assert time.perf_counter() - began < 20
