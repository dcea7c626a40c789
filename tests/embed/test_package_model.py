"""A model that a Python package runs: it is verified before it is imported, and asked one text at a time."""

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from quipu.embed.description import Description, ModelFile, Package
from quipu.embed.local import LocalEmbedder
from quipu.errors import BackendUnavailableError

#: Its vector has the number of characters, and of spaces; twice as long as wanted.
_ENCODER = """
class USE:
    def __init__(self, threads):
        self.threads = threads
    def encode(self, text):
        assert isinstance(text, str)
        return [2.0 * len(text), 2.0 * text.count(" ")]
"""


@pytest.fixture
def description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Description:
    """Of a package that is installed for this test."""
    folder = tmp_path / "small_encoder"
    folder.mkdir()
    (folder / "__init__.py").write_text(_ENCODER, "utf-8")
    (folder / "weights").write_bytes(b"weights")
    about = tmp_path / "small_encoder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: small-encoder\nVersion: 1.0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "small_encoder", raising=False)
    files = (ModelFile(name="weights", sha256=sha256(b"weights").hexdigest()),)
    package = Package(name="small-encoder", module="small_encoder", version="1.0", files=files)
    return Description(
        name=str(tmp_path), dimensions=2, window=10, overlap=0, package=package, hint="Install it."
    )


async def vector(description: Description, text: str) -> list[float]:
    embedder = LocalEmbedder(description=description)
    try:
        return np.frombuffer((await embedder.embed([text]))[0], "<f4").tolist()
    finally:
        await embedder.close()


async def test_a_vector_has_length_one_and_long_texts_are_read_in_windows(description: Description) -> None:
    assert await vector(description, "a bc") == pytest.approx(np.array([4, 1]) / np.sqrt(17))
    # Ten characters with one space, and five without any: the mean by their lengths.
    mean = np.array([10 * 10 + 5 * 5, 10 * 1]) / 15
    assert await vector(description, "abcd efghi" + "jklmn") == pytest.approx(mean / np.linalg.norm(mean))
    assert await vector(description, "") == pytest.approx(np.array([1, 1]) / np.sqrt(2))


async def test_a_package_that_is_not_there_is_an_error_that_says_what_to_do(description: Description) -> None:
    assert description.package is not None
    missing = replace(description, package=replace(description.package, name="no-such-encoder"))
    with pytest.raises(BackendUnavailableError, match="not installed: no-such-encoder") as refused:
        await vector(missing, "a")
    assert (refused.value.reason, refused.value.hint) == ("weights_missing", "Install it.")


async def test_another_version_of_the_package_is_refused(description: Description) -> None:
    assert description.package is not None
    other = replace(description, package=replace(description.package, version="1.1"))
    with pytest.raises(
        BackendUnavailableError, match=r"1\.0 is installed, and the model is described as of 1\.1"
    ):
        await vector(other, "a")


async def test_an_altered_file_of_the_package_is_refused_before_it_is_imported(
    description: Description, tmp_path: Path
) -> None:
    (tmp_path / "small_encoder/weights").write_bytes(b"others")
    with pytest.raises(BackendUnavailableError, match="SHA-256 differs"):
        await vector(description, "a")
    assert "small_encoder" not in sys.modules
