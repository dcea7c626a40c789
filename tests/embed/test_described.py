"""Models that a directory describes, on the real runtime: what stands in the description is what is done."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quipu.embed.description import packaged
from quipu.embed.local import LocalEmbedder
from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError
from quipu.search import relevance
from tests.embed.small_model import hidden, written


async def vectors(
    directory: Path, texts: Sequence[str], role: Role = "document"
) -> list[NDArray[np.float32]]:
    embedder = LocalEmbedder(directory)
    try:
        return [np.frombuffer(one, "<f4") for one in await embedder.embed(texts, role)]
    finally:
        await embedder.close()


def unit(vector: NDArray[np.float32]) -> Any:
    return pytest.approx(vector / np.linalg.norm(vector), abs=1e-6)


async def test_the_first_piece_or_the_mean_of_all_is_the_vector_and_it_has_length_one(tmp_path: Path) -> None:
    (by_first,) = await vectors(written(tmp_path / "a", pooling="cls"), ["tea sea"])
    (by_mean,) = await vectors(written(tmp_path / "b", pooling="mean"), ["tea sea"])
    assert by_first == unit(hidden("tea", "sea")[0])
    assert by_mean == unit(hidden("tea", "sea").mean(axis=0))
    assert np.linalg.norm(hidden("tea", "sea")[0]) != pytest.approx(1, abs=0.1)


async def test_each_role_has_its_prefix(tmp_path: Path) -> None:
    directory = written(tmp_path / "model", query_prefix="find: ", document_prefix="sea ")
    (query,) = await vectors(directory, ["tea"], "query")
    (document,) = await vectors(directory, ["tea"])
    assert query == unit(hidden("find", ":", "tea")[0])
    assert document == unit(hidden("sea", "tea")[0])


async def test_a_vector_is_that_of_its_text_alone(tmp_path: Path) -> None:
    directory = written(tmp_path / "model")
    texts = ["tea", "coffee sea tea", "sea", ""]
    together = await vectors(directory, texts)
    for text, vector in zip(texts, together, strict=True):
        assert (await vectors(directory, [text]))[0].tobytes() == vector.tobytes()


async def test_what_is_longer_than_the_window_is_read_in_windows(tmp_path: Path) -> None:
    (found,) = await vectors(written(tmp_path / "model", window=4, overlap=0), ["tea sea coffee"])
    first, second = (hidden(*words)[0] for words in (("tea", "sea"), ("coffee",)))
    assert found == unit((4 * first + 3 * second) / 7)


def test_another_way_of_making_vectors_is_another_model_and_other_calibration_is_not(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"pooling": "mean"},
        {"query_prefix": "find: "},
        {"window": 6},
        {"calibration": {"auto": 0.5}, "limits": "none"},
    ]
    names = [LocalEmbedder(written(tmp_path / str(number), **way)).model for number, way in enumerate(ways)]
    assert len(set(names[:4])) == 4
    assert names[4] == names[0]
    assert names[0].startswith("small/")


def test_a_model_has_its_own_calibration_or_none(tmp_path: Path) -> None:
    assert LocalEmbedder(written(tmp_path / "a")).calibration is None
    assert LocalEmbedder(written(tmp_path / "b", calibration={"auto": 0.5})).calibration == {"auto": 0.5}
    for name in ("arctic-s", "multilingual"):
        assert packaged(f"{name}.json").calibration is None


def test_the_calibration_of_the_built_in_model_is_what_search_takes() -> None:
    known = packaged().calibration
    assert known is not None
    assert relevance.Calibration(**known) == relevance.calibration(known, has_vector=True)


@pytest.mark.parametrize(
    "entries",
    [
        {"pooling": "max"},
        {"window": 2},
        {"overlap": 7},
        {"graph": None},
        {"vocabulary": {"name": "vocab.txt"}},
        {"dimensions": None},
        {"colour": "blue"},
        {
            "package": {"name": "x", "module": "os", "version": "1", "files": []},
            "graph": None,
            "vocabulary": None,
        },
    ],
    ids=str,
)
def test_a_description_that_is_none_is_refused_and_says_where_one_is_shown(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        LocalEmbedder(written(tmp_path / "model", **entries))
    assert refused.value.reason == "weights_mismatch"
    assert "model.json does not describe a model" in refused.value.message
    assert "change-the-embedder" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["model.onnx", "vocab.txt"])
async def test_a_file_that_was_altered_or_is_missing_is_refused(tmp_path: Path, name: str) -> None:
    directory = written(tmp_path / "model")
    with (directory / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(BackendUnavailableError, match="SHA-256 differs") as altered:
        await vectors(directory, ["tea"])
    assert altered.value.reason == "weights_mismatch"
    assert altered.value.hint == "Put model.onnx and vocab.txt there, as model.json describes them."
    (directory / name).unlink()
    with pytest.raises(BackendUnavailableError, match="cannot be read") as missing:
        await vectors(directory, ["tea"])
    assert missing.value.reason == "weights_missing"


async def test_a_vocabulary_of_another_kind_is_refused(tmp_path: Path) -> None:
    directory = written(tmp_path / "model")
    content = b"\xe2\x96\x81tea\n"
    (directory / "vocab.txt").write_bytes(content)
    from hashlib import sha256

    found = json.loads((directory / "model.json").read_bytes())
    found["vocabulary"]["sha256"] = sha256(content).hexdigest()
    (directory / "model.json").write_text(json.dumps(found), "utf-8")
    with pytest.raises(BackendUnavailableError, match="no vocabulary of word pieces"):
        await vectors(directory, ["tea"])


@pytest.mark.parametrize("name", ["arctic-s", "multilingual"])
async def test_a_named_model_that_is_not_there_says_how_it_is_had(tmp_path: Path, name: str) -> None:
    embedder = LocalEmbedder(tmp_path / name, description=packaged(f"{name}.json"))
    with pytest.raises(BackendUnavailableError) as missing:
        await embedder.embed(["tea"])
    assert missing.value.reason == "weights_missing"
    hint = str(missing.value.hint)
    assert "pip " in hint
    assert (str(tmp_path / name) in hint) is (name == "arctic-s")
    await embedder.close()
