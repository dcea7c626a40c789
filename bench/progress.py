"""Progress on the terminal: one bar per part, with a word on what is being done."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """A bar over the parts of a run; `note` says what is being done, `done` moves on."""

    def __init__(self, parts: int, console: Console | None = None) -> None:
        columns = (
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, TextColumn("{task.description}"), console=console or Console(stderr=True)
        )
        self._task = self._progress.add_task("starting", total=parts)

    def note(self, doing: str) -> None:
        """Says what is being done."""
        self._progress.update(self._task, description=doing)

    def done(self) -> None:
        """One part is finished."""
        self._progress.advance(self._task)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
