"""JSON text at memorywire's door: the loader of every face, under the name this one knows it by."""

from __future__ import annotations

from quipu.faces.http.json_text import (
    DEPTH,
    INTEGER_MAX,
    INTEGER_MIN,
    LONGEST_NAME,
    Path,
    loads,
    pointer,
)

__all__ = ["DEPTH", "INTEGER_MAX", "INTEGER_MIN", "LONGEST_NAME", "Path", "loads", "pointer"]
