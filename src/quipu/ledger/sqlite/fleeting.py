"""Folders for what is kept in memory only, as a user sees it: files that are gone when nobody has them any more.

1. A folder goes when its owner does, or the process that made it, also where nobody closes anything.
2. Who is killed takes nothing away, so the next process that makes such a folder does it for them. Whoever lives holds
   a lock in theirs, which the system gives back when they die, however they do: one that can be had is nobody's.
3. A folder that was made a moment ago may not be locked yet, and one of somebody else is theirs to judge. Both stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # where there are no such locks nothing can be told about others
    fcntl = None

_PREFIX: Final = "quipu-fleeting-"
_LOCK: Final = "in-use"
_YOUNG_S: Final = 60

_has_looked = False


def folder(owner: object) -> Path:
    """A new one, for the owner alone."""
    global _has_looked
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    weakref.finalize(owner, _remove, made, _locked(made / _LOCK), os.getpid())
    if not _has_looked:
        _has_looked = True
        clear_abandoned(made)
    return made


def _remove(made: Path, held: int | None, process: int) -> None:
    if os.getpid() != process:  # a forked child has the same owner, and the folder is its parent's
        return
    shutil.rmtree(made, ignore_errors=True)
    if held is not None:
        with contextlib.suppress(OSError):
            os.close(held)


def _locked(path: Path) -> int | None:
    """The lock of a folder, held as long as it is open; None where somebody has it, or there is none."""
    if fcntl is None:
        return None
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def clear_abandoned(made: Path) -> None:
    """Take away the folders beside a new one that belong to processes which were killed."""
    with contextlib.suppress(OSError):  # a place that may not be listed is nothing to fail over
        now = made.stat().st_mtime
        for left in made.parent.glob(f"{_PREFIX}*"):
            if _is_old_and_ours(left, now) and (lock := _locked(left / _LOCK)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _is_old_and_ours(left: Path, now: float) -> bool:
    try:
        found = left.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(found.st_mode) and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())
    return is_ours and now - found.st_mtime > _YOUNG_S
