"""The models that can be chosen by name, with their real files."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from quipu import Memory
from quipu.bootstrap.embedders import local_embedder
from quipu.config import Settings
from quipu.embed.description import load_weights, packaged
from quipu.embed.wordpiece import WordPieces
from tests.embed.sentences import SENTENCES
from tests.vendors.environments import python_of

pytestmark = pytest.mark.vendor(name="embedders")


@pytest.fixture
def site_packages() -> Path:
    (found,) = Path(python_of("embedders")).parents[1].glob("lib/python*/site-packages")
    return found


@pytest.fixture
def cache(tmp_path: Path, site_packages: Path) -> Path:
    """A cache directory with arctic-s in it, as the command in the documentation leaves it."""
    model = site_packages / "project_brain/model/int8"
    (tmp_path / "arctic-s").mkdir()
    for file in (model / "onnx/model.onnx", model / "vocab.txt"):
        (tmp_path / "arctic-s" / file.name).symlink_to(file)
    return tmp_path


async def test_arctic_has_a_prefix_for_queries_and_tells_what_answers(cache: Path) -> None:
    embedder = local_embedder(Settings(embedder="arctic-s", cache=cache))
    assert (embedder.model, embedder.dimensions) == ("snowflake-arctic-embed-s/int8-1-f93ff225", 384)
    (query,) = await embedder.embed(["What does Mara eat?"], "query")
    answer, other, plain = await embedder.embed(
        ["Mara is vegetarian", "Deploys happen on Tuesdays", "What does Mara eat?"]
    )
    near, far, same = (
        float(np.dot(*(np.frombuffer(v, "<f4") for v in (query, one)))) for one in (answer, other, plain)
    )
    assert near > far + 0.2
    assert same < 0.95
    await embedder.close()


def test_our_word_pieces_are_those_of_arctics_own_tokenizer(cache: Path, site_packages: Path) -> None:
    weights = load_weights(cache / "arctic-s", packaged("arctic-s.json"))
    theirs = Tokenizer.from_file(str(site_packages / "project_brain/model/int8/tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    ours = WordPieces(weights.vocabulary)
    for text in SENTENCES:
        assert ours.numbers(text) == theirs.encode(text, add_special_tokens=False).ids


async def test_the_multilingual_model_finds_a_memory_in_another_language_than_the_question(
    site_packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site_packages)
    asked = {
        "Wie heißt der Build-Server?": "The build server is called kestrel",
        "Qu'est-ce que Mara mange ?": "Mara is vegetarian",
        "¿Qué día se hacen los despliegues?": "Deploys happen on Tuesdays",
        "На каком инструменте играет Том?": "Tom plays the cello",  # noqa: RUF001  Cyrillic is meant
    }
    settings = Settings(embedder="multilingual")
    async with Memory(agent_id="agent", stores=":memory:", config=settings) as memory:
        await memory.remember_many([{"content": text} for text in asked.values()])
        for question, answer in asked.items():
            (hit,) = await memory.recall(question, k=1, min_relevance="off")
            assert hit.content == answer
