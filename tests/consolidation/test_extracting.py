"""Facts from a language model: a small real endpoint speaks the protocol; what it says is only proposed."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import start
from quipu.config import Config
from quipu.embed.extractor import OpenAIExtractor
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.consolidation import ConsolidateRequest
from quipu.model.operations import CreateStoreRequest, ListRequest, RememberRequest
from quipu.model.record import MemoryType, Tier
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.consolidation.conftest import OWNER, SYSTEM
from tests.requirement import requirement

Answers = Callable[[dict[str, Any]], tuple[int, bytes]]
KEY = "sk-test-0123456789"


def chat(content: str) -> tuple[int, bytes]:
    """An answer as endpoints give them."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}
    return 200, json.dumps(body).encode()


def facts(*said: str) -> tuple[int, bytes]:
    return chat(json.dumps({"facts": list(said)}))


class Endpoint(ThreadingHTTPServer):
    """Listens on this machine, and keeps what it was asked."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = {"path": self.path, "key": self.headers.get("Authorization"), **given}
        self.server.asked.append(asked)
        status, body = self.server.answers(asked)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def endpoint(answers: Answers) -> Iterator[Endpoint]:
    made = Endpoint(answers)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join(10)


async def no_sleep(_: float) -> None:
    """Nobody waits in a test."""


@asynccontextmanager
async def memory(at: str, tmp_path: Path) -> AsyncIterator[MemoryService]:
    config = Config(
        store_url=f"sqlite://{tmp_path / 'memory.db'}",
        extractor_url=at,
        extractor_model="tiny",
        extractor_key=KEY,
    )
    running = await start(config, embedder=WordEmbedder(), clock=FixedClock())
    await running.parts.ledger.open(OWNER.tenant)
    await running.service.stores.create(OWNER, CreateStoreRequest(name="window", tier=Tier.SHORT_TERM))
    try:
        yield running.service
    finally:
        await running.close()


async def push(service: MemoryService, content: str, **given: Any) -> str:
    known: dict[str, Any] = {
        "agent_id": "ana",
        "type": MemoryType.EPISODIC,
        "store": "window",
        "importance": 1.0,
    }
    return (await service.remember(OWNER, RememberRequest(content=content, **{**known, **given}))).id


async def live(service: MemoryService) -> list[str]:
    page = await service.reading.list(OWNER, ListRequest(agent_id="ana", limit=100))
    return sorted(record.content for record in page.records)


@requirement("memorywire:consolidation.extraction")
async def test_facts_are_proposed_with_a_link_to_the_verbatim_memory(tmp_path: Path) -> None:
    note = "Mara said that she moved to Ulm in May and has two cats."
    with endpoint(lambda _: facts("Mara moved to Ulm in May.", "Mara has two cats.")) as model:
        async with memory(model.url, tmp_path) as service:
            await push(service, note, user_id="mara")
            done = await service.consolidating.consolidate(SYSTEM, ConsolidateRequest())
            assert (done.counts, done.proposed, done.unread) == ({"promoted": 1}, 2, 0)
            assert await live(service) == [note], "the text stays as it was said, and nothing else is live"
            waiting = await service.governance.proposals(OWNER, "pending")
            assert {str(one.request["content"]) for one in waiting} == {
                "Mara moved to Ulm in May.",
                "Mara has two cats.",
            }
            into = done.settled[0].into
            for one in waiting:
                assert one.request["links"] == [{"to": into, "rel": "derived_from"}]
                assert (one.request["source"], one.request["user_id"]) == ("extraction", "mara")
            await service.decide(OWNER, waiting[0].id, approved=True)
            assert len(await live(service)) == 2
    (asked,) = model.asked
    assert (asked["path"], asked["key"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (asked["model"], asked["temperature"]) == ("tiny", 0)
    assert json.loads(asked["messages"][1]["content"]) == {"note": note}


async def test_what_memory_knows_is_not_proposed_again(tmp_path: Path) -> None:
    """A model that echoes what was recalled, or the note itself, adds nothing."""
    note = "We talked about Mara's cats again"
    with endpoint(
        lambda _: facts("Mara has two cats", note, "  ", "x" * 5_000, "Mara has  two cats.")
    ) as model:
        async with memory(model.url, tmp_path) as service:
            request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="Mara has two cats")
            await service.remember(OWNER, request)
            await push(service, note)
            done = await service.consolidating.consolidate(SYSTEM, ConsolidateRequest())
            assert done.proposed == 0
            assert await service.governance.proposals(OWNER, "pending") == ()


async def test_recalled_text_is_not_read_for_facts(tmp_path: Path) -> None:
    with endpoint(lambda _: facts("Never asked.")) as model:
        async with memory(model.url, tmp_path) as service:
            await push(service, "an answer made of memories", source="recall")
            await push(service, "another such answer", metadata={"recalled": True})
            machine = json.dumps({"name": "m", "initial": "a", "states": ["a"], "transitions": []})
            await push(service, machine, type=MemoryType.PROCEDURAL)
            done = await service.consolidating.consolidate(SYSTEM, ConsolidateRequest())
            assert (done.counts, done.proposed) == ({"promoted": 3}, 0)
    assert model.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (401, b"wrong key " + KEY.encode()),
        (200, b"not json"),
        chat("Sure! Here are the facts: Mara has two cats."),
        chat('{"facts": "Mara"}'),
        chat('{"facts": [1]}'),
        chat(json.dumps({"facts": ["x"] * 51})),
        (200, b'{"choices": []}'),
    ],
    ids=["500", "401", "no json", "prose", "no list", "numbers", "too many", "no choice"],
)
async def test_a_model_that_fails_costs_nothing(tmp_path: Path, answer: tuple[int, bytes]) -> None:
    with endpoint(lambda _: answer) as model:
        extractor = OpenAIExtractor(base_url=model.url, model="tiny", api_key=KEY, sleep=no_sleep)
        with pytest.raises(BackendUnavailableError) as refused:
            await extractor.facts("Mara has two cats")
        await extractor.close()
        told = f"{refused.value.message} {refused.value.hint}"
        assert KEY not in told
        assert "Mara" not in told
        async with memory(model.url, tmp_path) as service:
            service._parts.extractor._sleep = no_sleep  # type: ignore[union-attr]  it is there in this test
            await push(service, "Mara has two cats")
            done = await service.consolidating.consolidate(SYSTEM, ConsolidateRequest())
            assert (done.counts, done.proposed, done.unread) == ({"promoted": 1}, 0, 1)
            assert await live(service) == ["Mara has two cats"]


async def test_a_passing_failure_is_tried_again(tmp_path: Path) -> None:
    answers = iter([(503, b""), (429, b""), facts("Mara has two cats.")])
    with endpoint(lambda _: next(answers)) as model:
        extractor = OpenAIExtractor(base_url=model.url, model="tiny", sleep=no_sleep)
        assert await extractor.facts("cats") == ["Mara has two cats."]
        await extractor.close()
    assert [asked["key"] for asked in model.asked] == [None] * 3


async def test_nobody_there() -> None:
    extractor = OpenAIExtractor(base_url="http://127.0.0.1:9/v1", model="tiny", retries=0)
    with pytest.raises(BackendUnavailableError):
        await extractor.facts("x")
    await extractor.close()
    with pytest.raises(InvalidError):
        OpenAIExtractor(base_url="http://127.0.0.1:9", model="m", api_key="a\nb")


async def test_settings_that_do_not_fit_are_told() -> None:
    for given in (
        {"extractor_url": "http://127.0.0.1:9/v1"},
        {"consolidation_threshold": "much"},
        {"consolidation_threshold": "1.5"},
        {"consolidation_window": 0},
        {"consolidation_evict_after_s": -1},
    ):
        with pytest.raises(InvalidError) as refused:
            await start(Config(store_url="sqlite://:memory:", **given), embedder=WordEmbedder())  # type: ignore[arg-type]  wrong on purpose
        assert refused.value.reason == "bad_setting"
