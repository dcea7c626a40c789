"""Progress on standard error, for people only; nothing is drawn, or even loaded, when nobody watches."""

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """One line that fills. Call it with what is done and, where known, of how much."""

    def __init__(self, label: str, *, is_shown: bool) -> None:
        self._label, self._is_shown = label, is_shown
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, done: float, total: float | None = None) -> None:
        if not self._is_shown:
            return
        progress, task = self._drawn()
        progress.update(task, completed=done, total=total)

    def _drawn(self) -> "tuple[Progress, TaskID]":
        if self._progress is None or self._task is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            from quipu.cli.output import console

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console(is_error=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._label, total=None)
            self._progress.start()
        return self._progress, self._task
