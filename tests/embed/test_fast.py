"""The fast embedder: a table distilled from the real weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quipu.config import Config
from quipu.embed.fast import DIMENSIONS, MODEL, FastEmbedder, distilled
from quipu.errors import BackendUnavailableError
from quipu.memory import Memory
from quipu.ports.embedder import Embedder
from quipu.rules.relevance import calibration


def cosine(left: bytes, right: bytes) -> float:
    return float(np.frombuffer(left, "<f4") @ np.frombuffer(right, "<f4"))


def test_the_table_has_no_common_direction_and_drops_what_says_least() -> None:
    chance = np.random.default_rng(5)
    vectors = chance.normal(size=(2_000, DIMENSIONS)).astype(np.float32) + 3.0
    table = distilled(vectors)
    assert table.shape == vectors.shape
    assert not table[0].any()  # the most frequent piece says nothing
    weights = np.log1p(np.arange(len(vectors), dtype=np.float32))[1:, None]
    plain = table[1:] / weights
    assert np.abs(plain.mean(axis=0)).max() < 0.02
    assert np.linalg.matrix_rank(plain, tol=1e-2) == 256


async def test_it_implements_the_port_and_names_itself_without_loading(tmp_path: Path) -> None:
    embedder = FastEmbedder(tmp_path / "cache")
    assert isinstance(embedder, Embedder)
    assert (embedder.model, embedder.dimensions) == (MODEL, DIMENSIONS)
    assert not (tmp_path / "cache").exists()
    await embedder.close()
    with pytest.raises(BackendUnavailableError):
        await embedder.embed(["x"])


def test_its_relevance_is_judged_by_its_own_measure() -> None:
    assert calibration(MODEL) is not calibration("all-MiniLM-L6-v2/int8-1")


async def test_texts_that_mean_the_same_lie_near_and_a_start_reads_what_was_made(cache_dir: Path) -> None:
    stages: list[str] = []
    embedder = FastEmbedder(cache_dir, download=False, progress=lambda stage, _: stages.append(stage))
    texts = [
        "My daughter is allergic to peanuts.",
        "Which food must her child not eat? Nuts are an allergy.",
        "The quarterly report is due on Friday.",
        "",
        "[SEP] [PAD]",
        "\ud800 half a pair",
        "tea " * 20_000,
    ]
    vectors = await embedder.embed(texts)
    assert all(len(vector) == 4 * DIMENSIONS for vector in vectors)
    assert all(abs(cosine(vector, vector) - 1) < 1e-5 for vector in vectors)
    assert cosine(vectors[0], vectors[1]) > cosine(vectors[0], vectors[2]) + 0.2
    (tea,) = await embedder.embed(["tea"])
    assert cosine(tea, vectors[-1]) > 0.9999  # a long text counts whole
    assert "making the table" in stages
    await embedder.close()

    stages.clear()
    again = FastEmbedder(cache_dir, download=False, progress=lambda stage, _: stages.append(stage))
    assert list(await again.embed(texts[:3])) == list(vectors[:3])  # each text by itself, to the last bit
    assert (await again.embed([texts[1]]))[0] == vectors[1]
    assert stages == []
    await again.close()

    # Reachable by its users: a setting, and recall finds with it.
    config = Config(embedder="fast", cache_dir=str(cache_dir), allow_download=False)
    async with Memory(agent_id="ana", stores=[f"sqlite:///{cache_dir}/m.db"], config=config) as memory:
        await memory.remember("My daughter is allergic to peanuts.")
        await memory.remember("The quarterly report is due on Friday.")
        found = await memory.recall("peanuts allergy of a child", min_relevance="off")
    assert found[0].content.startswith("My daughter")
    assert found[0].relevance > found[1].relevance
