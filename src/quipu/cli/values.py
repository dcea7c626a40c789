"""From words on the command line to values: JSON, moments, links, text from standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from quipu.errors import InvalidError


def content(given: str) -> str:
    """The text itself; `-` reads it from standard input."""
    if given != "-":
        return given
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise InvalidError.at(
            "/content", "bad_value", "Standard input is not UTF-8 text.", hint="Convert it to UTF-8."
        ) from None


def json_object(given: str | None, pointer: str) -> dict[str, Any] | None:
    """A JSON object, or nothing."""
    if given is None:
        return None
    from quipu.faces.memorywire.wire_json import loads

    try:
        value = loads(given)
    except InvalidError as error:
        reason = error.reason or "bad_json"
        raise InvalidError.at(
            pointer, reason, f"{pointer[1:]} is not a JSON object that can be read."
        ) from None
    if not isinstance(value, dict):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is not a JSON object.", accepted=["an object"]
        )
    return cast("dict[str, Any]", value)


def as_of(given: str | None) -> str | None:
    """A position, a run, or a moment; a moment without a zone is in the zone of this machine."""
    if given is None or (given.isascii() and given.isdigit()):
        return given
    moment = _moment(given)
    return given if moment is None else moment.isoformat()


def expires(given: str | None, now: int) -> int | None:
    """When a memory ends: milliseconds, a moment, or a duration from now such as 30d."""
    if given is None:
        return None
    if given.removeprefix("-").isascii() and given.removeprefix("-").isdigit():
        return int(given)
    moment = _moment(given)
    if moment is not None:
        return int(moment.timestamp() * 1000)
    accepted = ["30d", "12h", "2030-01-31", "2030-01-31T12:00:00Z", "milliseconds"]
    return now + length(given, "/expires_at", "This is not a moment.", accepted)


def is_length(given: str | None) -> bool:
    """Whether this is a duration, such as 30d, and no moment."""
    try:
        return given is not None and length(given, "/expires_at") > 0
    except InvalidError:
        return False


def length(
    given: str,
    pointer: str,
    message: str = "This is not a length of time.",
    accepted: Sequence[str] = ("15m", "12h", "30d"),
) -> int:
    """A duration in milliseconds."""
    from quipu.rules.durations import duration

    try:
        found = duration(given, pointer)
    except InvalidError as error:
        # Where the rule names what it accepts it names `session` and `forever`, and an option takes neither.
        raise InvalidError.at(pointer, "bad_value", message, accepted=accepted, hint=error.hint) from None
    if isinstance(found, str):
        raise InvalidError.at(pointer, "bad_value", message, accepted=accepted)
    return found


def _moment(given: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.astimezone()).astimezone(UTC)


def link(given: str) -> dict[str, str]:
    """`ID:RELATION`, such as mem_01J…:about."""
    to, colon, rel = given.rpartition(":")
    if not colon or not to or not rel:
        raise InvalidError.at(
            "/links", "bad_value", "A link is an id, a colon and a relation.", accepted=["mem_...:about"]
        )
    return {"to": to, "rel": rel}


def floor(given: str) -> float | str:
    """A relevance floor: its name, or a number."""
    try:
        return float(given)
    except ValueError:
        return given
