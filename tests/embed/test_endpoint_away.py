"""A memory whose vectors come from an endpoint, while the endpoint is away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quipu import BackendUnavailableError, Memory
from quipu.config import Config
from tests.embed.server import Reply, Server, serving


def by_letters(path: str, body: bytes) -> Reply:
    """As many numbers as there are letters, or as many as were asked for."""
    asked = json.loads(body)
    size = asked.get("dimensions", 26)
    vectors = [
        [1.0 + text.lower().count(chr(97 + place)) for place in range(size)] for text in asked["input"]
    ]
    items = [{"index": number, "embedding": vector} for number, vector in enumerate(vectors)]
    return 200, {"Content-Type": "application/json"}, json.dumps({"data": items}).encode()


def at(url: str, store: Path | str, **more: int) -> Memory:
    config = Config(embedder="openai", embedder_url=url, embedder_model="letters", **more)  # type: ignore[arg-type]  settings by name
    return Memory(agent_id="ana", stores=str(store), config=config)


@pytest.fixture
def endpoint(server: Server) -> Server:
    server.replies = [by_letters]
    return server


async def test_a_memory_opens_and_works_by_words_until_the_endpoint_is_back(
    endpoint: Server, ledger_url: str
) -> None:
    async with at(endpoint.url, ledger_url) as before:
        await before.remember("Mara is vegetarian")
    with serving() as gone:
        away = gone.url
    async with at(away, ledger_url) as memory:
        assert (await memory.recall("vegetarian"))[0].content == "Mara is vegetarian"
        await memory.remember("Tom brings the tea")
        assert (await memory.statistics())["vectors"] == 1
    async with at(endpoint.url, ledger_url) as after:
        assert await after.reembed() == 1
        assert (await after.statistics())["vectors"] == 2
        assert (await after.verify()).holds


async def test_a_new_memory_does_not_open_without_knowing_its_vectors_and_leaves_no_file(
    tmp_path: Path,
) -> None:
    with serving() as gone:
        away = gone.url
    file = tmp_path / "memory.db"
    memory = at(away, file)
    with pytest.raises(BackendUnavailableError) as refused:
        await memory.remember("Mara is vegetarian")
    assert refused.value.reason == "endpoint_unreachable"
    await memory.close()
    assert not file.exists()
    async with at(away, file, embedder_dimensions=8) as told:  # who says it need not ask
        await told.remember("Mara is vegetarian")
        assert (await told.recall("vegetarian"))[0].content == "Mara is vegetarian"


async def test_vectors_of_another_model_tell_nothing_about_this_one(endpoint: Server, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    async with at(endpoint.url, file) as before:
        await before.remember("Mara is vegetarian")
    with serving() as gone:
        away = gone.url
    other = Config(embedder="openai", embedder_url=away, embedder_model="words")
    memory = Memory(agent_id="ana", stores=str(file), config=other)
    with pytest.raises(BackendUnavailableError):
        await memory.recall("vegetarian")
    await memory.close()


async def test_shorter_vectors_are_asked_for_and_kept(endpoint: Server, tmp_path: Path) -> None:
    async with at(endpoint.url, tmp_path / "memory.db", embedder_dimensions=8) as memory:
        await memory.remember("Mara is vegetarian")
        assert (await memory.statistics())["vectors"] == 1
    assert {body["dimensions"] for body in endpoint.bodies} == {8}
