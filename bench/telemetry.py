"""What being watched costs a recall: off, idle, on and by a provider of one's own, against the same build without any observer.

All five take turns within one run, question by question and in changing order, over one ledger, so that whatever else the
machine does meets all of them alike. Beside the time on the wall stands the processor's, of the whole process: what others
do on the machine has no part in it, so that one decides. Once as people have it, with the default embedder and questions
never asked before, and once with keyword search alone, the quickest recall there is. `on` is a server: its spans are made by
`exporting.Tracers`, which ends them late. `own` is a program that uses the library and brings the SDK's plain provider with
the SDK's batches. Garbage is collected as in a server that is ready (`serving.settle`) for all of them.

Numbers are counted and spans ended several recalls at a time, and objects that nobody needs any more are collected many
recalls at a time: a median of single recalls would not see any of it. So what decides is the mean of a block of recalls,
long enough to hold the first two, against the mean of plain's same block, and of all blocks the median, since a busy machine
spoils some. The share of all recalls together stands beside it.
"""

from __future__ import annotations

import ast
import gc
import inspect
import random
import statistics
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench import labelled
from bench.metrics import latency_summary
from quipu import bootstrap
from quipu.bootstrap import serving
from quipu.bootstrap.telemetry import Telemetry, Watched, observer, shown_embedder
from quipu.config import Config
from quipu.model.operations import RecallRequest, RememberRequest
from quipu.model.outcomes import RecallResponse
from quipu.model.principal import Principal, local
from quipu.model.record import MemoryType
from quipu.ports.observing import Unobserved
from quipu.service import recalling
from quipu.service.memory import MemoryService
from quipu.telemetry.exporting import Tracers

AGENT = "bench"
_WARM_UP = 50
#: Numbers are counted every 64 recalls.
_BLOCK = 64
Note = Callable[[str], None]


class Dropping(SpanExporter):
    """A collector that is infinitely fast."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        return


class _Unwatched(ast.NodeTransformer):
    """Takes every block that an observer stands around out of it."""

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        is_watched = any("observer" in ast.dump(item.context_expr) for item in node.items)
        return node.body if is_watched else node


def _plain_recalling() -> type[recalling.Recalling]:
    """The recall as it would be if nobody had ever watched it: its own source, without the calls."""
    tree = _Unwatched().visit(ast.parse(inspect.getsource(recalling)))
    module = types.ModuleType("bench_recalling")
    exec(compile(ast.fix_missing_locations(tree), recalling.__file__, "exec"), module.__dict__)  # noqa: S102  our own source
    return module.Recalling


class Plain(MemoryService):
    """A service whose recall calls no observer."""

    def strip(self) -> None:
        """Put the recall without calls in place."""
        self._recalling.__class__ = _plain_recalling()

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        return await self._operating.recall(principal, request)


def _services(
    running: bootstrap.Running, config: Config, servers: TracerProvider, own: TracerProvider
) -> dict[str, MemoryService]:
    """One for each way of being watched, over the same ledger."""
    parts = replace(running.parts, observer=Unobserved())
    plain = Plain(parts, "bench")
    plain.strip()

    def watched(telemetry: Telemetry) -> MemoryService:
        watching = observer(config, Watched(telemetry=telemetry), clock_ns=bootstrap.now_ns)
        seen = parts.embedder and shown_embedder(parts.embedder, observer=watching, served=None)
        return MemoryService(replace(parts, observer=watching, embedder=seen), "bench")

    def told(tracers: TracerProvider) -> Telemetry:
        meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
        return Telemetry(tracer_provider=tracers, meter_provider=meters)

    return {
        "plain": plain,
        "off": MemoryService(parts, "bench"),
        "idle": watched(Telemetry()),
        "on": watched(told(servers)),
        "own": watched(told(own)),
    }


async def measured(folder: Path, recalls: int, note: Note = lambda _: None) -> dict[str, Any]:
    """Latency of each, and how much slower than plain it is, as a share."""
    return {
        "recalls": recalls,
        "facts": len(labelled.facts()),
        "embedded": await _compared(folder / "embedded.db", "onnx", recalls, note),
        "keyword": await _compared(folder / "keyword.db", "none", recalls, note),
    }


async def _compared(path: Path, embedder: str, recalls: int, note: Note) -> dict[str, Any]:
    config = Config(store_url=f"sqlite://{path}", embedder=embedder, rate_per_minute=0, recall_budget=0)
    running = await bootstrap.start(config.with_values(telemetry=False))
    servers, own = Tracers(Dropping()), TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(BatchSpanProcessor(Dropping()))
    try:
        await running.parts.ledger.open("default")
        services = _services(running, config, servers, own)
        requests = [
            RememberRequest(agent_id=AGENT, type=MemoryType.SEMANTIC, content=fact.text, user_id=fact.user_id)
            for fact in labelled.facts()
        ]
        await services["plain"].remember_many(local(), requests)
        queries = [query.query for query in labelled.queries("calibration")]
        before = gc.get_threshold()
        serving.settle()
        try:
            taken = await _taken(services, queries, recalls, note)
        finally:
            gc.unfreeze()
            gc.set_threshold(*before)
        for service in services.values():
            await service.close()
    finally:
        servers.shutdown()
        own.shutdown()
        await running.close()
    return {name: _told(ours, taken["plain"]) for name, ours in taken.items()}


class Taken:
    """What each recall took, in milliseconds: on the wall, and of the processor."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []


def _told(ours: Taken, plain: Taken) -> dict[str, Any]:
    pairs = list(zip(_means(ours.cpu), _means(plain.cpu), strict=True))
    return {
        **latency_summary(ours.wall),
        "slower": statistics.median(one / other for one, other in zip(ours.wall, plain.wall, strict=True))
        - 1,
        "cpu_ms": statistics.mean(ours.cpu),
        "cpu_more_us": 1000 * statistics.median(one - other for one, other in pairs),
        "cpu_slower": statistics.median(one / other for one, other in pairs) - 1,
        "cpu_slower_in_all": sum(ours.cpu) / sum(plain.cpu) - 1,
    }


def _means(taken: Sequence[float]) -> list[float]:
    """Of each whole block."""
    whole = range(0, max(len(taken) - _BLOCK + 1, 1), _BLOCK)
    return [statistics.mean(taken[start : start + _BLOCK]) for start in whole]


async def _taken(
    services: dict[str, MemoryService], queries: Sequence[str], recalls: int, note: Note
) -> dict[str, Taken]:
    """By service; the n-th recall of each is asked nearly the same, right after one another."""
    principal, order = local(), random.Random(7)
    taken = {name: Taken() for name in services}
    letters = dict(zip(services, "abcde", strict=True))
    for turn in range(-_WARM_UP, recalls):
        names = list(services)
        order.shuffle(names)
        for name in names:
            # No two questions are the same, so that none finds its vector in the embedder's cache.
            asked = f"{queries[turn % len(queries)]} {turn}{letters[name]}"
            request = RecallRequest(agent_id=AGENT, query=asked)
            began, worked = time.perf_counter(), time.process_time()
            await services[name].recall(principal, request)
            wall, cpu = time.perf_counter() - began, time.process_time() - worked
            if turn >= 0:
                taken[name].wall.append(wall * 1000)
                taken[name].cpu.append(cpu * 1000)
        if turn % 250 == 0:
            note(f"telemetry: {turn:,} of {recalls:,}")
            for service in services.values():
                await service.flush()
    return taken
