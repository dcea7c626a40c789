"""Files under /memories, each of them one memory: what Anthropic's memory tool, `memory_20250818`, works on.

A file is found by a recall, has a history and can be reviewed and erased like any other memory. The words of the answers
are those of Anthropic's own implementation, which models have learned.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from quipu.errors import Fault
from quipu.fields import Integer, Redact
from quipu.integrations.records import Call, drop, keep, walk
from quipu.memory.model import RecordView
from quipu.operation import Request, invalid

ROOT = "/memories"
_MOST_LINES = 999_999
_NUMBER_WIDTH = 6
#: So many lines are shown around a change.
_AROUND = 2
_UNITS = ("B", "K", "M", "G")
_MARK = "memory_file"

#: Nothing of a command is kept as it is: `remember` redacts what is written.
_Text = Annotated[str, Redact.NONE]


class MemoryCommand(Request):
    """View and edit files under /memories, which outlive the conversation."""

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"] = Field(
        description="What to do."
    )
    path: _Text | None = Field(default=None, description="A file or directory under /memories.")
    view_range: Annotated[tuple[Integer, ...], Strict(False), Field(min_length=2, max_length=2)] | None = (
        Field(default=None, description="view: first and last line; -1 is the end.")
    )
    file_text: _Text | None = Field(default=None, description="create: the text.")
    old_str: _Text | None = Field(default=None, description="str_replace: what stands there once.")
    new_str: _Text | None = Field(default=None, description="str_replace: what replaces it.")
    insert_line: Integer | None = Field(default=None, description="insert: after this line; 0 is the top.")
    insert_text: _Text | None = Field(default=None, description="insert: the text.")
    old_path: _Text | None = Field(default=None, description="rename: what it is called.")
    new_path: _Text | None = Field(default=None, description="rename: what it will be called.")


#: Of each command the arguments that it needs.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


class FileError(Exception):
    """What a command answers in place of its result, in the tool's own words."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class MemoryFiles:
    """The six commands, over the memory that `call` reaches."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._commands: Mapping[str, Callable[[Any], Awaitable[str]]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    async def run(self, command: Mapping[str, Any]) -> str:
        """Carry out a command as a model gives it; FileError in the tool's words, else an error of ours."""
        given = MemoryCommand.parse(command)
        missing = [name for name in _NEEDS[given.command] if getattr(given, name) is None]
        if missing:
            raise invalid(
                [Fault(f"/{name}", "missing_field", f"{given.command} needs it") for name in missing]
            )
        return await self._commands[given.command](given)

    async def clear(self) -> str:
        """Forget every file."""
        await drop(self._call, [record for _, record in (await self._tree()).rows])
        return "All memory cleared"

    # -- the commands -------------------------------------------------------------------------------------------------

    async def _view(self, given: Any) -> str:
        place, tree = located(given.path), await self._tree()
        if place in tree.files:
            return _file_view(given.path, _text_of(tree.files[place]), given.view_range)
        if not tree.is_directory(place):
            raise _absent(given.path)
        head = (
            f"Here're the files and directories up to 2 levels deep in {given.path}, excluding hidden items:"
        )
        return "\n".join([head, *tree.listing(place, given.path.rstrip("/"))])

    async def _create(self, given: Any) -> str:
        place, tree = located(given.path), await self._tree()
        if place in tree.files or tree.is_directory(place):
            raise FileError(f"File {given.path} already exists", "conflict")
        if (above := tree.file_above(place)) is not None:
            raise FileError(f"File {above} already exists", "conflict")
        await self._put([(place, given.file_text, None)])
        return f"File created successfully at: {given.path}"

    async def _str_replace(self, given: Any) -> str:
        record = await self._file(given.path)
        text, old = _text_of(record), given.old_str
        count = text.count(old) if old else 0
        if not count:
            message = (
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {given.path}."
            )
            raise FileError(message, "not_found")
        if count > 1:
            lines = ", ".join(str(line) for line in _lines_of(text, old))
            message = f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
            raise FileError(message, "conflict")
        line = text[: text.index(old)].count("\n")
        changed = text.replace(old, given.new_str or "")
        await self._put([(located(given.path), changed, record)])
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{head}\n{_snippet(changed, line)}"

    async def _insert(self, given: Any) -> str:
        record, at = await self._file(given.path), given.insert_line
        lines = _lines(_text_of(record))
        if not 0 <= at <= len(lines):
            message = (
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
            )
            raise FileError(message, "validation_error")
        end = "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += end
        lines.insert(at, given.insert_text.removesuffix("\n").removesuffix("\r") + end)
        await self._put([(located(given.path), "".join(lines), record)])
        return f"The file {given.path} has been edited."

    async def _delete(self, given: Any) -> str:
        place, tree = located(given.path), await self._tree()
        if place == ROOT:
            raise FileError(f"Cannot delete the {ROOT} directory itself", "validation_error")
        gone = tree.within(place).rows
        if not gone:
            raise _absent(given.path)
        await drop(self._call, [record for _, record in gone])
        return f"Successfully deleted {given.path}"

    async def _rename(self, given: Any) -> str:
        old, new, tree = given.old_path, given.new_path, await self._tree()
        before, after = located(old), located(new)
        if before == ROOT:
            raise FileError(f"Cannot rename the {ROOT} directory itself", "validation_error")
        moved = tree.within(before)
        if not moved.files:
            raise _absent(old)
        if after in tree.files or tree.is_directory(after):
            raise FileError(f"The destination {new} already exists", "conflict")
        if after.startswith(before + "/") or tree.file_above(after) is not None:
            raise FileError(f"The destination {new} is inside a file or inside {old}", "conflict")
        await self._put(
            [(after + place.removeprefix(before), _text_of(record), record) for place, record in moved.rows]
        )
        return f"Successfully renamed {old} to {new}"

    # -- memories -----------------------------------------------------------------------------------------------------

    async def _tree(self) -> "Tree":
        """Every file. Two clients at once may each have made one at the same path: the newest counts."""
        files: dict[str, RecordView] = {}
        older: list[tuple[str, RecordView]] = []
        async for record in walk(self._call, filter={f"metadata.{_MARK}": True}):
            place = str(record.metadata.get("path"))
            if files.setdefault(place, record) is not record:
                older.append((place, record))
        return Tree(files, older)

    async def _file(self, path: str) -> RecordView:
        place, tree = located(path), await self._tree()
        if place not in tree.files:
            if tree.is_directory(place):
                raise FileError(f"The path {path} is not a file.", "validation_error")
            raise _absent(path)
        return tree.files[place]

    async def _put(self, files: Sequence[tuple[str, str, RecordView | None]]) -> None:
        """Texts at their places, each with the memory that it changes; all are kept, or none.

        An empty file is a memory too, whose content cannot be empty.
        """
        items: list[dict[str, Any]] = []
        for place, text, record in files:
            item: dict[str, Any] = {
                "content": text or place,
                "metadata": {_MARK: True, "path": place, "is_empty": not text},
            }
            if record is not None:  # nobody's change in between is lost
                item |= {"id": record.id, "if_version": record.version}
            items.append(item)
        await keep(self._call, items)


