"""Which events a stream tells, by its mode."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.errors import InvalidError
from quipu.model.runs import EventType, RunEvent

MODES = ("values", "updates", "messages", "debug")
MOST_BUFFER_MS = 5_000

_ENDS = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED})
_ALL = frozenset(EventType)
#: `values` tells when results change, `messages` what is said; neither tells of memory.
_TOLD = {
    "values": frozenset({EventType.RUN_STARTED, EventType.VARIABLE_CHANGED}) | _ENDS,
    "updates": _ALL,
    "messages": frozenset({EventType.RUN_STARTED}) | _ENDS,
    "debug": _ALL,
}


def told_types(given: str | None) -> frozenset[EventType]:
    """The events of a mode, or of several with commas between them; `values` stands alone."""
    names = [name.strip() for name in (given or "updates").split(",")]
    if any(name not in MODES for name in names) or ("values" in names and len(set(names)) > 1):
        raise InvalidError.at("/streamMode", "stream_mode", "There is no such stream mode.", accepted=MODES)
    return frozenset[EventType]().union(*(_TOLD[name] for name in names))


def told(events: Sequence[RunEvent], types: frozenset[EventType]) -> list[RunEvent]:
    """What of them is told."""
    return [event for event in events if event.type in types]
