"""The published schemas, as a check of what the command prints."""

from __future__ import annotations

from tests.faces.memorywire.shapes import problems


def valid(name: str, body: object) -> None:
    """The document is what the published schema says."""
    assert problems(name, body) == []
