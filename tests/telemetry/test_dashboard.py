"""The dashboard asks a Prometheus for what really is emitted: names, and labels, as they are translated there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from quipu import Memory
from quipu.bootstrap import telemetry
from quipu.bootstrap.telemetry import Side, Telemetry, Watched
from quipu.config import Config
from quipu.errors import NotFoundError
from tests.faces.mcp.hosts import over_http
from tests.faces.serving import served
from tests.requirement import requirement

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "telemetry-dashboard.json"
FACT = {"agent_id": "ana", "type": "semantic", "content": "Mara drinks tea"}
_WORDS = {"s": "seconds", "By": "bytes"}
_FUNCTIONS = {"sum", "by", "rate", "histogram_quantile"}


def _panels() -> list[dict[str, Any]]:
    return json.loads(PAGE.read_text("utf-8"))["panels"]


def _asked(expression: str) -> tuple[set[str], set[str]]:
    """Series and labels of an expression."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)
    grouped = re.findall(r"by \(([^)]*)\)", bare)
    matched = re.findall(r"\{([^}]*)\}", bare)
    labels = {name for part in (*grouped, *matched) for name in re.findall(r"[a-z]\w+", part)}
    rest = re.sub(r"by \([^)]*\)|\{[^}]*\}", "", bare)
    return set(re.findall(r"[a-z]\w+", rest)) - _FUNCTIONS, labels


def _translated(reader: InMemoryMetricReader) -> dict[str, set[str]]:
    """Series and their labels. A unit in words is added where the name does not end in it; `1` is none on a histogram."""
    found: dict[str, set[str]] = {}
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                name, word = metric.name.replace(".", "_"), _WORDS.get(metric.unit or "")
                if word is not None and not name.endswith(f"_{word}"):
                    name += f"_{word}"
                for point in metric.data.data_points:
                    labels = {key.replace(".", "_") for key in point.attributes or {}}
                    is_histogram = isinstance(point, HistogramDataPoint)
                    for series in ("_bucket", "_sum", "_count") if is_histogram else ("",):
                        found.setdefault(name + series, set()).update(labels)
                    if is_histogram:
                        found[f"{name}_bucket"].add("le")
    return found


async def _emitted(tmp_path: Path) -> dict[str, set[str]]:
    """Both sides at work: a server that is asked over two faces, and a library."""
    reader = InMemoryMetricReader()
    told = Telemetry(meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    with served(tmp_path / "m.db", watched=Watched(telemetry=told, side=Side.SERVER)) as at:
        async with httpx.AsyncClient(base_url=at.url, headers=at.headers()) as http:
            await http.post("/memorywire/v0/remember", json=FACT)
            await http.post("/memorywire/v0/recall", json={"agent_id": "ana", "query": "tea"})
            await http.get("/memorywire/v0/records/mem_nowhere", params={"agent_id": "ana"})
        async with over_http(at) as client:
            await client.call_tool("recall", {"query": "tea"})
        at.do(telemetry.tell_standing(at.web.running.parts))
    config = Config(store_url="sqlite://:memory:", embedder="none")
    async with Memory("ana", config=config, telemetry=told) as memory:
        await memory.recall("tea")
        with pytest.raises(NotFoundError):
            await memory.get("mem_nowhere")
    return _translated(reader)


@requirement("telemetry:dashboard")
async def test_every_series_of_the_dashboard_is_emitted_with_its_labels(tmp_path: Path) -> None:
    emitted = await _emitted(tmp_path)
    expressions = [target["expr"] for panel in _panels() for target in panel["targets"]]
    assert expressions
    for expression in expressions:
        series, labels = _asked(expression)
        assert series
        assert series <= emitted.keys(), (expression, sorted(emitted))
        for name in series:
            assert labels <= emitted[name] | {"le"}, (expression, sorted(emitted[name]))


@requirement("telemetry:dashboard")
async def test_every_metric_has_a_place_on_the_dashboard(tmp_path: Path) -> None:
    def base(names: set[str]) -> set[str]:
        return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}

    asked = {name for panel in _panels() for target in panel["targets"] for name in _asked(target["expr"])[0]}
    assert base(asked) == base({*await _emitted(tmp_path)})
    assert len({panel["id"] for panel in _panels()}) == len(_panels())
