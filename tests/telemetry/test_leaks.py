"""The corpus of secrets through a real server that exports: not one of them in any byte that reaches the collector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.corpora.secrets import Case, bearing, kinds, needles, registered
from tests.faces.serving import Program
from tests.requirement import requirement
from tests.telemetry.receiver import Receiver, receiving, values

pytestmark = pytest.mark.slow

MW, Q = "/memorywire/v0", "/quipu/v1"
_INPUTS = 200
_OVER_MCP = 20
#: Shorter pieces are found in any bytes by chance.
_TELLING = 8
#: In no secret, and in most contents.
_HARMLESS = b"It came as"


def sampled() -> list[Case]:
    """Every disguise and every place comes up, each with another secret."""
    cases = bearing()
    step = max(len(cases) // _INPUTS, 1)
    return cases[:: step if step % 2 else step + 1]


def _words(case: Case) -> str:
    return case.content if isinstance(case.content, str) else json.dumps(case.content)


def _body(case: Case) -> dict[str, Any]:
    body: dict[str, Any] = {"agent_id": "corpus", "type": case.type.value, "content": case.content}
    given = {"metadata": case.metadata, "source": case.source, "tags": case.tags and list(case.tags)}
    return {**body, **{name: value for name, value in given.items() if value is not None}}


def _kept(client: httpx.Client, case: Case) -> None:
    """What is kept, held, and asked."""
    client.post(f"{MW}/remember", json=_body(case)).raise_for_status()
    client.post(f"{MW}/remember", json={**_body(case), "approval_required": True}).raise_for_status()
    asked: dict[str, Any] = {"agent_id": "corpus", "query": _words(case)[:2000], "min_relevance": 0}
    client.post(f"{MW}/recall", json=asked).raise_for_status()


def _named(client: httpx.Client, name: str) -> None:
    """A secret where a name belongs."""
    one: dict[str, Any] = {"agent_id": "corpus", "type": "semantic", "content": "x"}
    for place in ("user_id", "session_id", "agent_id", "store", "type"):
        client.post(f"{MW}/remember", json={**one, place: name})
        client.post(f"{MW}/recall", json={"agent_id": "corpus", "query": "x", place: name})
    client.post(f"{MW}/forget", json={"agent_id": "corpus", "ids": [name], "reason": name})
    client.post(f"{Q}/stores", json={"name": name, "scope": name, "tier": name})
    client.get(f"{MW}/records/{quote(name, safe='')}", params={"agent_id": name})
    client.get(f"/{quote(name[:500], safe='')}")


def _over_http(program: Program, cases: list[Case]) -> None:
    headers = {"Authorization": f"Bearer {program.token}"}
    with httpx.Client(base_url=program.url, headers=headers, timeout=60) as client:
        for label, value in registered():
            client.post(f"{Q}/secrets", json={"label": label, "value": value}).raise_for_status()
        for case in cases:
            _kept(client, case)
        # Some are secrets only for the words around them.
        for name in [kind.told for kind in kinds()][::2] + [value for _, value in registered()]:
            _named(client, name)


async def _over_mcp(program: Program, cases: list[Case]) -> None:
    _, value = registered()[0]
    http = create_mcp_http_client(headers={"Authorization": f"Bearer {program.token}"})
    async with http, Client(streamable_http_client(program.url + "/mcp", http_client=http)) as client:
        for case in cases:
            kept = await client.call_tool("remember", {"type": "semantic", "content": _words(case)})
            assert not kept.is_error, kept
            await client.call_tool("recall", {"query": _words(case)[:2000]})
            await client.call_tool("recall", {"query": "x", "user_id": value})


@pytest.fixture(params=["NO_CONTENT", "SPAN_AND_EVENT"])
def capture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def collector(capture: str) -> Iterator[Receiver]:
    with receiving("both", allows_content=capture != "NO_CONTENT") as receiver:
        yield receiver


@requirement("telemetry:content.leaks")
async def test_no_secret_of_the_corpus_reaches_the_collector(
    capture: str, collector: Receiver, tmp_path: Path
) -> None:
    cases = sampled()
    assert len(cases) >= _INPUTS - 20
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": capture,
        "OTEL_BSP_MAX_QUEUE_SIZE": "100000",
        "QUIPU_TELEMETRY_CONVENTION": "both",
        "QUIPU_TELEMETRY_IDENTITY": "always",
        "QUIPU_TELEMETRY_EVENTS": "true",
        "QUIPU_TELEMETRY_PHASES": "true",
        "QUIPU_TELEMETRY_CONTENT_LIMIT": "100000",
        "QUIPU_RATE": "0",
        "QUIPU_RECALL_BUDGET": "0",
    }
    with Program(tmp_path / "memory.db", **settings) as program:
        _over_http(program, cases)
        await _over_mcp(program, cases[:: len(cases) // _OVER_MCP])
        token = program.token
        assert program.stop() == 0
    sent = b"\n".join(body for _, body in collector.bodies)
    shown = [values(span) for span in collector.spans]
    assert sum("gen_ai.memory.store.id" in span for span in shown) > 3 * len(cases)
    assert any(path == "/v1/metrics" for path, _ in collector.bodies)
    assert (_HARMLESS in sent) == (capture != "NO_CONTENT")
    secrets = {case.secret: case.name for case in bearing()} | {token: "the token itself"}
    leaked = {
        name
        for secret, name in secrets.items()
        for needle in needles(secret)
        if len(needle) >= _TELLING and needle.encode() in sent
    }
    assert leaked == set()
