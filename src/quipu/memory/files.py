"""Files that a memory writes beside itself: a disk that refuses is told in our words."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from quipu.errors import BackendUnavailableError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def writing(target: Path) -> Generator[None]:
    """Whatever is done in here with files is done for this one."""
    try:
        yield
    except OSError as error:
        raise _unwritable(target, error) from error


def draft_of(file: Path) -> Path:
    """Where a file is made before it stands in its place. Two who write one file at once have one each."""
    return file.with_name(f".{file.name}.{token_hex(4)}.draft")


def _unwritable(target: Path, error: OSError) -> BackendUnavailableError:
    message = f"{target} cannot be written: {error.strerror or type(error).__name__}."
    if error.errno in _FULL:
        return BackendUnavailableError(message, reason="disk_full", hint="Free some space and repeat it.")
    if error.errno in _CLOSED:
        return BackendUnavailableError(message, reason="read_only", hint="Choose a place that is writable.")
    return BackendUnavailableError(message, reason="cannot_open", hint="Check the path and its permissions.")
