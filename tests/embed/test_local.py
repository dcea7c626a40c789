"""The built-in embedder, on the real weights and the real runtime."""

import asyncio
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from quipu.embed.description import PACKAGED, packaged
from quipu.embed.local import LocalEmbedder
from quipu.errors import BackendUnavailableError
from scripts.build_model import TENSORS, TOKENIZER, forward
from tests.embed.sentences import SENTENCES

#: Of each sentence: its cosine with the next, and the first three numbers of its vector. Vectors that differ from these
#: need a new model name, or those stored before could not be compared with them.
RECORDED = [
    (-0.0153, (0.0225, 0.0447, -0.0575)),
    (0.1384, (-0.0051, 0.0194, 0.0105)),
    (0.0709, (0.0107, 0.0008, 0.0252)),
    (-0.0326, (0.0810, -0.0200, 0.0394)),
    (0.0997, (-0.0568, 0.0313, 0.0927)),
    (0.0792, (0.1045, 0.0081, -0.0007)),
    (-0.0215, (-0.0309, 0.0914, -0.0124)),
    (0.0658, (0.0352, -0.0120, -0.0175)),
    (-0.1201, (0.0654, -0.0634, -0.0807)),
    (0.1935, (0.0366, 0.0088, 0.0409)),
    (0.0911, (-0.0445, 0.0118, 0.0022)),
    (0.0058, (0.0039, 0.1037, 0.1155)),
    (0.0200, (-0.0144, 0.0287, -0.0135)),
    (0.0343, (-0.0486, -0.0541, -0.0168)),
    (0.0249, (0.0030, 0.0625, 0.0276)),
    (-0.0982, (0.0384, 0.0265, -0.0056)),
    (0.0935, (-0.0320, 0.0500, 0.0137)),
    (-0.0161, (0.0443, 0.0497, -0.0139)),
    (0.0603, (-0.0402, 0.0422, -0.0016)),
    (-0.0248, (-0.0780, -0.0334, 0.0490)),
]
#: Another processor rounds otherwise here and there.
ROUNDING = 2e-3


def array(vector: bytes) -> NDArray[np.float32]:
    return np.frombuffer(vector, "<f4")


def cosine(left: bytes, right: bytes) -> float:
    return float(array(left) @ array(right))


async def test_the_model_of_this_name_gives_the_recorded_vectors(embedder: LocalEmbedder) -> None:
    assert embedder.model == "all-MiniLM-L6-v2/int8-2-53aa5117"
    vectors = await embedder.embed(SENTENCES)
    for number, (near, first) in enumerate(RECORDED):
        vector, following = vectors[number], vectors[(number + 1) % len(vectors)]
        assert cosine(vector, following) == pytest.approx(near, abs=ROUNDING)
        assert array(vector)[:3].tolist() == pytest.approx(first, abs=ROUNDING)


async def test_it_names_itself_without_loading(tmp_path: Path) -> None:
    embedder = LocalEmbedder(tmp_path / "nothing there")
    assert (embedder.model, embedder.dimensions) == (packaged().name, 384)
    assert await embedder.embed([]) == []
    embedder.clear()
    await embedder.close()


async def test_vectors_are_unit_length_float32(embedder: LocalEmbedder) -> None:
    for vector in await embedder.embed(SENTENCES):
        assert len(vector) == 4 * embedder.dimensions
        assert math.isclose(float(np.linalg.norm(array(vector))), 1.0, abs_tol=1e-5)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("What does Alice put in her coffee?", SENTENCES[0], SENTENCES[1]),
        ("The release broke as the TLS cert was out of date.", SENTENCES[2], SENTENCES[5]),
        ("The feline naps by the heater.", SENTENCES[5], SENTENCES[10]),
        ("Which foods must I avoid?", SENTENCES[9], SENTENCES[3]),
        ("painting a lake at sunrise", " ".join([SENTENCES[11], SENTENCES[14]] * 60), SENTENCES[8]),
    ],
)
async def test_a_paraphrase_is_nearer_than_something_unrelated(
    embedder: LocalEmbedder, text: str, near: str, far: str
) -> None:
    query, close, distant = await embedder.embed([text, near, far])
    assert cosine(query, close) > cosine(query, distant) + 0.2


async def test_a_vector_does_not_depend_on_threads_or_the_other_texts(embedder: LocalEmbedder) -> None:
    expected = await embedder.embed(SENTENCES)
    single = LocalEmbedder(threads=1)
    assert await single.embed(SENTENCES) == expected
    await single.close()
    assert [(await embedder.embed([text]))[0] for text in SENTENCES] == expected


async def test_calls_at_the_same_time_do_not_mix_their_answers(embedder: LocalEmbedder) -> None:
    expected = await embedder.embed(SENTENCES)
    answers = await asyncio.gather(*(embedder.embed(SENTENCES[i : i + 5]) for i in range(0, 20, 5)))
    assert [vector for answer in answers for vector in answer] == expected


