"""A procedure as people look at it: its states, the one it is in, and the ways between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from quipu.model.record import MemoryType, Record

#: More than this is a table nobody looks at; the text says it all.
_MOST = 60


@dataclass(frozen=True, slots=True)
class Step:
    """One way from a state to another."""

    trigger: str
    source: str
    dest: str
    guard: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A procedure."""

    name: str
    states: tuple[str, ...]
    current: str
    steps: tuple[Step, ...]


def machine(record: Record) -> Machine | None:
    """The machine of a procedure; None for any other memory, and for one that cannot be drawn."""
    if record.type is not MemoryType.PROCEDURAL or record.is_emptied:
        return None
    try:
        found: Any = json.loads(record.content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    body = cast("Mapping[str, Any]", found)
    states, ways = body.get("states"), body.get("transitions")
    if not _is_list(states) or not _is_list(ways) or len(states) > _MOST or len(ways) > _MOST:
        return None
    steps = tuple(_step(cast("Mapping[str, Any]", way)) for way in ways if isinstance(way, dict))
    current = body.get("current") or body.get("initial") or ""
    return Machine(str(body.get("name") or ""), tuple(map(str, states)), str(current), steps)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _step(way: Mapping[str, Any]) -> Step:
    guards = [_guard(way.get("conditions")), _guard(way.get("unless"), "not ")]
    return Step(
        trigger=str(way.get("trigger", "")),
        source="any state" if way.get("source") == "*" else str(way.get("source", "")),
        dest=str(way.get("dest", "")),
        guard=" and ".join(filter(None, guards)),
    )


def _guard(names: Any, word: str = "") -> str:
    listed: Sequence[Any] = names if _is_list(names) else [names] if names else []
    return " and ".join(f"{word}{name}" for name in listed)
