"""Which file is open: SQLite writes to the one that it has opened, whatever has become of its place since.

SQLite keeps one account of the locks on a file for the whole process. A forked child has its parent's account and none of
its locks: closing the file there, it would believe to be alone and take away the log that others go on writing to. So a
file that was open when this process was forked is not opened here.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from quipu.errors import BackendUnavailableError

#: The device and the number of a file on it.
Identity: TypeAlias = tuple[int, int]

#: What the parents of this process had open when they forked.
_inherited: Final[set[Identity]] = set()


def identity(path: Path | str) -> Identity | None:
    """Of what is at the path; None where nothing is. Only looked at: opening it here would drop SQLite's locks."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_not_inherited(path: Path) -> None:
    """Refuse a file that was open when this process was forked."""
    if _inherited and identity(path) in _inherited:
        raise BackendUnavailableError(
            "The file was open when this process was forked, and cannot be opened again here.",
            reason="forked",
            hint="Open it after the fork, or close it before; with multiprocessing, start processes by 'spawn'.",
        )


def check_process(opened_in: int) -> None:
    """A forked child must not touch what its parent has opened."""
    if os.getpid() != opened_in:
        raise BackendUnavailableError(
            "The memory was opened before this process was forked.",
            reason="forked",
            hint="Open it in the process that uses it.",
        )


def _note_inherited() -> None:
    for connection in apsw.connections():
        with suppress(apsw.Error):
            found = identity(connection.filename)
            if found is not None:
                _inherited.add(found)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_inherited)