async def test_a_fact_at_the_end_of_a_long_text_changes_its_vector(embedder: LocalEmbedder) -> None:
    filler = "The weather was mild and the meeting went on. " * 230
    fact = "Alice is allergic to peanuts and shellfish."
    plain, longer, query = await embedder.embed([filler, f"{filler} {fact}", "What is Alice allergic to?"])
    # One sentence among two hundred moves the mean a little, and in the right direction.
    assert cosine(query, longer) > cosine(query, plain) + 0.01


@pytest.mark.parametrize(
    "text", ["", "   ", "\n", "\x00", "[SEP] [PAD] [CLS]", "🙂", "\ud800 lone", "語" * 300]
)
async def test_odd_texts_give_a_steady_unit_vector(embedder: LocalEmbedder, text: str) -> None:
    first, second = await embedder.embed([text, text])
    assert first == second
    assert math.isclose(float(np.linalg.norm(array(first))), 1.0, abs_tol=1e-5)


async def test_a_lone_surrogate_is_read_as_a_question_mark(embedder: LocalEmbedder) -> None:
    lone, mark = await embedder.embed(["\ud800 lone", "? lone"])
    assert lone == mark


async def test_a_special_token_in_a_text_is_only_text(embedder: LocalEmbedder) -> None:
    upper, lower = await embedder.embed(["left [SEP] right", "left [sep] right"])
    assert upper == lower


async def test_embedders_of_one_process_share_the_model_until_the_last_is_closed(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    await asyncio.to_thread(directory.symlink_to, PACKAGED)
    first, second, third = (LocalEmbedder(directory) for _ in range(3))
    expected = await first.embed(["once"])
    await asyncio.to_thread(directory.unlink)
    assert await second.embed(["once"]) == expected
    await first.close()
    assert await second.embed(["once"]) == expected
    await second.close()
    with pytest.raises(BackendUnavailableError):
        await third.embed(["once"])
    await third.close()


async def test_a_closed_embedder_says_so() -> None:
    embedder = LocalEmbedder()
    await embedder.embed(["once"])
    await embedder.close()
    await embedder.close()
    for texts in (["again"], ["again", "and again"]):
        with pytest.raises(BackendUnavailableError) as closed:
            await embedder.embed(texts)
        assert closed.value.reason == "closed"


async def test_what_runs_when_it_is_closed_is_answered_or_refused(embedder: LocalEmbedder) -> None:
    working = asyncio.create_task(embedder.embed([*SENTENCES] * 3))
    await asyncio.sleep(0)
    await embedder.close()
    (outcome,) = await asyncio.gather(working, return_exceptions=True)
    assert isinstance(outcome, list) or (
        isinstance(outcome, BackendUnavailableError) and outcome.reason == "closed"
    )


async def test_the_event_loop_turns_while_the_model_works(embedder: LocalEmbedder) -> None:
    working = asyncio.create_task(embedder.embed([*SENTENCES] * 3))
    turns = 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


async def test_a_query_does_not_wait_for_a_long_call() -> None:
    embedder = LocalEmbedder(threads=1)
    long_call = asyncio.create_task(embedder.embed([*SENTENCES[:19]] * 30))
    for _ in range(5):  # turns of the loop, until its first batch is handed to the thread
        await asyncio.sleep(0)
    await embedder.embed(["a query"])
    assert not long_call.done()
    await long_call
    await embedder.close()


async def test_int8_stays_near_the_exact_vectors(embedder: LocalEmbedder, weights_dir: Path) -> None:
    tensors = load_file(weights_dir / TENSORS)
    tokenizer = Tokenizer.from_file(str(weights_dir / TOKENIZER))
    tokenizer.no_padding()
    sentences = SENTENCES[:19]
    cosines: list[float] = []
    for text, vector in zip(sentences, await embedder.embed(sentences), strict=True):
        exact, _ = forward(tensors, np.array([tokenizer.encode(text).ids], np.int64))
        cosines.append(float(array(vector) @ exact[0]))
    assert min(cosines) >= 0.99
    assert sum(cosines) / len(cosines) >= 0.9975


ALONE = """
import asyncio, sys
from quipu.embed.local import LocalEmbedder

async def main() -> None:
    embedder = LocalEmbedder()
    await embedder.embed(["a quiet sentence"])
    await embedder.close()

asyncio.run(main())
print(*sorted({"onnx", "safetensors", "tokenizers", "httpx"} & set(sys.modules)))
"""


def test_embedding_needs_no_builder_and_leaves_no_trace_of_the_runtimes_telemetry(tmp_path: Path) -> None:
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], env={**environment, **home}, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []
    assert [
        path for path in tmp_path.rglob("*") if "onnxruntime" in str(path) or "Microsoft" in str(path)
    ] == []
