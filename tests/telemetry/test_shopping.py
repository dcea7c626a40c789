"""The proposal's shopping agent, exported over OTLP to a collector and read back from what arrived there.

The test plays the agent and the model; Quipu makes the memory spans. A clock of the test's drives all times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Tracer

from quipu import Memory, bootstrap
from quipu.bootstrap.telemetry import Telemetry, Watched
from quipu.config import Config
from quipu.service.memory import MemoryService
from quipu.telemetry.checking import Terms, checked
from quipu.telemetry.names import Convention
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.telemetry.receiver import Receiver, receiving, values

_MS = 1_000_000
_ZERO = 1_700_000_000_000 * _MS
_TEA = "The customer likes green tea from Japan"
_CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 1500,
    "gen_ai.usage.output_tokens": 250,
}
_AGENT = {
    "gen_ai.agent.name": "Shopping Assistant",
    "gen_ai.provider.name": "azure.ai.inference",
}


class Moments:
    """Nanoseconds, as the script says: the next operation begins and ends at these."""

    def __init__(self) -> None:
        self.next: list[int] = []

    def __call__(self) -> int:
        return _ZERO + self.next.pop(0) * _MS if self.next else _ZERO


class Wired:
    """A service whose ids the test chooses."""

    def __init__(self, config: Config, watched: Watched, ids: list[str]) -> None:
        self._config, self._watched, self._ids = config, watched, ids
        self._running: bootstrap.Running | None = None

    def _mint(self, prefix: str) -> str:
        return self._ids.pop(0) if prefix == "mem" and self._ids else bootstrap.mint_id(prefix)

    async def open(self) -> MemoryService:
        running = await bootstrap.start(self._config, embedder=WordEmbedder(), watched=self._watched)
        service = MemoryService(replace(running.parts, mint_id=self._mint), "test")
        await running.parts.ledger.open("default")
        self._running = running
        return service

    async def close(self) -> None:
        assert self._running is not None
        await self._running.close()


@contextmanager
def during(tracer: Tracer, name: str, start: int, length: int, given: dict[str, Any]) -> Iterator[None]:
    span = tracer.start_span(name, kind=SpanKind.CLIENT, attributes=given, start_time=_ZERO + start * _MS)
    with trace.use_span(span, end_on_exit=False):
        yield
    span.end(end_time=_ZERO + (start + length) * _MS)


async def shopped(receiver: Receiver, convention: str) -> tuple[str, str]:
    """The whole run; gives the store's id and what the new record is called."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer, moments, ids = provider.get_tracer("shop"), Moments(), list[str]()
    config = Config(store_url="sqlite://:memory:", telemetry_convention=convention)
    watched = Watched(telemetry=Telemetry(tracer_provider=provider, clock_ns=moments))
    memory = Memory("shopper", config=config, connection=Wired(config, watched, ids))
    mine = {"store": "user-preferences", "user_id": "user_12345"}
    store = await memory.create_store("user-preferences", scope="user", namespace="user_12345")
    for fact in (
        _TEA,
        "The customer likes green tea in the morning",
        "The customer likes green tea with honey",
    ):
        await memory.remember(fact, **mine)
    await memory.remember("Parcels go to the neighbour", **mine)
    provider.force_flush()
    receiver.bodies.clear()
    with during(tracer, "invoke_agent Shopping Assistant", 0, 1500, _AGENT):
        moments.next = [0, 45]
        found = await memory.recall("Which green tea does the customer like?", min_relevance=0.7, k=3, **mine)
        assert len(found) == 3
        with during(tracer, "chat gpt-4", 50, 1200, _CHAT):
            pass
        ids.append("mem_xyz789")
        moments.next = [1470, 1500]
        kept = await memory.remember("The customer ordered Sencha", **mine)
    await memory.close()
    provider.shutdown()
    return store.id, kept.id


def told(span: Span) -> tuple[str, int, int, int]:
    """Name, kind, and when it began and how long it took in milliseconds."""
    start = span.start_time_unix_nano - _ZERO
    length = span.end_time_unix_nano - span.start_time_unix_nano
    return span.name, span.kind, start // _MS, length // _MS


@requirement("telemetry:shopping")
async def test_the_shopping_agents_trace_arrives_as_the_proposal_draws_it() -> None:
    with receiving("proposal") as receiver:
        store, new = await shopped(receiver, "proposal")
    client = Span.SPAN_KIND_CLIENT
    agent, search, chat, update = receiver.spans
    assert [told(span) for span in receiver.spans] == [
        ("invoke_agent Shopping Assistant", client, 0, 1500),
        ("search_memory user-preferences", client, 0, 45),
        ("chat gpt-4", client, 50, 1200),
        ("update_memory user-preferences", client, 1470, 30),
    ]
    assert len({span.trace_id for span in receiver.spans}) == 1
    assert {span.parent_span_id for span in (search, chat, update)} == {agent.span_id}
    assert values(agent) == _AGENT
    assert values(chat) == _CHAT
    common = {
        "gen_ai.provider.name": "quipu",
        "gen_ai.memory.store.id": store,
        "gen_ai.memory.store.name": "user-preferences",
        "gen_ai.memory.type": "long_term",
        "gen_ai.memory.namespace": "user_12345",
    }
    assert without_own(values(search)) == {
        **common,
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.search.result.count": 3,
        "gen_ai.memory.search.similarity.threshold": 0.7,
    }
    assert new == "mem_xyz789"
    assert without_own(values(update)) == {
        **common,
        "gen_ai.operation.name": "update_memory",
        "gen_ai.memory.id": "mem_xyz789",
    }
    spans, _ = receiver.checked
    terms = Terms(assumed=("namespaced",))
    assert checked(spans, terms=terms) == []
    assert not any(word in body for _, body in receiver.bodies for word in (b"green tea", b"Sencha"))


@requirement("telemetry:shopping.merged")
async def test_the_same_run_under_the_merged_convention() -> None:
    with receiving("merged") as receiver:
        store, new = await shopped(receiver, "merged")
    _, search, _, create = receiver.spans
    internal = Span.SPAN_KIND_INTERNAL
    assert (search.name, search.kind) == ("search_memory", internal)
    assert (create.name, create.kind) == ("create_memory", internal)
    assert without_own(values(search)) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": store,
        "gen_ai.memory.record.count": 3,
        "gen_ai.retrieval.top_k": 3,
    }
    assert without_own(values(create)) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.memory.store.id": store,
        "gen_ai.memory.record.id": new,
        "gen_ai.memory.record.count": 1,
    }
    spans, _ = receiver.checked
    assert checked(spans, terms=Terms(convention=Convention.MERGED)) == []


@requirement("telemetry:shopping.both")
async def test_the_same_run_under_both() -> None:
    with receiving("both") as receiver:
        _, new = await shopped(receiver, "both")
    _, search, _, update = receiver.spans
    assert search.name == "search_memory user-preferences"
    assert values(search)["gen_ai.memory.search.result.count"] == 3
    assert values(search)["gen_ai.memory.record.count"] == 3
    assert values(update)["gen_ai.memory.id"] == values(update)["gen_ai.memory.record.id"] == new
    assert values(update)["quipu.memory.merged_operation"] == "create_memory"
    spans, _ = receiver.checked
    assert checked(spans, terms=Terms(convention=Convention.BOTH)) == []
    assert {found.id for found in checked(spans)} == {"unknown_attribute"}  # the proposal alone


def without_own(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if not name.startswith("quipu.")}
