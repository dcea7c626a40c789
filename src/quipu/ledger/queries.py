"""Named statements from a `.sql` file: a line `-- name --`, a comment that says what, the statement.

What several of them have in common stands once, below `-- + name --`; a line `-- + name` in a statement is in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

_NAME = re.compile(r"^-- (\+ )?([a-z_]+) --$", re.MULTILINE)
_PIECE = re.compile(r"^ *-- \+ ([a-z_]+)$", re.MULTILINE)


@cache
def queries(package: str, file: str = "queries.sql") -> Mapping[str, LiteralString]:
    """All statements of a file by name. The files ship with the package, so they are literals by construction."""
    text = files(package).joinpath(file).read_text("utf-8")
    parts = _NAME.split(text)[1:]
    named = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    pieces = {name: body.strip() for is_piece, name, body in named if is_piece}
    statements = {
        name: _PIECE.sub(lambda found: pieces[found[1]], body.strip())
        for is_piece, name, body in named
        if not is_piece
    }
    return cast("Mapping[str, LiteralString]", statements)
