"""An embedder without a model: each word is a direction of its own, so texts are near as far as they share words."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quipu.embed.port import Calibration, Role


class WordEmbedder:
    """Vectors that depend on nothing but the words of a text; the same in every run and on every machine."""

    def __init__(self, dimensions: int = 64) -> None:
        self.dimensions = dimensions
        self.model = f"words-{dimensions}"
        self.calibration: Calibration | None = {
            **{"intercept": -1.5, "evidence": 7.0, "coverage": 0.25, "brevity": 0.08, "crowd": -1.0},
            **{"about_others": -0.4, "unknown_person": -0.5, "auto": 0.22, "strict": 0.32},
        }
        self._directions: dict[str, NDArray[np.float64]] = {}

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        """The unit vector of the text, as little-endian float32."""
        words = re.findall(r"\w+", text.lower()) or [""]
        total = np.sum([self._direction(word) for word in words], axis=0)
        return (total / np.linalg.norm(total)).astype("<f4").tobytes()

    def clear(self) -> None:
        """Forget the words that were met."""
        self._directions.clear()

    async def close(self) -> None:
        """Nothing was opened."""

    def _direction(self, word: str) -> NDArray[np.float64]:
        if word not in self._directions:
            seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
            self._directions[word] = np.random.default_rng(seed).standard_normal(self.dimensions)
        return self._directions[word]
