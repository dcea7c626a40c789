"""What changed between two versions, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from quipu.faces.web import wording
from quipu.model.governance import Piece
from quipu.model.record import Record
from quipu.rules.diffs import words

__all__ = ["Difference", "FieldChange", "Piece", "between", "words"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field beside the text that is not what it was."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that is different. `pieces` is None where the texts are too long to compare."""

    pieces: tuple[Piece, ...] | None
    fields: tuple[FieldChange, ...]

    @property
    def is_text_same(self) -> bool:
        return self.pieces is not None and all(piece.kind == "same" for piece in self.pieces)


def between(before: Record, after: Record) -> Difference:
    """From one version to the next."""
    return Difference(words(before.content, after.content), tuple(_fields(before, after)))


def _fields(before: Record, after: Record) -> Iterator[FieldChange]:
    names = (
        "type",
        "user_id",
        "session_id",
        "state",
        "confidence",
        "importance",
        "source",
        "tags",
        "expires_at",
    )
    for name in names:
        yield from _field(name, getattr(before, name), getattr(after, name))
    yield from _field("subject", before.provenance.subject, after.provenance.subject)
    for group in ("metadata", "details"):
        one, other = getattr(before, group), getattr(after, group)
        for name in sorted({*one, *other}):
            yield from _field(f"{group}.{name}", one.get(name), other.get(name))


def _field(name: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before != after:
        yield FieldChange(name, _said(name, before), _said(name, after))


def _said(name: str, value: Any) -> str:
    if value is None or value == ():
        return "nothing"
    if name.endswith("_at"):
        return f"{wording.when(value)} UTC"
    if name == "tags":
        return ", ".join(cast("tuple[str, ...]", value))
    return wording.brief(value if isinstance(value, str) else wording.as_json(value), 120)
