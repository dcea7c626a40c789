"""Numbers: one duration for each call, with the convention's buckets, and labels that tell nobody's business."""

from __future__ import annotations

import pytest

from quipu.bootstrap.telemetry import Side, Telemetry, Watched
from quipu.errors import NotFoundError
from quipu.telemetry.checking import Point, checked
from tests.faces.serving import served
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown

DURATION = "gen_ai.client.operation.duration"
OWN = ("quipu.memory.search.results", "quipu.memory.search.top_score", "quipu.memory.content.bytes")


@requirement("telemetry:metrics.duration")
async def test_every_call_is_measured_once_under_its_operation(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    before = {labels["gen_ai.operation.name"]: point.count for labels, point in shown.points(DURATION)}
    assert before == {"create_memory_store": 1}  # main
    for _ in range(3):
        await memory.remember("tea", user_id="mara")
    await memory.recall("tea", user_id="mara")
    with pytest.raises(NotFoundError):
        await memory.get("mem_nowhere")
    found = {
        (labels["gen_ai.operation.name"], labels.get("error.type")): point.count
        for labels, point in shown.points(DURATION)
    }
    assert found == {
        ("create_memory_store", None): 1,
        ("update_memory", None): 3,
        ("search_memory", None): 1,
        ("search_memory", "not_found"): 1,
    }
    for labels, point in shown.points(DURATION):
        assert labels["gen_ai.provider.name"] == "quipu"
        assert list(point.explicit_bounds)[:3] == [0.01, 0.02, 0.04]
        told = Point(name=DURATION, unit="s", boundaries=point.explicit_bounds, labels=labels)
        assert checked([], [told]) == []


@requirement("telemetry:metrics.own")
def test_a_word_that_is_no_method_of_mcp_is_no_label(shown: Shown) -> None:
    """Anybody may send any word, with an id or without one."""
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with served(watched=Watched(telemetry=told, side=Side.SERVER)) as running, running.client() as http:
        sent = [
            {"id": 1, "method": "initialize", "params": hello},
            {"id": 2, "method": "tools/list"},
            {"id": 3, "method": "mara-1"},
            {"id": 4, "method": "tools/mara-2", "params": {}},
            {"method": "mara-3"},
            {"method": "notifications/mara-4"},
        ]
        for message in sent:
            answer = http.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=accepted)
            assert answer.status_code < 300
            if session := answer.headers.get("mcp-session-id"):
                accepted["Mcp-Session-Id"] = session
    methods = {labels["mcp.method.name"] for labels, _ in shown.points("mcp.server.operation.duration")}
    assert methods == {"initialize", "tools/list", "_OTHER"}


@requirement("telemetry:metrics.own")
async def test_own_numbers_have_no_label_that_tells_who_or_what(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("preferences", scope="user")
    kept = await memory.remember("green tea", user_id="mara", store="preferences", session_id="s1")
    await memory.recall("green tea", user_id="mara", store="preferences")
    seen = {name: shown.points(name) for name in OWN}
    assert all(len(points) == 1 for points in seen.values())
    assert seen["quipu.memory.search.results"][0][1].sum == 1
    assert seen["quipu.memory.content.bytes"][0][1].sum == len("green tea")
    labels = [labels for points in seen.values() for labels, _ in points]
    labels += [labels for labels, _ in shown.points(DURATION)]
    said = {str(value) for one in labels for value in one.values()}
    assert not said & {"mara", "preferences", "ana", "s1", kept.id, "green tea"}
    for name, points in seen.items():
        for one, _ in points:
            assert checked([], [Point(name=name, unit="", boundaries=None, labels=one)]) == []


@requirement("telemetry:metrics.own")
async def test_calls_that_are_counted_together_keep_their_own_labels(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("mine", scope="user", tier="long_term")
    await memory.create_store("brief", scope="user", tier="short_term")
    await memory.create_store("ours", scope="agent", tier="long_term")
    for store in ("mine", "mine", "brief", "ours", "mine", "ours", "ours"):
        await memory.recall("tea", store=store)
    found = {
        (labels["quipu.memory.store.scope"], labels["quipu.memory.tier"]): point.count
        for labels, point in shown.points("quipu.memory.search.results")
    }
    assert found == {("user", "long_term"): 3, ("user", "short_term"): 1, ("agent", "long_term"): 3}


@requirement("telemetry:metrics.off")
async def test_metrics_can_be_switched_off_alone(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_metrics=False)
    await memory.remember("tea")
    assert shown.points(DURATION) == []
    assert [span.name for span in shown.spans] == ["update_memory main"]
