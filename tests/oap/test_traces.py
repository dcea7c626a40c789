"""One trace over two hosts: whatever is asked of the other host is asked in the trace of what it is asked for (5.1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quipu.bootstrap.telemetry import Telemetry, Watched
from quipu.crypto.dids_peers import GuardedPeers
from quipu.telemetry.settings import Side
from tests.oap.hosts import BRIEFING, OWNER, Host, pair
from tests.requirement import requirement

PARENT = "00f067aa0ba902b7"


class Heard:
    """What both hosts tell of themselves."""

    def __init__(self) -> None:
        self.exporter, self.tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def has_continued(self, trace: str, name: str) -> bool:
        """Whether such a request was answered inside another span of the trace, once both have ended."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = [one for one in self.exporter.get_finished_spans() if _trace(one) == trace]
            known = {one.context.span_id for one in found if one.context is not None}
            answered = [one for one in found if one.name == name and one.kind.name == "SERVER"]
            if any(one.parent is not None and one.parent.span_id in known for one in answered):
                return True
            time.sleep(0.02)
        return False


def _trace(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def hosts(heard: Heard, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    watched = Watched(telemetry=Telemetry(tracer_provider=heard.tracers), side=Side.SERVER)
    with pair(tmp_path, watched=watched) as both:
        yield both


@requirement("oap:headers.trace-out")
def test_a_grant_an_erasure_and_a_query_reach_the_other_host_in_their_own_traces(
    hosts: tuple[Host, Host], heard: Heard
) -> None:
    a, b = hosts
    name = a.remember("Meet.", tags=("website_redesign",), structured={"day": "tue"})
    granting, erasing = "a" * 32, "b" * 32
    draft = {"grantee": b.owner, "purpose": "Brief.", "filter": BRIEFING}
    with a.at.client() as owner:
        told = owner.post(
            "/oap/memory/grant", json=draft, headers={"traceparent": f"00-{granting}-{PARENT}-01"}
        )
        assert told.status_code == 201, told.text
        with heard.tracers.get_tracer("test").start_as_current_span("asking") as span:
            asking = f"{span.get_span_context().trace_id:032x}"
            assert b.ask(a, told.json()["output"]["grant"]["grant_id"]).items
        body = {"principal_did": a.owner, "item_ids": [name]}
        done = owner.post("/oap/data/delete", json=body, headers={"OAP-Trace": f"00-{erasing}-{PARENT}-01"})
        assert done.is_success, done.text
    assert heard.has_continued(granting, "GET /owners/{id}/did.json"), "whose DID it is was asked"
    assert heard.has_continued(asking, "POST /oap/memory/grant/{id}/token")
    assert heard.has_continued(asking, "POST /oap/memory/query")
    assert heard.has_continued(erasing, "POST /oap/data/delete")
    assert a.at.do(a.sharing.erasing.list(OWNER))[0].step.value == "done"


class Listener:
    """Another host, which keeps the headers that it is sent."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
        self.seen = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head if line)
        }
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@requirement("oap:headers.trace-out")
@pytest.mark.parametrize("is_traced", [True, False])
async def test_baggage_stays_here(is_traced: bool) -> None:
    place = f"00-{'c' * 32}-{PARENT}-01"

    def inject(headers: MutableMapping[str, str]) -> None:
        if is_traced:
            headers.update({"traceparent": place, "tracestate": "vendor=1"})
        headers["baggage"] = "customer=mara"

    other = Listener()
    listening = await asyncio.start_server(other.answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    peers = GuardedPeers(frozenset({url}), inject=inject)
    try:
        await peers.get(f"{url}/.well-known/did.json")
    finally:
        await peers.close()
        listening.close()
    told = {name: other.seen.get(name) for name in ("traceparent", "oap-trace", "baggage", "tracestate")}
    sent = place if is_traced else None
    assert told == {"traceparent": sent, "oap-trace": sent, "baggage": None, "tracestate": None}
