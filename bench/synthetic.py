"""Synthetic records from a seed: Zipfian English words for texts, clustered unit vectors for embeddings.

The same seed gives the same records in every process, so that two systems can be filled alike. The words are
those of Python's own reference manual, commonest first; the rare end of the distribution is filled with
compounds of two of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
CLUSTERS = 2_000
USERS = 100
CHUNK = 1_000
VOCABULARY = 20_000
DROPPED = 60
ZIPF_EXPONENT = 1.07
MODEL = "synthetic-384"
FUNCTION_WORDS = ("the", "a", "of", "to", "and", "in", "for", "with", "on", "at", "is", "was", "from", "that")
FRAME_WORDS = ("noted", "dossier", "say", "about", "what", "did")
NAMES = (
    "Amara",
    "Bruno",
    "Chiara",
    "Dmitri",
    "Elif",
    "Farid",
    "Greta",
    "Hiro",
    "Ilse",
    "Jomo",
    "Kaia",
    "Lionel",
)


@cache
def vocabulary() -> tuple[str, ...]:
    """The words texts are made of, commonest first."""
    counts = Counter(word for text in topics.values() for word in re.findall(r"[a-z]{3,}", text.lower()))
    words = [word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    words = [word for word in words if word not in {*FUNCTION_WORDS, *FRAME_WORDS}]
    rng = np.random.default_rng(0)
    known = dict.fromkeys(words)
    while len(known) < VOCABULARY:
        first, second = rng.integers(0, len(words), 2)
        known[words[int(first)] + words[int(second)]] = None
    return tuple(known)


@dataclass(frozen=True)
class Record:
    """One synthetic memory with its vector."""

    number: int
    text: str
    user_id: str
    session_id: str
    vector: NDArray[np.float32]


@dataclass(frozen=True)
class Probe:
    """One synthetic query with its vector."""

    text: str
    user_id: str
    vector: NDArray[np.float32]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows at length 1."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Source:
    """Endless records and queries from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._centres = _unit(
            np.random.default_rng([seed, 0]).standard_normal((CLUSTERS, DIMENSIONS), dtype=np.float32)
        )
        ranks = np.arange(1, len(vocabulary()) + 1, dtype=np.float64)
        shares = ranks**-ZIPF_EXPONENT
        self._cumulated = np.cumsum(shares / shares.sum())

    def _words(self, rng: np.random.Generator, count: int, rarer_than: int = 0) -> list[str]:
        """So many words, common ones often, none of the `rarer_than` commonest."""
        words = vocabulary()
        last = len(words) - 1
        least = self._cumulated[rarer_than - 1] if rarer_than else 0.0
        drawn = least + rng.random(count) * (1.0 - least)
        return [words[min(int(i), last)] for i in np.searchsorted(self._cumulated, drawn)]

    def _vectors(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        """Unit vectors spread around the cluster centres."""
        centres = self._centres[rng.integers(0, CLUSTERS, count)]
        noise = rng.standard_normal((count, DIMENSIONS), dtype=np.float32) * np.float32(0.045)
        return _unit(centres + noise)

    def _chunk(self, index: int) -> list[Record]:
        """The records of one chunk; every chunk has a generator of its own, so any can be made alone."""
        rng = np.random.default_rng([self.seed, 1, index])
        vectors = self._vectors(rng, CHUNK)
        lengths = rng.integers(8, 26, CHUNK)
        users = rng.integers(0, USERS, CHUNK)
        rows: list[Record] = []
        for offset in range(CHUNK):
            number = index * CHUNK + offset
            content = self._words(rng, int(lengths[offset]))
            joints = rng.integers(0, len(FUNCTION_WORDS), len(content))
            text = " ".join(f"{FUNCTION_WORDS[j]} {word}" for j, word in zip(joints, content, strict=True))
            name = NAMES[int(users[offset]) % len(NAMES)]
            sentence = f"{name} noted {text}, dossier {number}."
            user = f"user-{int(users[offset]):03d}"
            rows.append(Record(number, sentence, user, f"session-{number // 20}", vectors[offset]))
        return rows

    def records(self, count: int, start: int = 0) -> Iterator[Record]:
        """So many records, beginning at number `start`."""
        for index in range(start // CHUNK, (start + count + CHUNK - 1) // CHUNK):
            for record in self._chunk(index):
                if start <= record.number < start + count:
                    yield record

    def queries(self, count: int) -> list[Probe]:
        """Questions of four content words, near one of the clusters.

        The commonest words are left out: they play the part of words that every question drops.
        """
        rng = np.random.default_rng([self.seed, 2])
        vectors = self._vectors(rng, count)
        rows: list[Probe] = []
        for index in range(count):
            words = self._words(rng, 4, rarer_than=DROPPED)
            text = f"What did {NAMES[index % len(NAMES)]} say about {' and '.join(words)}?"
            rows.append(Probe(text, f"user-{int(rng.integers(0, USERS)):03d}", vectors[index]))
        return rows


def agent_sizes(records: int, agents: int) -> NDArray[np.int64]:
    """Zipf sizes of so many agents that sum to `records`, largest first."""
    shares = 1.0 / np.arange(1, agents + 1)
    sizes = np.floor(records * shares / shares.sum()).astype(np.int64)
    sizes[0] += records - int(sizes.sum())
    return sizes
