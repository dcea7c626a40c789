"""Named statements from a `.sql` file: a line `-- name --`, a comment that says what, the statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

_NAME = re.compile(r"^-- ([a-z_]+) --$", re.MULTILINE)


@cache
def queries(package: str, file: str = "queries.sql") -> Mapping[str, LiteralString]:
    """All statements of a file by name. The files ship with the package, so they are literals by construction."""
    text = files(package).joinpath(file).read_text("utf-8")
    parts = _NAME.split(text)[1:]
    statements = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return cast("Mapping[str, LiteralString]", statements)
