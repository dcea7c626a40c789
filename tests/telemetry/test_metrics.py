"""What is counted: once for each call, on its side, by labels that no caller chose."""

import json
from typing import Any

import pytest

from quipu import NotFoundError
from quipu.bootstrap import background_jobs
from quipu.telemetry.engine import INSTRUMENTS
from tests.fixtures.spans import Shown
from tests.requirement import requirement
from tests.telemetry.conftest import Opened, Served

DURATION = "gen_ai.client.operation.duration"


def counted(points: dict[str, Any], name: str) -> list[tuple[dict[str, Any], int]]:
    return [(labels, point.count) for labels, point in points.get(name, [])]


@requirement("opentelemetry:metrics.duration")
async def test_each_call_is_counted_once_with_its_error(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember("Ana likes tea.")
    await memory.remember("Ana likes tea.")
    await memory.recall("tea")
    with pytest.raises(NotFoundError):
        await memory.get("mem_unknown")
    await memory.list_stores()  # no operation of memory
    points = shown.points()
    labels = {"gen_ai.provider.name": "quipu"}
    assert counted(points, DURATION) == [
        ({"gen_ai.operation.name": "update_memory", **labels}, 2),
        ({"gen_ai.operation.name": "search_memory", **labels}, 1),
        ({"gen_ai.operation.name": "search_memory", "error.type": "not_found", **labels}, 1),
    ]
    assert shown.findings() == []
    _, first = points[DURATION][0]
    assert list(first.explicit_bounds) == pytest.approx([0.01 * 2**n for n in range(14)])
    assert "quipu.server.operation.duration" not in points


@requirement("opentelemetry:metrics.own")
async def test_numbers_of_memory_itself(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember("Ana likes tea.")
    await memory.recall("tea", store="main", min_relevance="off")
    await memory.remember("Ana moves.", approval_required=True)
    points = shown.points()
    (size,) = points["quipu.memory.content.bytes"]
    assert size[0] == {
        "gen_ai.operation.name": "update_memory",
        "quipu.memory.store.scope": "agent",
        "quipu.memory.tier": "long_term",
        "quipu.memory.outcome": "created",
    }
    assert size[1].sum == len("Ana likes tea.")
    assert points["quipu.memory.search.results"][0][1].sum == 1
    assert points["quipu.memory.search.top_score"][0][1].count == 1


@requirement("opentelemetry:metrics.labels")
async def test_no_label_is_what_a_caller_chose(served: Served, shown: Shown) -> None:
    import httpx

    mark = "zqmark"
    memory = await served.client(await served.token(), agent=mark)
    await memory.create_store(mark, namespace=mark)
    done = await memory.remember(mark, store=mark, user_id=mark, session_id=mark, tags=[mark])
    await memory.recall(mark, store=mark, user_id=mark)
    await memory.forget(ids=[done.id])
    token = await served.token(name=mark)
    async with httpx.AsyncClient(transport=served.network, base_url="http://127.0.0.1:8321") as http:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        for method, name in (("tools/call", "recall"), ("tools/call", mark), (f"{mark}/x", mark)):
            await http.post(
                "/mcp",
                json={
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": method,
                    "params": {"name": name, "arguments": {"query": mark, "agent_id": mark}, "_meta": meta},
                },
                headers={
                    "Authorization": f"Bearer {token}",
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": "2026-07-28",
                    "Mcp-Method": method,
                    "Mcp-Name": name,
                },
            )
        await http.request(mark.upper(), f"/{mark}")
    points = shown.points()
    assert mark not in json.dumps([labels for rows in points.values() for labels, _ in rows]).lower()
    told = {
        (labels.get("mcp.method.name"), labels.get("gen_ai.tool.name"))
        for labels, _ in points["mcp.server.operation.duration"]
    }
    assert ("tools/call", "recall") in told
    assert {"http.server.request.duration", DURATION, "quipu.server.operation.duration"} <= points.keys()
    assert {
        labels["quipu.memory.outcome"]
        for labels, _ in points["quipu.server.operation.duration"]
        if "quipu.memory.outcome" in labels
    } >= {"created", "deleted"}
    # The spans of MCP between are the SDK's, which tells the providers of the process.
    assert [one for one in shown.findings() if one.id != "disconnected"] == []


@requirement("opentelemetry:metrics.gauges")
async def test_a_server_counts_memories_and_what_waits(served: Served, shown: Shown) -> None:
    one, other = await served.client(await served.token()), await served.client(await served.token("acme"))
    await one.remember("Ana likes tea.")
    await other.remember("Bob likes tea.")
    await other.remember("Bob moves.", approval_required=True)
    assert "quipu.memory.store.records" not in shown.points()
    (job,) = (job for job in background_jobs(served.container) if job.name == "telemetry")
    await job.work()
    points = shown.points()
    assert [(labels, point.value) for labels, point in points["quipu.memory.store.records"]] == [({}, 2)]
    assert [(labels, point.value) for labels, point in points["quipu.governance.pending"]] == [({}, 1)]


@requirement("opentelemetry:metrics.own")
def test_every_instrument_has_a_unit_and_says_what_it_is() -> None:
    assert len({name for name, *_ in INSTRUMENTS}) == len(INSTRUMENTS) == 9
    assert all(unit and about.endswith(".") for _, unit, _, about in INSTRUMENTS)
