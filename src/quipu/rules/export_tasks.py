"""How work for somebody outside stands, by the lines that were written about it (OAP contract 5.1, 10.2, 10.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quipu.model.grants import TaskState, TaskStep
from quipu.rules.grants_requests import TASK
from quipu.rules.grants_times import DAY_MS, rfc3339

#: Whoever works at a task says so this often; one that nobody has spoken of for so long is over.
BEAT_S, LOST_MS = 15.0, 90_000
#: A file waits so long to be fetched (F13), and how a task ended is told for so long.
LIFE_MS, TOLD_MS = 15 * 60_000, DAY_MS
#: Files that are made or wait at a time: of one owner, and in all.
MOST_OF_ONE, MOST = 8, 32
#: What is told of a file that is there.
_TOLD = ("export_id", "file_name", "media_type", "size", "sha256", "items")
_GUESS_MS = 60_000


def is_waiting(last: TaskStep) -> bool:
    """Whether the file is there to be fetched."""
    return last.state is TaskState.COMPLETED and "secret" in last.detail


def overdue(last: TaskStep, now: int) -> TaskStep | None:
    """The line that ends a task which nobody works at any more; None while somebody does, or it has ended."""
    is_waited_for = is_waiting(last)
    if not is_waited_for and last.state not in (TaskState.SUBMITTED, TaskState.ACCEPTED, TaskState.WORKING):
        return None
    is_late = is_waited_for and now >= int(str(last.detail["until"]))
    if not is_late and now - last.at < LOST_MS:
        return None
    reason = "server_lost"
    if is_late:
        reason = "not_fetched"
    return replace(
        last,
        number=last.number + 1,
        state=TaskState.EXPIRED if is_waited_for else TaskState.FAILED,
        at=now,
        detail={"reason": reason},
    )


def told(steps: Sequence[TaskStep], root: str) -> dict[str, Any]:
    """A task as who waits for it sees it."""
    last, task = steps[-1], TASK + steps[0].task_id
    poll = f"{root}/oap/tasks/{task}"
    # A line that only repeats the one before is a sign of life, and no news.
    changes = [step for before, step in zip([None, *steps], steps, strict=False) if _differs(before, step)]
    is_over = last.state not in (TaskState.SUBMITTED, TaskState.ACCEPTED, TaskState.WORKING)
    said: dict[str, Any] = {
        "task_id": task,
        "status": last.state.value,
        "poll_url": poll,
        "callback_url_supported": False,
        "estimated_completion": rfc3339(changes[-1].at if is_over else last.at + _GUESS_MS),
        "history": [{"status": step.state.value, "at": rfc3339(step.at)} for step in changes],
    }
    if is_waiting(last):
        said["download_url"] = f"{poll}/file/{last.detail['secret']}"
        said["download_expires_at"] = rfc3339(int(str(last.detail["until"])))
        said |= {name: last.detail[name] for name in _TOLD}
    said |= {name: last.detail[name] for name in ("reason", "report") if name in last.detail}
    return said


def _differs(before: TaskStep | None, step: TaskStep) -> bool:
    return before is None or before.state is not step.state
