"""Quipu behind the memory tool of Anthropic's SDK: `client.beta.messages.run_tools(tools=[QuipuMemoryTool(memory)], …)`.

Each file that the model writes under /memories is one memory, which is found, reviewed and erased like any other. The
memory is not closed with the tool.
"""

from collections.abc import Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quipu import api, sync
from quipu.errors import QuipuError
from quipu.integrations.memory_files import FileError, MemoryFiles

if TYPE_CHECKING:  # the package is the user's: as much of its types as is needed here

    class _Base:
        def __init__(self, *, cache_control: Any = None) -> None: ...

    _AsyncBase = _Base
    ToolError = Exception
else:
    _tools = import_module("anthropic.lib.tools")
    _Base, _AsyncBase = _tools.BetaAbstractMemoryTool, _tools.BetaAsyncAbstractMemoryTool
    ToolError = import_module("anthropic.lib.tools._beta_functions").ToolError


class AsyncQuipuMemoryTool(_AsyncBase):
    """For `AsyncAnthropic`, over a `quipu.Memory`."""

    def __init__(self, memory: api.Memory, *, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(memory.call)

    async def execute(self, command: Any) -> str:
        return await _told(self._files.run(_given(command)))

    async def clear_all_memory(self) -> str:
        return await _told(self._files.clear())

    #: The SDK asks for a method of each command's name.
    view = create = str_replace = insert = delete = rename = execute


class QuipuMemoryTool(_Base):
    """For `Anthropic`, over a `quipu.sync.Memory`."""

    def __init__(self, memory: sync.Memory, *, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)

        async def call(name: str, /, **given: Any) -> Any:
            return memory.call(name, **given)

        self._files = MemoryFiles(call)

    def execute(self, command: Any) -> str:
        return _finished(_told(self._files.run(_given(command))))

    def clear_all_memory(self) -> str:
        return _finished(_told(self._files.clear()))

    view = create = str_replace = insert = delete = rename = execute


def _given(command: Any) -> dict[str, Any]:
    """The command as the model wrote it."""
    given: dict[str, Any] = dict(command) if isinstance(command, dict) else command.to_dict()  # pyright: ignore[reportUnknownArgumentType]  JSON of the SDK
    return given


async def _told(work: Coroutine[Any, Any, str]) -> str:
    """What is wrong is told to the model, which can repair most of it."""
    try:
        return await work
    except FileError as error:
        raise ToolError(str(error)) from error
    except QuipuError as error:
        raise ToolError(f"{error.message} {error.hint or ''}".strip()) from error


def _finished(work: Coroutine[Any, Any, str]) -> str:
    """The result of work that never waits: every call in it blocks."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")
