"""The embedder that tests use where no model is needed."""

import numpy as np

from quipu.embed.cache import CachedEmbedder
from quipu.testing.embedders import WordEmbedder


async def test_texts_are_near_as_far_as_they_share_words() -> None:
    embedder = WordEmbedder()
    same, shared, other = (
        np.frombuffer(vector, "<f4")
        for vector in await embedder.embed(["Oat milk, please", "please oat tea", "blue sky"])
    )
    assert len(same) == embedder.dimensions == 64
    assert same @ same > 0.999
    assert same @ shared > same @ other + 0.2


async def test_vectors_are_the_same_in_every_run() -> None:
    embedder = CachedEmbedder(WordEmbedder(8))
    before = await embedder.embed(["", "oat milk", "\ud800"])
    embedder.clear()
    assert await embedder.embed(["", "oat milk", "\ud800"]) == before
    assert before[1].hex().startswith("1b13d13e1102e5be")
    await embedder.close()
