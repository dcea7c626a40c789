"""An embedder without a model: each word is a direction of its own, so texts are near as far as they share words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray


class WordEmbedder:
    """Vectors that depend on nothing but the words of a text; the same in every run and on every machine."""

    def __init__(self, dimensions: int = 64) -> None:
        self.dimensions = dimensions
        self.model = f"words-{dimensions}"

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        words = re.findall(r"\w+", text.lower()) or [""]
        total = np.sum([_direction(word, self.dimensions) for word in words], axis=0)
        return (total / np.linalg.norm(total)).astype("<f4").tobytes()

    async def close(self) -> None:
        """Nothing was opened."""


@cache
def _direction(word: str, dimensions: int) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimensions)
