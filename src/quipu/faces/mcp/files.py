"""The profile `anthropic`: the memory tool with files, `memory_20250818`. A path is one record, so search and history apply.

The words of the answers are fixed by the contract; models were trained on them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from mcp.types import CallToolResult

from quipu.errors import InvalidError
from quipu.faces.mcp import results
from quipu.faces.mcp.caller import Caller
from quipu.faces.mcp.files_tree import ROOT, FileError, Tree, located, numbered, snippet_of
from quipu.faces.mcp.keeping import drop, keep
from quipu.faces.mcp.tools import Arguments, Call, ToolSpec
from quipu.model.operations import ListRequest, RememberRequest
from quipu.model.principal import Permission
from quipu.model.record import MemoryType, Record
from quipu.model.store import MAIN
from quipu.service.memory import MemoryService

MOST_LINES = 999_999
_MARK = "memory_file"
_TEXT = {"type": "string"}
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_INPUT: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["command"],
    "properties": {
        "command": {"type": "string", "enum": list(_COMMANDS)},
        "path": {"type": "string", "description": f"Under {ROOT}"},
        "view_range": {"type": "array", "items": {"type": "integer"}, "description": "First and last line"},
        "file_text": _TEXT,
        "old_str": _TEXT,
        "new_str": _TEXT,
        "insert_line": {"type": "integer", "minimum": 0},
        "insert_text": _TEXT,
        "old_path": _TEXT,
        "new_path": _TEXT,
    },
}


class Files:
    """One tool, six commands."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def specs(self) -> list[ToolSpec]:
        return [
            ToolSpec(
                name="memory",
                description=f"View and edit files under {ROOT} that outlive the conversation.",
                input=_INPUT,
                handler=self._call,
                needs=(Permission.READ,),
                destructive=True,
                profiles=frozenset({"anthropic"}),
                meta={"dev.quipu/tool_type": "memory_20250818"},
            )
        ]

    async def _call(self, call: Call) -> CallToolResult:
        commands: Mapping[str, Callable[[Caller, Arguments], Awaitable[str]]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }
        command: object = call.arguments["command"]
        if not isinstance(command, str) or command not in commands:
            raise InvalidError.at(
                "/command", "bad_value", "There is no such command.", accepted=list(commands)
            )
        _check(command, call.arguments)
        try:
            return results.told(await commands[command](call.caller, call.arguments))
        except FileError as error:
            return results.failed(str(error), error.code)

    # -- the commands -------------------------------------------------------------------------------------------

    async def _view(self, who: Caller, given: Arguments) -> str:
        path, tree = given["path"], await self._tree(who)
        place = located(path)
        if place in tree.files:
            return _file_view(path, _text_of(tree.files[place]), given.get("view_range"))
        if not tree.is_directory(place):
            raise _absent(path)
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([head, *tree.listing(place, path.rstrip("/"), _size)])

    async def _create(self, who: Caller, given: Arguments) -> str:
        path, tree = given["path"], await self._tree(who)
        place = located(path)
        if place in tree.files or tree.is_directory(place):
            raise FileError(f"File {path} already exists", "conflict")
        if (above := tree.file_above(place)) is not None:
            raise FileError(f"File {above} already exists", "conflict")
        await self._put(who, [(place, given["file_text"], None)])
        return f"File created successfully at: {path}"

    async def _str_replace(self, who: Caller, given: Arguments) -> str:
        path, old, new = given["path"], given["old_str"], given.get("new_str") or ""
        record = await self._file(who, path)
        text = _text_of(record)
        count = text.count(old) if old else 0
        if not count:
            message = f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            raise FileError(message, "not_found")
        if count > 1:
            lines = ", ".join(str(line) for line in _lines_of(text, old))
            message = f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
            raise FileError(message, "conflict")
        line = text[: text.index(old)].count("\n")
        changed = text.replace(old, new)
        await self._put(who, [(located(path), changed, record)])
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{head}\n{snippet_of(changed, line)}"

    async def _insert(self, who: Caller, given: Arguments) -> str:
        path, at, more = given["path"], given["insert_line"], given["insert_text"]
        record = await self._file(who, path)
        lines = _lines(_text_of(record))
        if not 0 <= at <= len(lines):
            message = (
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]"
            )
            raise FileError(message, "validation_error")
        end = "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += end
        lines.insert(at, more.removesuffix("\n").removesuffix("\r") + end)
        await self._put(who, [(located(path), "".join(lines), record)])
        return f"The file {path} has been edited."

    async def _delete(self, who: Caller, given: Arguments) -> str:
        path, tree = given["path"], await self._tree(who)
        place = located(path)
        if place == ROOT:
            raise FileError(f"Cannot delete the {ROOT} directory itself", "validation_error")
        gone = tree.within(place)
        if not gone:
            raise _absent(path)
        await drop(self._service, who, [record for _, record in gone])
        return f"Successfully deleted {path}"

    async def _rename(self, who: Caller, given: Arguments) -> str:
        old, new, tree = given["old_path"], given["new_path"], await self._tree(who)
        before, after = located(old), located(new)
        if before == ROOT:
            raise FileError(f"Cannot rename the {ROOT} directory itself", "validation_error")
        moved = tree.within(before)
        if not moved:
            raise _absent(old)
        if after in tree.files or tree.is_directory(after):
            raise FileError(f"The destination {new} already exists", "conflict")
        if after.startswith(before + "/") or tree.file_above(after) is not None:
            raise FileError(f"The destination {new} is inside a file or inside {old}", "conflict")
        await self._put(
            who,
            [(after + place.removeprefix(before), _text_of(record), record) for place, record in moved],
        )
        return f"Successfully renamed {old} to {new}"

    # -- records ------------------------------------------------------------------------------------------------

    async def _tree(self, who: Caller) -> Tree:
        """Every file. Two clients at once may each have made one at the same path: the newest counts."""
        request = ListRequest(agent_id=who.agent_id, store=who.store, filter={_MARK: True})
        files: dict[str, Record] = {}
        older: list[tuple[str, Record]] = []
        async for record in self._service.reading.walk(who.principal, request):
            place = str(record.metadata.get("path"))
            if files.setdefault(place, record) is not record:
                older.append((place, record))
        return Tree(files, older)

    async def _file(self, who: Caller, path: str) -> Record:
        place, tree = located(path), await self._tree(who)
        if place not in tree.files:
            if tree.is_directory(place):
                raise FileError(f"The path {path} is not a file.", "validation_error")
            raise _absent(path)
        return tree.files[place]

    async def _put(self, who: Caller, files: Sequence[tuple[str, str, Record | None]]) -> None:
        """Texts at their places, each with the record that it changes; all are kept, or none.

        An empty file has a record too, whose content cannot be empty.
        """
        requests = [
            RememberRequest(
                agent_id=who.agent_id,
                type=MemoryType.SEMANTIC,
                content=text or place,
                metadata={_MARK: True, "path": place, **({} if text else {"is_empty": True})},
                store=who.store or MAIN,
                id=None if record is None else record.id,
                if_version=None if record is None else record.version,
            )
            for place, text, record in files
        ]
        await keep(self._service, who, requests)


