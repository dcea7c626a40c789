"""The default embedder, on the real weights and the real runtime."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from quipu.embed.onnx import DIMENSIONS, MODEL, OnnxEmbedder
from quipu.embed.text import windows
from quipu.errors import BackendUnavailableError
from quipu.ports.embedder import Embedder

Vector = NDArray[np.float32]

SENTENCES = [
    "Alice drinks her coffee with oat milk.",
    "The quarterly report is due on Friday.",
    "Our deployment failed because the certificate had expired.",
    "He moved to Lisbon in the spring of 2021.",
    "Please never call me before nine in the morning.",
    "The cat sleeps on the warm radiator all day.",
    "Use snake_case for functions and CamelCase for classes.",
    "Her sister is getting married next June in Porto.",
    "The database runs out of connections under load.",
    "I am allergic to peanuts and shellfish.",
    "Rotate the API keys every ninety days.",
    "Melanie painted a sunrise over the lake last year.",
    "Die Besprechung wurde auf Donnerstag verschoben.",
    "ok",
    "Water the tomatoes twice a week, but not the cactus.",
    "The user prefers dark mode and large fonts.",
    "The invoice number is 2024-00137 and the amount is 1,249.50 EUR.",
    "Bob plays the violin in a small orchestra.",
    "Retry the request with exponential backoff after a timeout.",
    "They adopted two puppies from the shelter on Saturday. " * 4,
]


def array(vector: bytes) -> Vector:
    return np.frombuffer(vector, "<f4")


def cosine(left: bytes, right: bytes) -> float:
    return float(array(left) @ array(right))


async def test_it_implements_the_port_and_names_itself_without_loading(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path / "cache")
    assert isinstance(embedder, Embedder)
    assert (embedder.model, embedder.dimensions) == (MODEL, DIMENSIONS)
    assert await embedder.embed([]) == []
    assert not (tmp_path / "cache").exists()
    await embedder.close()


async def test_vectors_are_unit_length_little_endian_float32(embedder: OnnxEmbedder) -> None:
    for vector in await embedder.embed(SENTENCES):
        assert len(vector) == 4 * DIMENSIONS
        assert math.isclose(float(np.linalg.norm(array(vector))), 1.0, abs_tol=1e-5)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("What does Alice put in her coffee?", SENTENCES[0], SENTENCES[1]),
        ("The release broke as the TLS cert was out of date.", SENTENCES[2], SENTENCES[5]),
        ("The feline naps by the heater.", SENTENCES[5], SENTENCES[10]),
        ("Which foods must I avoid?", SENTENCES[9], SENTENCES[3]),
    ],
)
async def test_a_paraphrase_is_nearer_than_something_unrelated(
    embedder: OnnxEmbedder, text: str, near: str, far: str
) -> None:
    asked, close, distant = await embedder.embed([text, near, far])
    assert cosine(asked, close) > cosine(asked, distant) + 0.2


async def test_the_same_text_gives_the_same_bytes(embedder: OnnxEmbedder, cache_dir: Path) -> None:
    other = OnnxEmbedder(cache_dir, threads=1)
    assert await embedder.embed(SENTENCES) == await other.embed(SENTENCES)
    await other.close()


async def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: OnnxEmbedder) -> None:
    together = await embedder.embed(SENTENCES)
    alone = [(await embedder.embed([text]))[0] for text in SENTENCES]
    assert together == alone


async def test_calls_at_the_same_time_do_not_mix_their_answers(embedder: OnnxEmbedder) -> None:
    expected = await embedder.embed(SENTENCES)
    answers = await asyncio.gather(*(embedder.embed(SENTENCES[i : i + 5]) for i in range(0, 20, 5)))
    assert [vector for answer in answers for vector in answer] == expected


async def test_a_fact_at_the_end_of_a_long_text_changes_its_vector(embedder: OnnxEmbedder) -> None:
    filler = "The weather was mild and the meeting went on. " * 230
    assert len(filler.split()) > 2_000
    plain, told = await embedder.embed([filler, f"{filler} Alice is allergic to peanuts and shellfish."])
    (question,) = await embedder.embed(["What is Alice allergic to?"])
    assert plain != told
    # One sentence among two hundred moves the mean a little, and in the right direction.
    assert cosine(question, told) > cosine(question, plain) + 0.01


async def test_a_long_text_stays_near_its_subject(embedder: OnnxEmbedder) -> None:
    story, question, other = await embedder.embed(
        [" ".join([SENTENCES[11], SENTENCES[14]] * 60), "painting a lake at sunrise", SENTENCES[8]]
    )
    assert cosine(story, question) > cosine(story, other) + 0.2


@pytest.mark.parametrize(
    "text", ["", "   ", "\n", "\x00", "[SEP] [PAD] [CLS]", "🙂", "\ud800 lone", "語" * 300]
)
async def test_odd_texts_give_a_steady_unit_vector(embedder: OnnxEmbedder, text: str) -> None:
    first, second = await embedder.embed([text, text])
    assert first == second
    assert math.isclose(float(np.linalg.norm(array(first))), 1.0, abs_tol=1e-5)


async def test_a_special_token_in_a_text_is_only_text(embedder: OnnxEmbedder) -> None:
    upper, lower = await embedder.embed(["left [SEP] right", "left [sep] right"])
    assert upper == lower


async def test_embedders_of_one_process_share_the_model_until_the_last_is_closed(
    tmp_path: Path, cache_dir: Path, embedder: OnnxEmbedder
) -> None:
    expected = await embedder.embed(["once"])
    (graph,) = cache_dir.glob("*int8*.onnx")  # noqa: ASYNC240  a test has nobody else to wait
    kept = tmp_path / graph.name
    kept.write_bytes(graph.read_bytes())
    first, second = (OnnxEmbedder(tmp_path, weights_dir=tmp_path / "none", download=False) for _ in range(2))
    await first.embed(["once"])
    kept.unlink()
    assert await second.embed(["once"]) == expected
    await first.close()
    assert await second.embed(["once"]) == expected
    await second.close()
    third = OnnxEmbedder(tmp_path, weights_dir=tmp_path / "none", download=False)
    with pytest.raises(BackendUnavailableError):
        await third.embed(["once"])
    await third.close()


async def test_a_closed_embedder_says_so(cache_dir: Path) -> None:
    embedder = OnnxEmbedder(cache_dir)
    await embedder.embed(["once"])
    await embedder.close()
    await embedder.close()
    with pytest.raises(BackendUnavailableError) as caught:
        await embedder.embed(["again"])
    assert caught.value.reason == "closed"


async def test_the_event_loop_turns_while_the_model_works(embedder: OnnxEmbedder) -> None:
    working = asyncio.create_task(embedder.embed(SENTENCES * 3))
    turns = 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


@pytest.mark.parametrize(("count", "expected"), [(0, 1), (254, 1), (255, 2), (476, 2), (477, 3)])
def test_windows_cover_every_token_and_overlap(count: int, expected: int) -> None:
    tokens = list(range(count))
    stretches = windows(tokens, 254, 32, 64)
    assert len(stretches) == expected
    assert sorted({token for stretch in stretches for token in stretch}) == tokens
    assert all(len(stretch) <= 254 for stretch in stretches)
    assert all(list(left[-32:]) == list(right[:32]) for left, right in pairwise(stretches))


async def test_int8_stays_near_a_plain_float32_forward_pass(
    embedder: OnnxEmbedder, weights_dir: Path
) -> None:
    reference = Float32(weights_dir)
    vectors = await embedder.embed(SENTENCES)
    cosines = [
        float(array(vector) @ reference(text)) for text, vector in zip(SENTENCES, vectors, strict=True)
    ]
    assert min(cosines) >= 0.99
    assert sum(cosines) / len(cosines) >= 0.9975


# numpy has no error function; between points this near, a straight line is exact to seven digits.
GRID = np.linspace(-6, 6, 20_001)
ERF = np.array([math.erf(point) for point in GRID])


class Float32:
    """all-MiniLM-L6-v2 as the paper has it: one text, float32, numpy."""

    def __init__(self, directory: Path) -> None:
        self.tensors = load_file(directory / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def __call__(self, text: str) -> Vector:
        ids = self.tokenizer.encode(text).ids
        table = {
            name: self.tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        }
        hidden = self.norm(
            table["word"][ids] + table["position"][: len(ids)] + table["token_type"][0],
            "embeddings.LayerNorm",
        )
        for number in range(6):
            at = f"encoder.layer.{number}."
            heads = [
                self.heads(self.linear(hidden, f"{at}attention.self.{part}"))
                for part in ("query", "key", "value")
            ]
            scores = heads[0] @ heads[1].transpose(0, 2, 1) / math.sqrt(32)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            context = (
                (shares / shares.sum(axis=-1, keepdims=True) @ heads[2])
                .transpose(1, 0, 2)
                .reshape(len(ids), 384)
            )
            attended = self.linear(context, f"{at}attention.output.dense")
            hidden = self.norm(attended + hidden, f"{at}attention.output.LayerNorm")
            wide = self.linear(hidden, f"{at}intermediate.dense")
            wide = wide * 0.5 * (1 + np.interp(wide / math.sqrt(2), GRID, ERF).astype(np.float32))
            hidden = self.norm(self.linear(wide, f"{at}output.dense") + hidden, f"{at}output.LayerNorm")
        mean = hidden.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def linear(self, hidden: Vector, name: str) -> Vector:
        return hidden @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, hidden: Vector, name: str) -> Vector:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    @staticmethod
    def heads(hidden: Vector) -> Vector:
        return hidden.reshape(len(hidden), 12, 32).transpose(1, 0, 2)
