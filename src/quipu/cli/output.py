"""How answers look: JSON for programs, tables and local times for people.

Memories hold text of anybody. Characters that would act on a terminal are shown as text, in every way out.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, cast

from quipu.cli import streams

if TYPE_CHECKING:  # rich takes longer to load than most commands to run
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

#: What would move the cursor, recolour or reorder a terminal's text. Line ends and tabs may stay.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Beyond a terminal nothing has to fit a screen.
_WIDE, _NO_TERMINAL = 160, 80
#: Text in a column narrower than this cannot be read.
_READABLE = 18
_MOMENTS = ("_at", "_time", "_from", "_until")
_LONGEST_CELL = 200


def clean(text: str) -> str:
    """The text without characters that would act on a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def write_json(body: Any, *, is_line: bool = False) -> None:
    """One JSON document: indented for a person, one line for a program and in a stream."""
    indent = 2 if sys.stdout.isatty() and not is_line else None
    streams.write(json_text(body, indent=indent) + "\n")


def json_text(body: Any, *, indent: int | None = None) -> str:
    """JSON escapes only half of what acts on a terminal; the rest reads back the same when it is escaped too."""
    # A stream that cannot carry every character gets escapes.
    is_ascii = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    separators = None if indent else (",", ":")
    text = json.dumps(body, ensure_ascii=is_ascii, indent=indent, separators=separators)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def console(*, is_error: bool = False) -> "Console":
    """Standard output or error. No colours unless it is a terminal, nor where NO_COLOR is set."""
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        """Passes on nothing that acts on a terminal."""

        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                acts = segment.control is None and _CONTROLS.search(segment.text)
                yield Segment(clean(segment.text), segment.style) if acts else segment

    shown: Any = streams.Shown(is_error=is_error)
    made = CleanConsole(file=shown, highlight=False, emoji=False)
    if made.width < 1 or (not made.is_terminal and made.width == _NO_TERMINAL):
        made.width = _WIDE
    return made


def moment(value: int) -> str:
    """A time in the zone of this machine, to the second."""
    try:
        return datetime.fromtimestamp(value / 1000, UTC).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return str(value)


def shown(name: str, value: Any) -> str:
    """The value of a field as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name == "at" or name.endswith(_MOMENTS)):
        return moment(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value)):
        return ", ".join(cast("list[str]", value))
    if isinstance(value, str | int):
        return clean(str(value))
    if isinstance(value, list):
        return "; ".join(shown("", item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if {"id", "name"} <= members.keys():
            return clean(f"{members['name']} ({members['id']})")
        said = {key: item for key, item in members.items() if item not in (None, "", [], {})}
        return ", ".join(f"{clean(key)} {shown(key, item)}" for key, item in said.items())
    return clean(str(value))


def cell(name: str, value: Any) -> str | None:
    """The same on one line, cut where it is long; None where there is nothing."""
    if value in (None, "", [], {}):
        return None
    line = _bar(value) if name == "relevance" else " ".join(shown(name, value).split())
    return line if len(line) <= _LONGEST_CELL else line[: _LONGEST_CELL - 1] + "…"


def _bar(share: float) -> str:
    """A share from 0 to 1 as something to look at."""
    return f"{'█' * round(10 * share):░<10} {share:.2f}"


def items_of(body: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    """The field of an answer that is the list whose items have these columns."""
    for name, value in body.items():
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if all(isinstance(item, dict) and set(columns) <= item.keys() for item in items):
                return name
    return None


def facts(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> "Text":
    """The fields of an answer that say something, one below the other."""
    from rich.text import Text

    known = {
        name: value
        for name, value in body.items()
        if value not in (None, [], {}) and value != defaults.get(name)
    }
    width = max(map(len, known), default=0)
    lines = [
        Text.assemble((f"{name:<{width}}  ", "dim"), shown(name, value)) for name, value in known.items()
    ]
    return Text("\n").join(lines)


class Table:
    """Rows under their names: side by side where there is room, one row below the other where there is not."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        self._columns = columns
        self._rows = [[cell(name, row.get(name)) for name in columns] for row in rows]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        if self._least() <= options.max_width:
            yield self._side_by_side()
        else:
            for row in self._rows:
                yield self._block(row)

    def _is_whole(self, name: str) -> bool:
        """Ids can be copied, so they are never broken."""
        return name in ("id", "seq", "name") or name.endswith("_id")

    def _least(self) -> int:
        """The narrowest that can still be read."""
        least = 0
        for place, name in enumerate(self._columns):
            width = max([len(name), *(len(row[place] or "") for row in self._rows)])
            least += (width if self._is_whole(name) else min(width, _READABLE)) + 3
        return least

    def _side_by_side(self) -> Any:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name in self._columns:
            made.add_column(name, no_wrap=self._is_whole(name), overflow="fold")
        for row in self._rows:
            made.add_row(*[Text("-", style="dim") if value is None else Text(value) for value in row])
        return made

    def _block(self, row: Sequence[str | None]) -> "Text":
        from rich.text import Text

        width = max(map(len, self._columns))
        lines = [
            Text.assemble((f"{name:<{width}}  ", "dim"), value, overflow="fold")
            for name, value in zip(self._columns, row, strict=True)
            if value is not None
        ]
        return Text("\n").join([*lines, Text("")])


# -- progress -----------------------------------------------------------------------------------------------------


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
