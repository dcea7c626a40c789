"""What is known of a model that runs on this machine, and proof that its files are the right ones.

A model is described by a JSON file: its name, the SHA-256 of each of its files, and how it is used. Descriptions of the
models that can be chosen by name come with the package; a directory with a `model.json` describes itself. A file with
another hash is never used.

`scripts/build_model.py` makes the files of the built-in model when the wheel or the environment is built.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from quipu.embed.port import Calibration, Role
from quipu.errors import BackendUnavailableError

#: none: the graph does it; cls: the vector of the first piece; mean: that of all pieces.
Pooling: TypeAlias = Literal["none", "cls", "mean"]

PACKAGED = Path(__file__).parent / "model"
#: Stands beside the files of a model that describes itself; the package's own describes the built-in model.
BESIDE = "model.json"
_REINSTALL = "Run `pip install --force-reinstall --no-deps quipu-memory`."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file and the hash that it must have."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Python package that runs the model and holds its files."""

    name: str
    module: str
    version: str
    files: tuple[ModelFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One model. It is run by onnxruntime from a graph and a vocabulary, or by a package."""

    #: Changes with whatever changes a vector: two equal names give equal vectors.
    name: str
    dimensions: int
    #: So much of a text is read at once: word pieces, or characters where a package runs it.
    window: int
    overlap: int
    graph: ModelFile | None = None
    vocabulary: ModelFile | None = None
    package: Package | None = None
    pooling: Pooling = "none"
    #: What stands before a text of each role.
    query_prefix: str = ""
    document_prefix: str = ""
    #: What nearness means under this model; None: nobody has measured it.
    calibration: Calibration | None = None
    #: What it cannot do, for who asks.
    limits: str = ""
    #: How its files are had; `{directory}` stands for where they belong.
    hint: str = ""

    def prefixed(self, text: str, role: Role) -> str:
        """The text as the model wants it in this role."""
        return (self.query_prefix if role == "query" else self.document_prefix) + text


#: Pieces that every vocabulary of word pieces has.
_MARKS = frozenset(("[CLS]", "[SEP]", "[UNK]"))
#: Entries that change no vector.
_BESIDES = frozenset(("calibration", "limits", "hint", "sources"))


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of a graph, read and verified."""

    #: The ONNX file.
    graph: bytes
    #: Word pieces in the order of their numbers.
    vocabulary: tuple[str, ...]


@cache
def packaged(file: str = BESIDE) -> Description:
    """A description that came with the package; the built-in model's where no other is named."""
    try:
        return _parsed(json.loads((PACKAGED / file).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackendUnavailableError(
            f"The package is incomplete: embed/model/{file} cannot be read.",
            reason="weights_missing",
            hint=_REINSTALL,
        ) from error


def described(directory: Path | None) -> Description:
    """The description of the model in a directory that describes itself; otherwise of the built-in model."""
    if directory is None or not (directory / BESIDE).is_file():
        return packaged()
    try:
        entries = json.loads((directory / BESIDE).read_bytes())
        found = _parsed(entries, may_import=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackendUnavailableError(
            f"{directory / BESIDE} does not describe a model.",
            reason="weights_mismatch",
            hint="docs/howto/change-the-embedder.md shows what it holds.",
        ) from error
    # Whatever its author forgets to rename: vectors that were made in another way are never compared.
    made_by = {key: value for key, value in entries.items() if key not in _BESIDES}
    digest = sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:8]
    return replace(found, name=f"{found.name}/{digest}")


def load_weights(directory: Path | None = None, description: Description | None = None) -> Weights:
    """Read and verify a graph's files. Raises BackendUnavailableError when they are missing or wrong.

    `directory` holds them instead of the package; nowhere else is looked then.
    """
    found = description or packaged()
    assert found.graph is not None
    assert found.vocabulary is not None
    place = directory or PACKAGED
    files = f"Put {found.graph.name} and {found.vocabulary.name} there"
    hint = found.hint.replace("{directory}", str(place)) or f"{files}, as {BESIDE} describes them."
    if directory is not None and found == packaged():
        hint = f"{files}, or leave the directory out to use the packaged model."
    graph, vocabulary = (_verified(place / file.name, file, hint) for file in (found.graph, found.vocabulary))
    pieces = tuple(vocabulary.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").split("\n"))
    if not _MARKS.issubset(pieces):
        raise BackendUnavailableError(
            f"{place / found.vocabulary.name} is no vocabulary of word pieces: it lacks {', '.join(sorted(_MARKS))}.",
            reason="weights_mismatch",
            hint="Only models that read BERT's word pieces, one on each line, can be run.",
        )
    return Weights(graph, pieces)


def verify_package(package: Package, hint: str) -> None:
    """See that the package is the one that was described. Raises BackendUnavailableError when it is not."""
    try:
        installed = version(package.name)
        spec = find_spec(package.module)
    except (PackageNotFoundError, ImportError):
        installed, spec = None, None
    if spec is None or not spec.submodule_search_locations:
        raise BackendUnavailableError(
            f"The embedding model's package is not installed: {package.name}.",
            reason="weights_missing",
            hint=hint,
        )
    if installed != package.version:
        raise BackendUnavailableError(
            f"{package.name} {installed} is installed, and the model is described as of {package.version}.",
            reason="weights_mismatch",
            hint=hint,
        )
    for file in package.files:
        _verified(Path(spec.submodule_search_locations[0]) / file.name, file, hint)


def _parsed(entries: Any, *, may_import: bool = True) -> Description:
    """A description from its JSON. Raises KeyError, TypeError or ValueError where it is none."""
    given: dict[str, Any] = dict(entries)
    given.pop("sources", None)
    for part in ("graph", "vocabulary"):
        if part in given:
            given[part] = ModelFile(**given[part])
    if "package" in given:
        package: dict[str, Any] = dict(given["package"])
        package["files"] = tuple(ModelFile(**one) for one in package["files"])
        given["package"] = Package(**package)
    found = Description(**given)
    if (found.package is None) != (found.graph is not None and found.vocabulary is not None):
        raise ValueError("either a graph with its vocabulary, or a package")
    if found.package is not None and not may_import:
        raise ValueError("no package")
    if found.pooling not in get_args(Pooling) or not 0 <= found.overlap < found.window - 2:
        raise ValueError("pooling, window or overlap")
    return found


def _verified(path: Path, file: ModelFile, hint: str) -> bytes:
    """The file's content; what was hashed is what is used."""
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