# -- paths ------------------------------------------------------------------------------------------------------------


def located(path: str) -> str:
    """The place a path means, with `.` and `..` resolved; one beyond the root is refused."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise FileError(f"Path must start with {ROOT}, got: {path}", "validation_error")
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

    files: Mapping[str, RecordView]
    #: What else lies at the same places. Nobody sees it, and it goes where the file goes.
    older: Sequence[tuple[str, RecordView]] = ()

    @property
    def rows(self) -> list[tuple[str, RecordView]]:
        """All of them, with their places."""
        return [*self.files.items(), *self.older]

    def is_directory(self, place: str) -> bool:
        return place == ROOT or any(name.startswith(f"{place}/") for name in self.files)

    def within(self, place: str) -> "Tree":
        """The file there, or all files below."""

        def is_in(name: str) -> bool:
            return name == place or name.startswith(f"{place}/")

        return Tree(
            {name: record for name, record in self.files.items() if is_in(name)},
            [(name, record) for name, record in self.older if is_in(name)],
        )

    def file_above(self, place: str) -> str | None:
        """A file where a directory would have to be."""
        parts = place.split("/")
        above = ("/".join(parts[:count]) for count in range(3, len(parts)))
        return next((name for name in above if name in self.files), None)

    def listing(self, place: str, shown: str) -> list[str]:
        """Sizes and names, two levels deep, without hidden ones."""
        rows: dict[str, int] = {}
        total = 0
        for name, record in self.files.items():
            if not name.startswith(f"{place}/"):
                continue
            size = len(_text_of(record).encode())
            parts = name.removeprefix(f"{place}/").split("/")
            total += size
            for depth in (1, 2):
                if len(parts) < depth or any(part.startswith(".") for part in parts[:depth]):
                    break
                entry = "/".join(parts[:depth]) + ("/" if len(parts) > depth else "")
                rows[entry] = rows.get(entry, 0) + size
        lines = [f"{_size_text(total)}\t{shown}"]
        return [*lines, *(f"{_size_text(rows[entry])}\t{shown}/{entry}" for entry in sorted(rows))]


def _absent(path: str) -> FileError:
    return FileError(f"The path {path} does not exist. Please provide a valid path.", "not_found")


# -- texts ------------------------------------------------------------------------------------------------------------


def _text_of(record: RecordView) -> str:
    return "" if record.metadata.get("is_empty") is True else record.text


def _lines(text: str) -> list[str]:
    """Its lines with their ends, counted as a view numbers them: only a newline ends one."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _lines_of(text: str, wanted: str) -> list[int]:
    """The line of each place where a text stands, also of those that overlap."""
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(wanted, at + 1)
    return found


def _file_view(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of 999,999 lines.", "validation_error")
    first, last = (1, len(lines)) if view_range is None else (max(1, view_range[0]), view_range[1])
    last = len(lines) if last == -1 else last
    shown = _numbered(lines[first - 1 : last], first)
    return f"Here's the content of {path} with line numbers:\n{shown}"


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _snippet(text: str, line: int) -> str:
    """The changed line and its neighbours."""
    lines = text.split("\n")
    first = max(0, line - _AROUND)
    return _numbered(lines[first : line + _AROUND + 1], first + 1)


def _size_text(size: int) -> str:
    unit = 0
    number = float(size)
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f}{_UNITS[unit]}" if number.is_integer() else f"{number:.1f}{_UNITS[unit]}"
