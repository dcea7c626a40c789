"""A real server under each convention: every route of every face is asked, and what it exports goes to the validator.

The table of routes is the one that isolation is tested with; a route without a row fails there. Here a tenant asks for what
is its own, so that most of it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import quipu
from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config
from quipu.model.observation import Action
from quipu.telemetry.checking import Span, Terms, checked, is_memory
from quipu.telemetry.names import Convention
from tests.faces.mcp.hosts import stdio
from tests.faces.serving import Program
from tests.journeys.test_isolation import AGENT, FACT, MARK, MW, PAGES, Q, Try, filled, mcp, request_of, tries
from tests.requirement import requirement
from tests.telemetry.receiver import Receiver, receiving

pytestmark = pytest.mark.slow

_TENANT = "acme"
#: Held open by the server until its client goes.
_OPEN = {"/mcp", "/mcp/{store}", "/v1/runs/{run}/events"}
#: A face → how the routes begin whose requests have memory spans beneath.
_FACES = {
    "memorywire": "/memorywire/v0",
    "rest": "/quipu/v1",
    "mcp": "/mcp",
    "openwop": "/v1/x-host-quipu-memory",
    "pages": "/memories",
}


def _more() -> list[Try]:
    """What the table, which asks for foreign things, has no reason to ask."""
    method = {
        "memory/remember": FACT,
        "memory/recall": {**AGENT, "query": MARK},
        "memory/forget": {**AGENT, "ids": ["{record}"], "approval_required": True},
        "memory/merge": {**AGENT, "canonical": "{record}", "duplicates": ["mem_nowhere"]},
        "memory/expire": {**AGENT, "policy": {"older_than_days": 9000}},
        "memory/review/list": {"status": "pending"},
    }
    step = {"states": ["on", "off"], "initial": "on"}
    step["transitions"] = [{"trigger": "go", "source": "on", "dest": "off"}]
    return [
        Try(
            "POST",
            f"{MW}/remember",
            {**FACT, "id": "{record}", "update_strategy": "append", "importance": 0.4},
        ),
        Try("POST", f"{MW}/remember", {**FACT, "expires_at": 4_000_000_000_000, "session_id": "s1"}),
        Try("POST", f"{MW}/remember", {**AGENT, "type": "procedural", "content": step}),
        Try("POST", f"{MW}/remember", {**AGENT, "content": "no type"}),
        Try("POST", f"{MW}/remember/batch", {"items": [FACT, {**FACT, "content": "y"}]}),
        Try("POST", f"{MW}/merge", {**AGENT, "canonical": "{record}", "duplicates": ["{twin}"]}),
        *(
            Try("POST", f"{MW}/expire", {**AGENT, "policy": {"confidence_below": 0.2}, "action": action})
            for action in ("demote", "archive", "forget")
        ),
        Try("POST", f"{MW}/forget", {**AGENT, "filter": {"type": "episodic"}}),
        Try("POST", f"{MW}/forget", {**AGENT, "ids": ["{gone}"], "reason": "x"}),
        Try("POST", f"{MW}/records/{{gone}}/restore?agent_id=ana", {"reason": "x"}),
        *(mcp(name, "/mcp", **given) for name, given in method.items()),
        mcp("resources/read", uri="memory://ana/recall?query=x"),
        mcp("resources/read", uri="memory://records/{record}"),
        mcp(
            "tools/call",
            "/mcp?profile=graph",
            name="create_entities",
            arguments={"entities": [{"name": "Mara", "entityType": "person", "observations": ["bees"]}]},
        ),
        mcp(
            "tools/call",
            "/mcp?profile=anthropic",
            name="memory",
            arguments={"command": "create", "path": "/memories/a.txt", "file_text": "one"},
        ),
    ]


def _asked(client: httpx.Client, attempts: list[Try], names: dict[str, str]) -> None:
    for attempt in attempts:
        if attempt.method == "GET" and attempt.path.partition("?")[0] in _OPEN:
            continue
        answer = client.send(request_of(client, attempt, names))
        assert answer.status_code < 500 or answer.status_code in (501, 503), (attempt, answer.text)


def _day(program: Program) -> None:
    """Everything over HTTP: once as a tenant's administrator, and the pages as whoever signed in."""
    operator = {"Authorization": f"Bearer {program.token}"}
    with httpx.Client(base_url=program.url, headers=operator, timeout=60) as admin:
        for tenant in (_TENANT, "other"):
            assert admin.post(f"{Q}/tenants", json={"tenant": tenant}).status_code == 201
        body = {"name": "boss", "roles": ["admin"], "tenant": _TENANT}
        boss = admin.post(f"{Q}/tokens", json=body).json()
        spare = admin.post(f"{Q}/tokens", json={**body, "name": "spare"}).json()
    own = {"Authorization": f"Bearer {boss['text']}"}
    with httpx.Client(base_url=program.url, headers=own, timeout=60) as client:
        names = {**filled(client), "token": spare["token"]["id"], "tenant": "other"}
        for kind in ("twin", "gone"):
            names[kind] = client.post(f"{MW}/remember", json=FACT).json()["id"]
        client.post(f"{MW}/remember", json={**FACT, "confidence": 0.1})
        client.post(f"{MW}/remember", json={**FACT, "type": "episodic"})
        _asked(client, _more(), names)
        _paged(program, boss["text"], names)
        _asked(client, tries(), names)