def _check(command: str, given: Arguments) -> None:
    for name in _COMMANDS[command]:
        if given.get(name) is None:
            message = f"Required argument missing for {command}: {name}."
            kind = _INPUT["properties"][name]["type"]
            raise InvalidError.at(f"/{name}", "missing_field", message, accepted=[kind])
    for name, value in given.items():
        kind = _INPUT["properties"][name]["type"]
        is_right = {
            "string": isinstance(value, str),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "array": _is_range(value),
        }[kind]
        if value is not None and not is_right:
            expected = "two whole numbers" if kind == "array" else kind
            raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not accepted.", accepted=[expected])


def _is_range(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(cast("list[object]", value)) == 2
        and all(isinstance(item, int) and not isinstance(item, bool) for item in cast("list[object]", value))
    )


def _absent(path: str) -> FileError:
    return FileError(f"The path {path} does not exist. Please provide a valid path.", "not_found")


def _text_of(record: Record) -> str:
    return "" if record.metadata.get("is_empty") is True else record.content


def _size(record: Record) -> int:
    return len(_text_of(record).encode("utf-8"))


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


def _file_view(path: str, text: str, view_range: list[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of 999,999 lines.", "validation_error")
    first, last = (1, len(lines)) if view_range is None else (max(1, view_range[0]), view_range[1])
    last = len(lines) if last == -1 else last
    shown = numbered(lines[first - 1 : last], first)
    return f"Here's the content of {path} with line numbers:\n{shown}"
