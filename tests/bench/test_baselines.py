"""The simple methods, on texts small enough to work them out by hand."""

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bench.recall.baselines import Vectors, bm25, by_vectors, cut, fused, ranking
from bench.recall.sets import Part, Question, Text
from quipu.embed.description import load_weights
from quipu.embed.port import Role
from quipu.embed.wordpiece import WordPieces
from quipu.testing.embedders import WordEmbedder


def _part(*texts: str, asked: str = "bees", user_id: str | None = None) -> Part:
    items = [Text(str(n), {"content": text, "user_id": "ab"[n % 2]}) for n, text in enumerate(texts)]
    return Part("part", items, [Question(asked, "x", user_id=user_id)])


def test_bm25_is_that_of_its_formula() -> None:
    (scores,) = bm25(_part("bees", "Bees and honey", "a cat", asked="Bees?"))
    inverse = math.log(1 + 1.5 / 2.5)
    lengths = (1, 3)
    expected = [inverse * 2.5 / (1 + 1.5 * (0.25 + 0.75 * length / 2)) for length in lengths]
    assert scores.tolist() == pytest.approx([*expected, -math.inf])


def test_a_text_without_a_score_or_of_somebody_else_is_not_ranked() -> None:
    part = _part("bees", "bees", "a cat", "bees bees", asked="bees", user_id="b")
    (scores,) = bm25(part)
    assert [number for number, _ in ranking(part, part.questions[0], scores)] == [3, 1]


def test_vectors_rank_by_cosine_and_are_made_once(tmp_path: Path) -> None:
    made: list[str] = []

    class Counting(WordEmbedder):
        async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
            made.extend(texts)
            return await super().embed(texts, role)

    part = _part("a grey cat", "bees in spring", asked="bees in winter")
    for _ in range(2):
        with closing(sqlite3.connect(tmp_path / "vectors.db")) as connection:
            (scores,) = by_vectors(Vectors(connection, Counting(), cuts=False))(part)
        question, text = (
            np.frombuffer(Counting().vector(one), "<f4") for one in ("bees in winter", "bees in spring")
        )
        assert scores[1] == pytest.approx(float(question @ text))
        assert scores[0] < scores[1]
    assert sorted(made) == ["a grey cat", "bees in spring", "bees in winter"]


def test_fusion_adds_the_inverse_of_places_and_leaves_out_what_a_method_did_not_find() -> None:
    first, second = np.array([3.0, 2.0, -math.inf]), np.array([0.1, 0.2, 0.3])
    (scores,) = fused([lambda _: [first], lambda _: [second]])(_part("a", "b", "c"))
    assert scores.tolist() == pytest.approx([1 / 61 + 1 / 63, 1 / 62 + 1 / 62, 1 / 61])


def test_a_text_is_cut_where_the_model_stops_reading() -> None:
    pieces = WordPieces(load_weights().vocabulary)
    assert cut("one two  three four", pieces, 3) == "one two  three"
    assert cut("one two", pieces, 3) == "one two"
