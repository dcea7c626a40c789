"""Simple methods over the same texts: BM25, vectors, and both fused by rank.

Each ranks the texts that a question may see, best first, with a score.
"""

import asyncio
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.recall.sets import Part, Question
from quipu.embed.description import load_weights
from quipu.embed.local import LocalEmbedder
from quipu.embed.pooling import well_formed
from quipu.embed.port import Embedder, Role
from quipu.embed.wordpiece import WordPieces

Scores: TypeAlias = NDArray[np.float64]
#: Texts by number, best first, with their scores.
Ranking: TypeAlias = list[tuple[int, float]]
#: Scores of every text of a part, for each of its questions.
Method: TypeAlias = Callable[[Part], list[Scores]]

_WORD = re.compile(r"\w+")
_K1, _B = 1.5, 0.75
_RRF_K = 60
#: What the model takes at once, its two marks left out; sentence-transformers reads no further.
_PIECES = 254


def ranking(part: Part, question: Question, scores: Scores) -> Ranking:
    """The texts in the question's reach that have a score, best first; of equal ones the earlier first."""
    user = question.user_id
    order = np.argsort(-scores, kind="stable")
    return [
        (int(n), float(scores[n]))
        for n in order
        if scores[n] > -math.inf and (user is None or part.texts[n].item.get("user_id") == user)
    ]


def bm25(part: Part) -> list[Scores]:
    """BM25 over all words in lower case. A text without any word of the question has no score."""
    counts = [Counter(_words(one.content)) for one in part.texts]
    lengths = np.array([sum(one.values()) for one in counts], float)
    average = lengths.mean() if len(lengths) else 0.0
    texts_of: dict[str, list[int]] = {}
    for number, words in enumerate(counts):
        for word in words:
            texts_of.setdefault(word, []).append(number)
    found: list[Scores] = []
    for question in part.questions:
        scores = np.full(len(counts), -math.inf)
        for word in _words(question.text):
            if word not in texts_of:
                continue
            rows = np.array(texts_of[word])
            inverse = math.log(1 + (len(counts) - len(rows) + 0.5) / (len(rows) + 0.5))
            often = np.array([counts[row][word] for row in rows], float)
            spread = _K1 * (1 - _B + _B * lengths[rows] / average)
            scores[rows] = np.maximum(scores[rows], 0) + inverse * often * (_K1 + 1) / (often + spread)
        found.append(scores)
    return found


def by_vectors(vectors: "Vectors") -> Method:
    """Cosine of the text's vector and the question's."""

    def method(part: Part) -> list[Scores]:
        texts = vectors.of([one.content for one in part.texts], "document")
        asked = vectors.of([one.text for one in part.questions], "query")
        return [texts @ one for one in asked.astype(float)]

    return method


def fused(methods: Sequence[Method]) -> Method:
    """Reciprocal rank fusion: each method gives 1 / (60 + place)."""

    def method(part: Part) -> list[Scores]:
        found: list[Scores] = []
        for rankings in zip(*(one(part) for one in methods), strict=True):
            total = np.full(len(part.texts), -math.inf)
            for scores in rankings:
                rows = np.argsort(-scores, kind="stable")
                rows = rows[scores[rows] > -math.inf]
                places = 1 / (_RRF_K + 1 + np.arange(len(rows)))
                total[rows] = np.maximum(total[rows], 0) + places
            found.append(total)
        return found

    return method


class Vectors:
    """Vectors of texts, kept in a file from one run to the next."""

    def __init__(self, connection: sqlite3.Connection, embedder: Embedder, *, cuts: bool) -> None:
        """`cuts`: only so much of a text is read as the model takes at once."""
        self._connection, self._embedder = connection, embedder
        self._pieces = WordPieces(load_weights().vocabulary) if cuts else None
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vector (model TEXT, text BLOB, numbers BLOB, PRIMARY KEY (model, text))"
        )

    def of(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """One row for each text."""
        if self._pieces is not None:
            texts = [cut(text, self._pieces, _PIECES) for text in texts]
        model = f"{self._embedder.model} {role}"
        keys = [sha256(well_formed(text).encode()).digest() for text in texts]
        known: dict[bytes, bytes] = {}
        for key in keys:
            row = self._connection.execute(
                "SELECT numbers FROM vector WHERE model = ? AND text = ?", (model, key)
            ).fetchone()
            if row is not None:
                known[key] = row[0]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        made = asyncio.run(self._embedder.embed(list(missing.values()), role))
        known |= dict(zip(missing, made, strict=True))
        with self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO vector VALUES (?, ?, ?)",
                [(model, key, known[key]) for key in missing],
            )
        return np.stack([np.frombuffer(known[key], "<f4") for key in keys])


@contextmanager
def methods(cache: Path) -> Iterator[dict[str, Method]]:
    """The simple methods, by name. Vectors are kept in the folder `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    embedder = LocalEmbedder()
    with closing(sqlite3.connect(cache / "vectors.db")) as connection:
        default = by_vectors(Vectors(connection, embedder, cuts=False))
        yield {
            "BM25": bm25,
            "MiniLM": by_vectors(Vectors(connection, embedder, cuts=True)),
            "default embedder": default,
            "RRF of both": fused([bm25, default]),
        }
    asyncio.run(embedder.close())


def cut(text: str, pieces: WordPieces, most: int) -> str:
    """As much of a text as has so many word pieces, in whole words."""
    taken = 0
    for word in re.finditer(r"\S+", text):
        taken += len(pieces.numbers(well_formed(word[0])))
        if taken > most:
            return text[: word.start()].rstrip()
    return text


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
