"""Tables that fit the screen: side by side where there is room, one row below the other where there is not."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: Text in a column narrower than this is not read but spelt.
_READABLE = 18
#: What stands between two columns, and before the first.
_BETWEEN, _EDGES = 3, 2


class Rows:
    """Rows of cells under their names. Columns in `whole` are never cut; None is an empty cell."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[Text | None]], whole: Sequence[str]
    ) -> None:
        self._columns, self._rows, self._whole = columns, rows, whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._least() <= options.max_width:
            yield self._beside()
        else:
            yield from (self._below(row) for row in self._rows)

    def _least(self) -> int:
        """The narrowest that can still be read."""
        widths = [
            (name, max(len(name), *(_width(row[place]) for row in self._rows)))
            for place, name in enumerate(self._columns)
        ]
        least = (width if name in self._whole else min(width, _READABLE) for name, width in widths)
        return sum(least) + _BETWEEN * (len(widths) - 1) + _EDGES

    def _beside(self) -> Table:
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name in self._columns:
            made.add_column(name, no_wrap=name in self._whole, overflow="fold")
        for row in self._rows:
            made.add_row(*[Text("–", style="dim") if cell is None else cell for cell in row])
        return made

    def _below(self, row: Sequence[Text | None]) -> Padding:
        """One row as a small block: what it is called, and below it what is to be said of it."""
        first = self._columns.index("id") if "id" in self._columns else 0
        block = Table.grid(padding=(0, 2))
        block.add_column(no_wrap=True, style="dim")
        block.add_column(overflow="fold")
        for place, (name, cell) in enumerate(zip(self._columns, row, strict=True)):
            if place != first and cell is not None:
                block.add_row(f"  {name}", cell)
        whole = Table.grid()
        whole.add_column(overflow="fold")
        # An id says itself what it is.
        called = "" if self._columns[first] == "id" else f"{self._columns[first]} "
        whole.add_row(Text.assemble((called, "dim"), row[first] or Text("–")))
        whole.add_row(block)
        return Padding(whole, (0, 0, 1, 0))


def _width(cell: Text | None) -> int:
    return 1 if cell is None else max((len(line) for line in cell.plain.splitlines()), default=0)
