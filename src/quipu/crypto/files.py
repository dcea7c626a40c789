"""Key files: written whole, once, for their owner alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from quipu.errors import BackendUnavailableError


def is_there(path: Path) -> bool:
    """Whether the file is there. Where this cannot be told, such as in a directory of somebody else, nothing is made."""
    try:
        return path.exists()
    except OSError as error:
        raise BackendUnavailableError(
            f"The key {path.name} cannot be read.",
            reason="bad_key",
            hint="Check that its directory exists, and that whoever runs this may enter it.",
        ) from error


def write_once(path: Path, content: bytes) -> None:
    """Make the file if it is not there. Of two processes that start at once the first one's stays."""
    try:
        descriptor, draft = tempfile.mkstemp(".draft", f"{path.name}.", path.parent)  # for its owner alone
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            pass  # somebody else was first: their key is the key
        finally:
            os.unlink(draft)
    except OSError as error:
        raise BackendUnavailableError(
            f"The key {path.name} cannot be written.",
            reason="bad_key",
            hint="Check that its directory exists and is writable, and that the disk has room.",
        ) from error
