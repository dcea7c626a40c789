"""Paths of the memory tool: where they lead, and what a directory shows. Nothing here touches a file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quipu.model.record import Record

ROOT = "/memories"
_WIDTH = 6
_AROUND = 2
_UNITS = ("B", "K", "M", "G")


class FileError(Exception):
    """What a command answers in place of its result, in the tool's own words."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def located(path: str) -> str:
    """The place a path means, with `.` and `..` resolved; one beyond the root is refused."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise FileError(f"Path must start with {ROOT}", "validation_error")
    parts: list[str] = []
    for part in path.removeprefix(ROOT).split("/"):
        if part == "..":
            if not parts:
                raise FileError(f"Path {path} would escape {ROOT} directory", "validation_error")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join([ROOT, *parts])


@dataclass(frozen=True, slots=True)
class Tree:
    """Files by place. Directories are there as long as something is in them; the root always."""

    files: Mapping[str, Record]
    #: What else lies at the same places. Nobody sees it, and it goes where the file goes.
    older: Sequence[tuple[str, Record]] = ()

    def is_directory(self, place: str) -> bool:
        return place == ROOT or any(name.startswith(f"{place}/") for name in self.files)

    def within(self, place: str) -> list[tuple[str, Record]]:
        """The file there, or all files below."""
        return [
            (name, record)
            for name, record in (*self.files.items(), *self.older)
            if name == place or name.startswith(f"{place}/")
        ]

    def file_above(self, place: str) -> str | None:
        """A file where a directory would have to be."""
        parts = place.split("/")
        above = ("/".join(parts[:count]) for count in range(3, len(parts)))
        return next((name for name in above if name in self.files), None)

    def listing(self, place: str, shown: str, size: Callable[[Record], int]) -> list[str]:
        """Sizes and names, two levels deep, without hidden ones."""
        rows: dict[str, int] = {}
        total = 0
        for name, record in self.files.items():
            if not name.startswith(f"{place}/"):
                continue
            parts = name.removeprefix(f"{place}/").split("/")
            total += size(record)
            for depth in (1, 2):
                if len(parts) < depth or any(part.startswith(".") for part in parts[:depth]):
                    break
                entry = "/".join(parts[:depth]) + ("/" if len(parts) > depth else "")
                rows[entry] = rows.get(entry, 0) + size(record)
        lines = [f"{human(total)}\t{shown}"]
        return [*lines, *(f"{human(rows[entry])}\t{shown}/{entry}" for entry in sorted(rows))]


def human(size: int) -> str:
    """A size in words."""
    unit = 0
    number = float(size)
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f}{_UNITS[unit]}" if number.is_integer() else f"{number:.1f}{_UNITS[unit]}"


def numbered(lines: list[str], first: int) -> str:
    """Lines with their numbers, six wide, then a tab."""
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def snippet_of(text: str, line: int) -> str:
    """The changed line and its neighbours."""
    lines = text.split("\n")
    first = max(0, line - _AROUND)
    return numbered(lines[first : line + _AROUND + 1], first + 1)
