"""How answers look: JSON for programs; for people, tables, bars and local times."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quipu.cli import streams

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from quipu.cli.tables import Rows

#: Beyond a terminal nothing has to fit a screen.
_WIDE = 160
_NO_TERMINAL = 80
_CELLS = 10
#: What would move the cursor or recolour a terminal when a memory is shown. Line ends and tabs may stay.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def write_json(body: Any) -> None:
    """One JSON document: indented for a person, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    streams.answer(_shown(json.dumps(body, ensure_ascii=_is_ascii(), indent=indent)) + "\n")


def write_line(body: Any) -> None:
    """One line of NDJSON."""
    streams.answer(_shown(json_line(body, is_ascii=_is_ascii())) + "\n")


def json_line(body: Any, *, is_ascii: bool = False) -> str:
    return json.dumps(body, ensure_ascii=is_ascii, separators=(",", ":"))


def _shown(document: str) -> str:
    """JSON escapes only half of what acts on a terminal; the rest reads back the same when it is escaped too."""
    return _CONTROLS.sub(_escaped, document)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _is_ascii() -> bool:
    """A stream that cannot carry every character gets escapes, which JSON reads back the same."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"


def console() -> Console:
    """Standard output. No colours unless it is a terminal, nor where NO_COLOR is set."""
    return _console(is_error=False)


def notes() -> Console:
    """Standard error."""
    return _console(is_error=True)


def _console(*, is_error: bool) -> Console:
    from rich.console import Console
    from rich.segment import Segment

    class PipedConsole(Console):
        """A console that goes on where nobody reads any more, and passes on nothing that acts on a terminal."""

        def on_broken_pipe(self) -> None:
            streams.leave(sys.stderr if is_error else sys.stdout)

        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                acts = segment.control is None and _CONTROLS.search(segment.text)
                yield Segment(clean(segment.text), segment.style) if acts else segment

    made = PipedConsole(stderr=is_error, highlight=False, emoji=False)
    if made.width < 1 or (not made.is_terminal and made.width == _NO_TERMINAL):
        made.width = _WIDE
    return made


def clean(text: str) -> str:
    """The text without characters that would act on a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def text(content: Any) -> str:
    """A memory as a person reads it: its text, or the machine of a procedure as JSON."""
    return clean(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1))


def brief(content: Any, most: int = 200) -> str:
    """The same on one line, cut where it is long."""
    line = " ".join(text(content).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def when(moment: int | None) -> str:
    """A time in the zone of this machine, to the second."""
    if moment is None:
        return "–"
    try:
        return datetime.fromtimestamp(moment / 1000, UTC).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return str(moment)


def size(count: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def names(told: Mapping[str, Any], key: str) -> list[str]:
    """A list of names in what an answer says beyond the wire, if it says so."""
    return [str(name) for name in told.get(key) or ()]


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    whole: Sequence[str] = ("id",),
    empty: str = "There is nothing to show.",
) -> Rows | Text:
    """A plain table, or a sentence where it would be empty. Columns named in `whole` are never cut: ids can be copied."""
    from rich.text import Text

    from quipu.cli.tables import Rows

    if not rows:
        return Text(empty, style="dim")
    return Rows(columns, [[_cell(value) for value in row] for row in rows], whole)


def _cell(value: Any) -> Text | None:
    from rich.text import Text

    if value is None:
        return None
    return value if isinstance(value, Text) else Text(clean(str(value)))


def share_bar(share: float) -> Text:
    """A short bar and the number, from 0 to 1."""
    from rich.text import Text

    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower().startswith("utf") else ("#", ".")
    cells = round(max(0.0, min(1.0, share)) * _CELLS)
    colour = "green" if share >= 0.6 else "yellow" if share >= 0.3 else "red"
    return Text.assemble((full * cells, colour), (empty * (_CELLS - cells), "dim"), f" {share:.2f}")
