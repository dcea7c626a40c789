"""Files that are expensive to make and can be made again: kept once, checked at every start.

- A file's name ends in the hash of its content, so a truncated or altered file is seen and made again.
- It is written beside its place and renamed into it: two processes that make it at once do no harm.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from quipu.errors import BackendUnavailableError

#: Told while something is made for the first time: what is being done, and the share that is done.
Progress = Callable[[str, float], None]

_DIGEST_CHARACTERS = 32


def silent(stage: str, share: float) -> None:
    """Progress nobody watches."""


def kept(directory: Path, stem: str, suffix: str, make: Callable[[], bytes]) -> bytes:
    """The intact file of that stem, or else what `make` returns, kept for the next start."""
    for path in sorted(directory.glob(f"{stem}-*{suffix}")):
        payload = _read(path)
        if payload is not None and _digest(payload) == path.name.removesuffix(suffix)[-_DIGEST_CHARACTERS:]:
            return payload
    payload = make()
    path = directory / f"{stem}-{_digest(payload)}{suffix}"
    write_atomically(path, payload)
    _remove_others(path, stem, suffix)
    return payload


def write_atomically(path: Path, payload: bytes) -> None:
    """Put a whole file in place, or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with open(handle, "wb") as file:
                file.write(payload)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BackendUnavailableError(
            "The embedder's cache directory cannot be written.",
            reason="cache_unusable",
            hint=f"Make {path.parent} writable and leave room for 120 MB, or set another cache directory.",
        ) from error


def _digest(payload: bytes) -> str:
    return sha256(payload).hexdigest()[:_DIGEST_CHARACTERS]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:  # another process replaced it, or it cannot be read: then it is made again
        return None


def _remove_others(path: Path, stem: str, suffix: str) -> None:
    for other in path.parent.glob(f"{stem}-*{suffix}"):
        if other != path:
            with suppress(OSError):  # a file that is open elsewhere stays; it is only a few megabytes
                other.unlink()
