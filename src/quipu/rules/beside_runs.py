"""What the journal says of runs, and whether their logs are so.

1. Each run was opened by an entry, and none is gone.
2. The events of a run are numbered from 0 without a gap, and are those that entries of the run name, in that order.
   Besides, a run opens with its first, a replay with all that were recorded, and each write that names a run leaves one.
3. A run is over when its last event says so, and as that says.
4. The log of a run is gone because an entry says so.

What an event holds besides its name is told by no entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

from quipu.model.journal import Entry, Op
from quipu.model.outcomes import Fault
from quipu.model.runs import Driver, EventType, Run, RunEvent
from quipu.rules.runs_states import TERMINAL

#: What a write leaves in the log of the run it was made in.
_OF_WRITES = frozenset({EventType.MEMORY_WRITTEN.value})


@dataclass(slots=True)
class ToldRun:
    """One run, by the journal."""

    opened: int
    #: Position → the events that the entry there names.
    steps: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    is_expired: bool = False


@dataclass(slots=True)
class ToldRuns:
    """All of them, met in the order of their entries."""

    known: dict[str, ToldRun] = field(default_factory=dict[str, ToldRun])

    def note(self, entry: Entry, run_id: str) -> None:
        if entry.op is Op.OPEN_RUN:
            self.known[run_id] = ToldRun(entry.seq)
        run = self.known.get(run_id)
        if run is None:  # a caller may name any run
            return
        if entry.op is Op.EXPIRE_RUN:
            run.is_expired = True
            run.steps.clear()
            return
        named = entry.detail.get("events")
        if entry.op in (Op.OPEN_RUN, Op.STEP_RUN) and isinstance(named, list | tuple) and named:
            run.steps[entry.seq] = tuple(map(str, cast("list[object]", named)))


def lost_faults(told: ToldRuns, there: Iterable[str]) -> Iterator[Fault]:
    """Runs that the journal tells of and that are not there."""
    for name in told.known.keys() - set(there):
        yield _differs(told.known[name].opened, f"run {name} is gone")


def fault(told: ToldRuns, run: Run, events: Sequence[RunEvent]) -> Fault | None:
    """What is wrong with a run that is there, if anything is."""
    was = told.known.get(run.id)
    if was is None:
        return _differs(None, f"run {run.id} stands in no entry")
    if run.is_expired or was.is_expired:
        is_so = run.is_expired and was.is_expired and not events
        return None if is_so else _differs(was.opened, f"the log of run {run.id} is said to be gone, or back")
    if [event.sequence for event in events] != list(range(run.last + 1)):
        return _differs(was.opened, f"the log of run {run.id} has a gap, or another end")
    if (TERMINAL.get(run.status) is not None or _ends(events)) and TERMINAL.get(run.status) != _last(events):
        return _differs(was.opened, f"run {run.id} is said to have ended otherwise than by its log")
    return _step_fault(was, run, events)


def _step_fault(was: ToldRun, run: Run, events: Sequence[RunEvent]) -> Fault | None:
    left = set(was.steps)
    for position, together in groupby(events, key=lambda event: event.position):
        types = tuple(event.type.value for event in together)
        left.discard(position)
        if position == was.opened:
            named = (EventType.RUN_STARTED.value, *was.steps.get(position, ()))
            is_so = types == named or run.driver is Driver.REPLAY
        else:
            is_so = types == was.steps[position] if position in was.steps else set(types) <= _OF_WRITES
        if not is_so:
            return _differs(position, f"the log of run {run.id} is not what entries tell of it")
    if left:
        return _differs(min(left), f"the log of run {run.id} lacks what an entry tells of it")
    return None


def _last(events: Sequence[RunEvent]) -> EventType | None:
    return events[-1].type if events else None


def _ends(events: Sequence[RunEvent]) -> bool:
    return _last(events) in TERMINAL.values()


def _differs(seq: int | None, detail: str) -> Fault:
    return Fault(kind="beside_differs", seq=seq, detail=detail)
