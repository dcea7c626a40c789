"""Where no memory is yet: what is said to those who make none."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from quipu.errors import InvalidError, NotFoundError
from quipu.rules.nearest import nearest

if TYPE_CHECKING:
    from pathlib import Path

#: How every SQLite file begins.
_MAGIC = b"SQLite format 3\x00"
#: So many files of a folder are looked through for one that may have been meant.
_MOST = 1000


def refusal(path: Path, *, is_named: bool = True) -> NotFoundError:
    """There is no memory here, and what to do; the usual place is no slip of the finger."""
    if is_named:
        return NotFoundError(f"There is no memory at {path}.", reason="no_memory_here", hint=advice(path))
    return NotFoundError(
        f"There is no memory at {path} yet.",
        reason="no_memory_here",
        hint="`quipu init` or `quipu remember` makes it; `quipu config` says where it is looked for.",
    )


def forgetful() -> InvalidError:
    """A memory in memory only ends with the command."""
    return InvalidError.at(
        "/stores",
        "in_memory",
        "This memory is in memory only: it is gone when the command ends.",
        hint="Name a file, such as --store-url sqlite:///home/me/memory.db, or leave --store-url out for the usual one.",
    )


def advice(path: Path) -> str:
    """What may have been meant, and how to make a memory."""
    makes = "`quipu init` or `quipu remember` makes a memory there."
    if not path.parent.is_dir():
        return f"Check the path: there is no folder {path.parent} either. {makes}"
    if near := [path.with_name(name) for name in _near(path)]:
        return f"Did you mean {' or '.join(str(one) for one in near)}? If not: {makes}"
    return f"Check the path. {makes}"


def _near(path: Path) -> list[str]:
    """Databases of the same folder whose names are a slip of the finger away."""
    try:
        names = [one.name for one in islice(path.parent.iterdir(), _MOST)]
    except OSError:  # a folder that may be passed through, but not listed
        return []
    return [name for name in nearest(path.name, names) if _is_database(path.with_name(name))][:3]


def _is_database(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