def _paged(program: Program, token: str, names: dict[str, str]) -> None:
    with httpx.Client(base_url=program.url, follow_redirects=True, timeout=60) as browser:
        page = browser.get("/signin").text
        form = {"csrf": page.split('name="csrf" value="')[1].partition('"')[0], "token": token}
        assert browser.post("/signin", data=form, headers={"Origin": program.url}).status_code == 200
        _asked(browser, [page for page in PAGES if page.method == "GET"], names)


async def _far(program: Program, convention: str, told: Telemetry) -> None:
    """The Python client, which makes spans of its own."""
    config = Config(telemetry_convention=convention)
    async with quipu.connect(
        program.url, token=program.token, agent_id="ana", config=config, telemetry=told
    ) as memory:
        await _worked(memory)


async def _near(store: Path, convention: str, told: Telemetry) -> None:
    """The library, with memory in this process."""
    config = Config(store_url=f"sqlite://{store}", embedder="none", telemetry_convention=convention)
    async with Memory("ana", config=config, telemetry=told) as memory:
        await _worked(memory)


async def _worked(memory: Memory) -> None:
    await memory.create_store("desk", scope="agent")
    kept = await memory.remember("tea", store="desk", user_id="mara")
    twin = await memory.remember("green tea", store="desk", user_id="mara")
    await memory.remember("black tea", id=kept.id)
    await memory.recall("tea", store="desk")
    await memory.get(kept.id)
    await memory.list()
    await memory.merge(kept.id, [twin.id])
    await memory.forget(ids=[kept.id], reason="x")
    await memory.restore(kept.id)
    await memory.expire({"older_than_days": 9000})
    await memory.delete_store("desk", confirm="desk")
    with pytest.raises(quipu.NotFoundError):
        await memory.get("mem_nowhere")


async def _piped(store: Path, **environment: str) -> None:
    """MCP over a pipe, a process of its own."""
    async with Client(stdio_client(stdio(store, **environment))) as client:
        for name, given in (
            ("remember", {"type": "semantic", "content": "tea"}),
            ("recall", {"query": "tea"}),
            ("forget", {"filter": {"type": "semantic"}}),
            ("expire", {"policy": {"older_than_days": 9000}}),
        ):
            assert not (await client.call_tool(name, given)).is_error


@pytest.fixture
def collector(convention: str) -> Iterator[Receiver]:
    with receiving(convention) as receiver:
        yield receiver


