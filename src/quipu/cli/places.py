"""Where the memory of this machine is: its file, what may have been meant by a wrong path, and a server's token."""

from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from quipu.errors import InvalidError, NotFoundError

#: No token is longer; a file that is was named by mistake.
_LONGEST_TOKEN = 16_384
_MAGIC = b"SQLite format 3\x00"
#: So many files of a folder are looked through for one that may have been meant.
_MOST_FILES = 1000


def usual_file() -> Path:
    """Where memory is kept when nobody says where."""
    from quipu.config import data_dir

    return data_dir() / "memory.db"


def ledger_file(address: str) -> Path | None:
    """The file that a store address names; None for a database. What is in memory only is refused."""
    from quipu.bootstrap import is_memory, sqlite_path

    if is_memory(address):
        raise InvalidError(
            "This memory is in memory only: it is gone when the command ends.",
            reason="in_memory",
            hint="Name a file, such as --store-url sqlite:///home/me/memory.db, or leave --store-url out.",
        )
    try:
        return sqlite_path(address)
    except RuntimeError:
        raise InvalidError(
            "A path begins with ~ and leads nowhere: nobody on this machine has that name.",
            reason="bad_value",
            hint="Write the whole path, from / on.",
        ) from None


def no_memory(path: Path, *, is_named: bool) -> NotFoundError:
    """The refusal of a command that works on what is there; it names what may have been meant."""
    creates = "`quipu remember` creates a memory there."
    if not is_named:
        hint = "`quipu remember` creates it; `quipu config` says where it is looked for."
        return NotFoundError(f"There is no memory at {path} yet.", reason="no_memory_here", hint=hint)
    hint = f"Check the path. {creates}"
    if not path.parent.is_dir():
        hint = f"Check the path: there is no folder {path.parent} either. {creates}"
    elif near := _near_files(path):
        hint = f"Did you mean {' or '.join(map(str, near))}? If not: {creates}"
    return NotFoundError(f"There is no memory at {path}.", reason="no_memory_here", hint=hint)


def _near_files(path: Path) -> list[Path]:
    """Databases of the same folder whose names are a slip of the finger away."""
    try:
        known = {one.stem: one for one in islice(path.parent.iterdir(), _MOST_FILES) if _is_database(one)}
        return [known[stem] for stem in get_close_matches(path.stem, known, n=3, cutoff=0.7)]
    except OSError:  # a folder that may be passed through, but not listed
        return []


def _is_database(path: Path) -> bool:
    if not path.is_file():  # a pipe would be waited for
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def token_in(name: str) -> str:
    """The token in a file, without the line's end."""
    try:
        file = Path(name).expanduser()
        with file.open(encoding="ascii") as lines:
            found = lines.read(_LONGEST_TOKEN).strip()
    except (OSError, UnicodeError, RuntimeError) as error:
        raise InvalidError(
            "The token file cannot be read.", reason="no_file", hint=f"Check --token-file {name}."
        ) from error
    if not found:
        raise InvalidError(
            "The token file is empty.", reason="no_file", hint="Put the token on one line into it."
        )
    return found
