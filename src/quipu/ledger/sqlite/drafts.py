"""A copy is written beside its place and put there once it is whole, so that nobody ever finds half of one.

Each has a draft of its own: of two who write a copy to the same place at once, one is kept and the other refused.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import tempfile
from pathlib import Path
from typing import Final

import apsw

from quipu.errors import BackendUnavailableError, InvalidError

#: What stands between the name of a copy and the end of its draft's: signs that Python has drawn.
_MARK: Final = "[a-z0-9_]" * 8
#: A copy is written without a pause, and each piece of it leaves its time.
_LONG_S: Final = 3600


def begun(target: Path) -> Path:
    """An empty file, for its owner alone, to write the copy to. What somebody was killed over long ago is gone then."""
    descriptor, name = tempfile.mkstemp(".draft", f"{target.name}.", target.parent)
    os.close(descriptor)
    draft = Path(name)
    with contextlib.suppress(OSError):
        # Its time is that of the disk, whatever this machine's clock says.
        for left in _abandoned(target, draft.stat().st_mtime):
            cleared(left)
    return draft


def check_free(target: Path) -> None:
    """Raise where something stands already."""
    if target.exists():
        raise InvalidError.at(
            "/target", "bad_value", f"{target} exists already.", hint="Choose a name that is free."
        )


def refusal(said: str, target: Path, error: Exception) -> BackendUnavailableError:
    """A copy that could not be written, and what is in its way."""
    hint = "Check space and permissions."
    if not target.parent.is_dir():
        hint = f"There is no folder {target.parent}: make it, or choose another place."
    elif isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        hint = "The disk is full: free some space, or choose another one."
    elif isinstance(error, PermissionError):
        hint = f"Make the folder {target.parent} writable, or choose another place."
    return BackendUnavailableError(f"{said} {target}.", reason="backup", hint=hint)


def put(draft: Path, target: Path, *, replaces: bool = False) -> None:
    """The draft is whole: it takes its place, which was free, or `replaces` what stands there."""
    if replaces:
        draft.replace(target)
    else:
        try:
            os.link(draft, target)
        except OSError:
            check_free(target)
            draft.replace(target)  # sticks and shares know no second name for a file
    with contextlib.suppress(OSError):  # nor does everything let a folder be synced
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def cleared(draft: Path) -> None:
    """What is left of a draft, put in place or not."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _abandoned(target: Path, now: float) -> list[Path]:
    """Drafts for this place that nobody has written to for so long that nobody is at it any more."""
    found: list[Path] = []
    for draft in target.parent.glob(f"{glob.escape(target.name)}.{_MARK}.draft"):
        with contextlib.suppress(OSError):  # one that is being put in place goes while it is looked at
            parts = [one.stat().st_mtime for one in target.parent.glob(f"{glob.escape(draft.name)}*")]
            if parts and now - max(parts) > _LONG_S:
                found.append(draft)
    return found


def clear_abandoned(target: Path) -> None:
    """What somebody was killed over while writing a copy to this place. For who knows that nobody is at it now."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.*.draft*"):
        left.unlink(missing_ok=True)
