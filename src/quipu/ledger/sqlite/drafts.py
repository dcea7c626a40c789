"""A copy is written beside its place and put there once it is whole, so that nobody ever finds half of one.

Each has a draft of its own: of two who write a copy to the same place at once, one is kept and the other refused.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from pathlib import Path

from quipu.errors import InvalidError


def begun(target: Path) -> Path:
    """An empty file, for its owner alone, to write the copy to."""
    descriptor, draft = tempfile.mkstemp(".draft", f"{target.name}.", target.parent)
    os.close(descriptor)
    return Path(draft)


def check_free(target: Path) -> None:
    """Raise where something stands already."""
    if target.exists():
        raise InvalidError.at(
            "/target", "bad_value", f"{target} exists already.", hint="Choose a name that is free."
        )


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


def clear_abandoned(target: Path) -> None:
    """What somebody was killed over while writing a copy to this place. For who knows that nobody is at it now."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.*.draft*"):
        left.unlink(missing_ok=True)
