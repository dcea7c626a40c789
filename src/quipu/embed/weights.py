"""The files of the built-in embedding model: where they are, and proof that they are the right ones.

`scripts/build_model.py` makes them when the wheel or the environment is built. `model/model.json`, which is part of the
source, names the model and the SHA-256 of each file; a file with another hash is never used.
"""

import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from quipu.errors import BackendUnavailableError

PACKAGED = Path(__file__).parent / "model"
MANIFEST = "model.json"

_BUILD = (
    "In a checkout run `python scripts/build_model.py`; otherwise run "
    "`pip install --force-reinstall --no-deps quipu-memory`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file and the hash that it must have."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the built-in model is called, and its files."""

    #: Changes with the graph, the word pieces or the pooling: two equal names give equal vectors.
    name: str
    dimensions: int
    graph: ModelFile
    vocabulary: ModelFile


@dataclass(frozen=True, slots=True)
class Weights:
    """The files, read and verified."""

    #: The ONNX file.
    graph: bytes
    #: Word pieces in the order of their numbers.
    vocabulary: tuple[str, ...]


@cache
def manifest() -> Manifest:
    """The manifest that came with the package."""
    try:
        entries = json.loads((PACKAGED / MANIFEST).read_bytes())
        return Manifest(
            name=entries["name"],
            dimensions=entries["dimensions"],
            graph=ModelFile(**entries["graph"]),
            vocabulary=ModelFile(**entries["vocabulary"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackendUnavailableError(
            f"The package is incomplete: embed/model/{MANIFEST} cannot be read.",
            reason="weights_missing",
            hint="Run `pip install --force-reinstall --no-deps quipu-memory`.",
        ) from error


def load_weights(directory: Path | None = None) -> Weights:
    """Read and verify the model's files. Raises BackendUnavailableError when they are missing or wrong.

    `directory` holds them instead of the package; nowhere else is looked then.
    """
    files = manifest()
    vocabulary = _verified(directory, files.vocabulary).decode("utf-8")
    return Weights(_verified(directory, files.graph), tuple(vocabulary.split("\n")))


def _verified(directory: Path | None, file: ModelFile) -> bytes:
    """The file's content; what was hashed is what is used."""
    path = (directory or PACKAGED) / file.name
    hint = _BUILD
    if directory is not None:
        hint = f"Put {file.name} there, or leave the directory out to use the packaged model."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BackendUnavailableError(
            f"The embedding model is not there: {path} cannot be read.", reason="weights_missing", hint=hint
        ) from error
    if sha256(content).hexdigest() != file.sha256:
        raise BackendUnavailableError(
            f"{path} is not the file of the embedding model: its SHA-256 differs.",
            reason="weights_mismatch",
            hint=hint,
        )
    return content
