"""Progress on the error stream, for people only; nothing is drawn, or even imported, when nobody watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Left(Exception):
    """Whoever wanted the work is gone, such as by Ctrl-C; a thread that is still at it stops here."""


class Bar:
    """One line that fills. Call it with what is done and, where known, of how much."""

    def __init__(self, what: str, *, is_shown: bool, unit: str = "") -> None:
        self._what, self._unit = what, unit
        self._is_shown, self._is_left = is_shown, False
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_left = True
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, done: float, total: float | None = None) -> None:
        if self._is_left:
            raise Left
        if not self._is_shown:
            return
        progress, task = self._drawn()
        progress.update(task, completed=done, total=total)

    def rename(self, what: str) -> None:
        self._what = what
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=what)

    def _drawn(self) -> tuple[Progress, TaskID]:
        if self._progress is None or self._task is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            from quipu.cli.output import notes

            counted = [MofNCompleteColumn(), TextColumn(self._unit)] if self._unit else []
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                *counted,
                TimeRemainingColumn(),
                console=notes(),
                transient=True,
            )
            self._task = self._progress.add_task(self._what, total=None)
            self._progress.start()
        return self._progress, self._task


class BuildBar(Bar):
    """What the embedder tells while it is being built: what it does, and how far it is from 0 to 1."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__("preparing the model", is_shown=is_shown)

    def __call__(self, what: str | float, share: float | None = None) -> None:
        self.rename(str(what))
        super().__call__(share or 0.0, 1.0)