#: Requests of OAP, which mostly speaks of grants and not of memories: each is a span, whatever was answered.
_OAP = {
    *(
        f"GET /.well-known/{name}"
        for name in ("did.json", "oap-memory.json", "oap-tool.json", "oap-revocation")
    ),
    *("POST /oap/memory/query", "GET /oap/memory/item/{id}/log", "GET /oap/memory/vec/{id}.bin"),
    *("POST /oap/memory/grant", "GET /oap/memory/grant", "POST /oap/memory/grant/preview"),
    *("DELETE /oap/memory/grant/{id}", "POST /oap/memory/grant/{id}/token", "POST /oap/memory/grant/request"),
    *("POST /oap/memory/export", "POST /oap/memory/import", "POST /oap/memory/import/{id}/commit"),
    *("POST /oap/invoke", "GET /oap/audit", "POST /oap/data/delete", "POST /oap/incident"),
}


def _roots(spans: list[Span]) -> dict[str, set[str]]:
    """The memory operations beneath each span that nobody in this process is above of."""
    by_id = {span.span_id: span for span in spans}
    found: dict[str, set[str]] = {}
    for span in filter(is_memory, spans):
        top = span
        while top.parent_id in by_id:
            top = by_id[top.parent_id]
        found.setdefault(top.name, set()).add(str(span.attributes["quipu.memory.operation"]))
    return found


@requirement("telemetry:validator.everything")
@pytest.mark.parametrize("convention", list(Convention))
async def test_whatever_a_server_exports_follows_its_convention(
    convention: str, collector: Receiver, tmp_path: Path
) -> None:
    given = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_MAX_QUEUE_SIZE": "100000",
        "QUIPU_TELEMETRY_CONVENTION": str(convention),
    }
    limits = {"QUIPU_RATE": "0", "QUIPU_RECALL_BUDGET": "0"}
    more = {"QUIPU_MCP_EXTENSION": "true", "QUIPU_OPENWOP_SEAMS": "true"}
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    told = Telemetry(tracer_provider=tracers)
    with Program(tmp_path / "served.db", **given, **limits, **more) as program:
        _day(program)
        await _far(program, str(convention), told)
        assert program.stop() == 0  # sends what waits
    await _piped(tmp_path / "piped.db", **given)
    await _near(tmp_path / "near.db", str(convention), told)
    tracers.shutdown()
    spans, points = collector.checked
    findings = checked(spans, points, Terms(convention=Convention(convention)))
    assert sorted({f"{one.span}: {one.id}: {one.message}" for one in findings}) == []
    _check_reach(spans)


def _check_reach(spans: list[Span]) -> None:
    """That it was worth it: every operation, every face, both sides, both ends."""
    memory = [span for span in spans if is_memory(span)]
    actions = {span.attributes["quipu.memory.operation"] for span in memory}
    assert actions == {action.value for action in Action}
    outcomes = {span.attributes.get("quipu.memory.outcome") for span in memory}
    assert outcomes >= {"created", "updated", "merged", "deleted", "archived", "demoted", "pending_approval"}
    assert {span.attributes["quipu.memory.side"] for span in memory} == {"caller", "server"}
    assert {span.status for span in memory} == {"UNSET", "ERROR"}
    beneath = _roots(spans)
    for face, prefix in _FACES.items():
        assert any(name.partition(" ")[2].startswith(prefix) for name in beneath), (face, sorted(beneath))
    assert "tools/call remember" in beneath  # over the pipe, with nothing above
    five = {"remember", "recall", "forget", "merge", "expire"}
    over_mcp: Any = set[str]().union(*(done for name, done in beneath.items() if name == "POST /mcp"))
    assert over_mcp >= five
    asked = {span.name: span for span in spans if span.name in _OAP}
    assert asked.keys() == _OAP
    for name, span in asked.items():
        assert (span.kind, span.attributes["http.route"]) == ("SERVER", name.partition(" ")[2])
