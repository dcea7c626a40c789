"""Calls of models that are served elsewhere, and copies elsewhere: what is shown of them, and what is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, Memory, Telemetry
from quipu.bootstrap import background_jobs
from quipu.config import Settings
from quipu.consolidation.chat_model import ChatModel
from quipu.telemetry.models import ShownExtractor
from quipu.telemetry.settings import Showing
from quipu.telemetry.spans import Spans
from tests.embed.server import serving
from tests.fixtures.spans import WATCH, Shown, values
from tests.requirement import requirement
from tests.telemetry.conftest import Opened, Served


def _vectors(body: bytes) -> Any:
    texts = json.loads(body)["input"]
    items = [
        {"index": number, "embedding": [1.0, float(len(text)), 2.0]} for number, text in enumerate(texts)
    ]
    return 200, {"Content-Type": "application/json"}, json.dumps({"data": items}).encode()


@requirement("opentelemetry:models.calls")
async def test_a_call_of_an_embedding_model_is_a_span_beneath_the_operation(
    shown: Shown, tmp_path: Path
) -> None:
    with serving() as model:
        model.replies = [_vectors]
        config = Settings(embedder="openai", embedder_url=model.url, embedder_model="tiny")
        telemetry = Telemetry(tracer_provider=shown.tracers)
        async with Memory("ana", tmp_path / "m.db", config=config, telemetry=telemetry) as memory:
            await memory.open()
            shown.taken()
            await memory.remember("Ana likes plum jam.")
    span = shown.named("embeddings tiny")
    (around,) = (one for one in shown.spans if one.name == "update_memory main")
    assert span.kind.name == "CLIENT"
    assert values(span) == {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "tiny"}
    assert span.parent is not None
    assert span.parent.span_id == around.get_span_context().span_id


@requirement("opentelemetry:models.calls")
async def test_a_call_of_a_language_model_is_a_span_also_where_it_fails(shown: Shown) -> None:
    with serving() as model:
        model.replies = [lambda _: (500, {}, b"plum jam")]
        spans = Spans(Showing(), Telemetry(tracer_provider=shown.tracers))
        chat = ShownExtractor(ChatModel(base_url=model.url, model="small", retries=0), spans, "small")
        with pytest.raises(BackendUnavailableError):
            await chat.facts(["Ana likes plum jam."])
        await chat.close()
    span = shown.one()
    assert (span.name, values(span)["error.type"]) == ("chat small", "backend_unavailable")
    assert "plum jam" not in f"{values(span)} {span.status.description}"


@requirement("opentelemetry:spans.mirrors")
async def test_a_mirror_of_ours_reports_nothing_itself(shown: Shown, tmp_path: Path) -> None:
    telemetry = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    stores = [str(tmp_path / "m.db"), f"sqlite:///{tmp_path / 'copy.db'}"]
    seen = WATCH.seen  # a mirror would report to the providers of the process
    async with Memory("ana", stores, embedder="none", telemetry=telemetry) as memory:
        done = await memory.remember("Ana likes tea.")
        assert len(done.stores) + len(done.stores_pending) == 2
    names = [span.name for span in shown.spans]
    assert sorted(names) == ["create_memory_store main", "update_memory main"]
    assert WATCH.seen == seen


@requirement("opentelemetry:spans.background")
async def test_what_a_server_does_by_itself_has_a_trace_of_its_own(served: Served, shown: Shown) -> None:
    memory = await served.client(await served.token())
    await memory.remember("Ana likes tea.")
    shown.taken()
    jobs = {job.name: job for job in background_jobs(served.container)}
    await jobs["sweep"].work()
    await jobs["consolidation"].work()
    spans = shown.taken()
    assert [(span.name, span.kind.name, span.parent) for span in spans] == [
        ("quipu.expire", "INTERNAL", None),
        ("quipu.consolidate", "INTERNAL", None),
    ]


@requirement("opentelemetry:names.redacted")
async def test_names_are_checked_with_the_secrets_of_the_moment(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("plum jam")
    await memory.recall("tea", store="plum jam")
    assert shown.taken()[-1].name == "search_memory plum jam"
    await memory.add_secret("jam", "plum jam")
    await memory.recall("tea", store="plum jam")
    after = shown.one()
    assert "plum jam" not in f"{after.name} {values(after)}"
    assert after.name.startswith("search_memory ")
