"""Which snapshot a reader means by `as_of`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from quipu.errors import InvalidError, NotFoundError
from quipu.model.journal import Head

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ACCEPTED = (
    "a journal position such as 42",
    "a moment with its zone such as 2026-05-08T13:56:00Z",
    "a run id",
)
_MOMENTS = ("a moment with its zone such as 2026-05-08T13:56:00Z", "milliseconds since the Unix epoch")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the journal."""

    seq: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in milliseconds."""

    at: int


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run saw when it began."""

    run_id: str


AsOf: TypeAlias = Position | Moment | RunStart


def as_of(text: str, pointer: str = "/as_of") -> AsOf:
    """What the text names."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return Position(int(text))
    if text.startswith("run_"):
        return RunStart(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise unnamed(pointer)
    return Moment((moment - _EPOCH) // timedelta(milliseconds=1))


def unnamed(pointer: str) -> InvalidError:
    """What was given leads to no snapshot."""
    said = f"{pointer.rpartition('/')[2]} names no snapshot."
    return InvalidError.at(pointer, "bad_value", said, accepted=_ACCEPTED)


def moment(text: str, pointer: str) -> int:
    """A time given as ISO 8601 with its zone, or in milliseconds since the Unix epoch."""
    named = as_of(text, pointer) if text.strip() else None
    match named:
        case Position(at) | Moment(at):
            return at
        case _:
            raise InvalidError.at(pointer, "bad_value", "This is no moment.", accepted=_MOMENTS)


def checked_position(seq: int, head: Head, pointer: str = "/as_of") -> int:
    """A position that can be read: neither ahead of the journal nor behind its horizon."""
    if seq > head.seq:
        raise InvalidError.at(
            pointer,
            "bad_value",
            f"Position {seq} lies in the future.",
            accepted=[f"{head.horizon} … {head.seq}"],
        )
    if seq < head.horizon:
        raise NotFoundError(
            "That snapshot is gone: retention has emptied versions that were current then.",
            reason="snapshot_unavailable",
        )
    return seq


def future(pointer: str = "/as_of") -> InvalidError:
    """A moment that has not come yet cannot be read as of."""
    return InvalidError.at(pointer, "bad_value", "That moment lies in the future.", accepted=_ACCEPTED)
