"""Which way a run may go, and how its log is made.

1. A run that is over stays as it is.
2. One that is being cancelled can no longer complete.
3. Events are numbered from 0 without a gap; the terminal one is the last.
"""

from __future__ import annotations

from collections.abc import Mapping

from quipu.errors import ConflictError, Fault, NotFoundError
from quipu.model.runs import Driver, EventType, Happening, Run, RunStatus, View
from quipu.model.value import JsonObject

#: The key under which `run.started` tells what the run sees.
VIEW_KEY = "vendor.quipu.memorySnapshot"

_NEXT: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset(RunStatus),
    RunStatus.RUNNING: frozenset(RunStatus) - {RunStatus.PENDING},
    RunStatus.CANCELLING: frozenset({RunStatus.CANCELLING, RunStatus.CANCELLED, RunStatus.FAILED}),
}
TERMINAL: Mapping[RunStatus, EventType] = {
    RunStatus.COMPLETED: EventType.RUN_COMPLETED,
    RunStatus.FAILED: EventType.RUN_FAILED,
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
}


def moved(status: RunStatus, to: RunStatus | None) -> RunStatus:
    """The status after a step; ConflictError where there is no such way."""
    if status.is_over:
        raise run_over(status)
    if to is None:
        return status
    if to not in _NEXT[status]:
        raise ConflictError(f"The run is {status.value}.", reason="run_cancelling")
    return to


def expiry_clock(run: Run, now: int) -> int:
    """When a run's reads judge what has expired: now; in a replay, when what it repeats was seen."""
    return run.view.at if run.driver is Driver.REPLAY and run.view is not None else now


def keeps_notes(run: Run, keeper: str, now: int) -> bool:
    """Whether a run still has what it noted: whoever holds it is alive. What nobody holds was let go of, not lost."""
    return run.worker in (None, keeper) or run.lease_until > now


def run_over(status: RunStatus) -> ConflictError:
    """Nothing more can happen in a run that has ended."""
    return ConflictError(
        f"The run is over: it is {status.value}.",
        reason="run_over",
        faults=[Fault("/runId", "run_over", (status.value,))],
    )


def no_run() -> NotFoundError:
    """Somebody else's run is the same as none."""
    return NotFoundError("There is no such run.", reason="run")


def started(view: View, stamp: str) -> Happening:
    """The first event: what the run sees of memory. `stamp` is the view's time as a date."""
    payload: JsonObject = {VIEW_KEY: {"seq": view.seq, "at": stamp}}
    return Happening(type=EventType.RUN_STARTED, payload=payload)
