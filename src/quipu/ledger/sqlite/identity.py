"""Which file is open: SQLite writes to the one that it has opened, whatever has become of its place since.

1. A file that was deleted, moved or replaced while it is open still takes writes, and nobody ever finds them again. So
   before something is written it is looked at whether the file is still the one at its place.
2. SQLite keeps one account of the locks on a file for the whole process. A forked child has its parent's account and
   none of its locks: who closes the file then believes to be alone, and takes away the log that the child goes on
   writing to. So a file that was open when this process was forked is not opened here.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, TypeAlias

import apsw

from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

#: The device and the number of a file on it.
Identity: TypeAlias = tuple[int, int]

#: What the parents of this process had open when they forked.
_inherited: Final[set[Identity]] = set()


def identity(path: Path | str) -> Identity | None:
    """Of what is at the path; None where nothing is."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def is_elsewhere(path: str, opened: Identity | None) -> bool:
    """Whether the file that was opened is no longer the one at its path. Where that cannot be told, it is."""
    try:
        return identity(path) != opened
    except OSError:
        return False


def check_own(path: Path) -> None:
    """Refuse a file that was open when this process was forked."""
    if not _inherited:
        return
    with contextlib.suppress(OSError, ValueError):  # what cannot be looked at is refused by who opens it
        if identity(path) in _inherited:
            raise BackendUnavailableError(
                "The file was open when this process was forked, and cannot be opened again here.",
                reason="forked",
                hint=(
                    "Open it after the fork, or close it before. With multiprocessing, start processes by "
                    "'spawn'; with a server that loads before it forks, open the memory in its workers."
                ),
            )


def _note_inherited() -> None:
    for connection in apsw.connections():
        with contextlib.suppress(OSError, apsw.Error):
            if (found := identity(connection.filename)) is not None:
                _inherited.add(found)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_inherited)
