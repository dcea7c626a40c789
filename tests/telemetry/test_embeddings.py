"""Calls of an embedding model, seen beneath the operation that needed them: always where it is served elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config
from tests.embed.server import Reply, Server, serving
from tests.requirement import requirement
from tests.telemetry.shown import Shown, attributes


def _vectors(path: str, body: bytes) -> Reply:
    texts = json.loads(body)["input"]
    data = [{"index": n, "embedding": [1.0, len(text), 2.0, 3.0]} for n, text in enumerate(texts)]
    return 200, {"Content-Type": "application/json"}, json.dumps({"data": data}).encode()


def _refused(path: str, body: bytes) -> Reply:
    return 403, {}, b"refused " + body


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        state.replies = [_vectors]
        yield state


def _memory(shown: Shown, **settings: Any) -> Memory:
    config = Config(store_url="sqlite://:memory:", **settings)
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    return Memory("ana", config=config, telemetry=told)


@requirement("telemetry:embeddings")
async def test_calls_of_a_model_that_is_served_elsewhere_are_spans_of_their_own(
    shown: Shown, server: Server
) -> None:
    async with _memory(shown, embedder="openai", embedder_url=server.url, embedder_model="tiny") as memory:
        shown.clear()
        await memory.remember("Mara likes tea")
        await memory.recall("which drink?")
        await memory.recall("which drink?")  # its vector is known
        called = [span for span in shown.spans if span.name == "embeddings tiny"]
        assert [span.kind.name for span in called] == ["CLIENT", "CLIENT"]
        update, search, again = (span for span in shown.spans if span not in called)
        assert [span.parent for span in called] == [update.context, search.context]
        assert again.name == "search_memory main"
        assert attributes(called[0]) == {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.request.model": "tiny",
        }
        assert "drink" not in shown.text
        assert "tea" not in shown.text
        assert shown.findings() == []
        shown.clear()
        server.replies = [_refused]
        await memory.recall("something else")  # by keywords alone
        failed = shown.span("embeddings tiny")
        assert attributes(failed)["error.type"] == "backend_unavailable"
        assert failed.status.status_code.name == "ERROR"
        assert "something else" not in shown.text


@requirement("telemetry:embeddings")
@pytest.mark.parametrize("phases", [False, True])
async def test_a_model_in_this_process_is_seen_where_phases_are(shown: Shown, phases: bool) -> None:
    async with _memory(shown, embedder="fast", telemetry_phases=phases) as memory:
        shown.clear()
        await memory.recall("which drink?")
    names = {span.name.partition(" ")[0]: span for span in shown.spans}
    assert ("embeddings" in names) == phases
    if phases:
        assert names["embeddings"].parent == names["quipu.phase.embed"].context
        assert names["embeddings"].kind.name == "CLIENT"
