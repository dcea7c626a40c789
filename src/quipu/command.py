"""A command that is written by hand, because it is more than an operation: `serve`, `import`, `review`.

It stands in the `commands.py` of its room and knows the command line only by the `Session` below.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:  # help is shown without loading the settings
    from quipu.config import Loaded, Settings

#: What a command does with a memory, and so what becomes of it where there is none yet: it `creates` the memory; it only
#: `tries` what would happen, or `reads`, and an empty memory stands in; it `works` on what is there, and is refused.
Use: TypeAlias = Literal["creates", "tries", "reads", "works"]


class Bar(Protocol):
    """Progress, shown to a person who watches."""

    def __call__(self, done: float, total: float | None = None) -> None: ...


class Memory(Protocol):
    """Runs operations by their names, on this machine or on a server."""

    async def call(self, name: str, given: Mapping[str, Any]) -> Any: ...
    async def send(self, name: str, given: Mapping[str, Any], upload: AsyncIterator[bytes]) -> Any:
        """For an operation that takes a file."""
        ...

    def stream(self, name: str, given: Mapping[str, Any]) -> AsyncIterator[Any]:
        """For an operation that answers one by one."""
        ...

    async def close(self) -> None: ...


class Session(Protocol):
    """What a command may ask of the run that it is part of."""

    @property
    def is_json(self) -> bool:
        """A program reads the answer."""
        ...

    @property
    def is_quiet(self) -> bool: ...
    @property
    def is_verbose(self) -> bool: ...

    # -- which memory ---------------------------------------------------------------------------------------------

    @property
    def loaded(self) -> "Loaded":
        """The settings with their sources, read once."""
        ...

    @property
    def settings(self) -> "Settings": ...

    @property
    def store_urls(self) -> tuple[str, ...]:
        """The memories that this run was told to use, if it was."""
        ...

    def server_of(self) -> str | None:
        """The server that this run speaks to, if it does."""
        ...

    def stay_here(self, command: str) -> None:
        """Refuse to go on when this run speaks to a server: the command is about files of this machine."""
        ...

    def store_address(self) -> str:
        """The address of the memory of this machine that this run names."""
        ...

    def memory(self, use: Use) -> Memory:
        """The memory that this run names, on this machine or on a server. Whoever asks closes it."""
        ...

    def container(self, use: Use, settings: "Settings | None" = None) -> AbstractAsyncContextManager[Any]:
        """What bootstrap puts together over the memory of this machine; closed at the end of the block."""
        ...

    # -- answering ------------------------------------------------------------------------------------------------

    def answer(self, body: Mapping[str, Any], *lines: str) -> None:
        """The answer: the body for a program, the lines for a person."""
        ...

    def item(self, body: Mapping[str, Any], line: str) -> None:
        """One of many answers, shown at once. Raises BrokenPipeError when nobody reads any more."""
        ...

    def say(self, text: str, style: str = "") -> None:
        """A line of the answer for a person; nothing for a program."""
        ...

    def table(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows for a person; nothing for a program."""
        ...

    def note(self, text: str) -> None:
        """Something worth knowing that is not the answer."""
        ...

    def warn(self, text: str) -> None:
        """Something that is probably not as it was meant."""
        ...

    def agree(self, question: str) -> None:
        """A person says yes to what is final; where nobody can be asked, it is refused: the command takes --yes."""
        ...

    def bar(self, label: str) -> AbstractContextManager[Bar]:
        """One line that fills while long work goes on; drawn on a terminal only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HandCommand:
    """Its words, its click parameters, and the function that is run with the session and the values.

    What the function returns is the exit code, nothing is 0; it may be a coroutine.
    """

    name: str
    help: str
    run: Callable[..., Any]
    parameters: tuple[Any, ...] = ()
    examples: tuple[str, ...] = ()
    #: It is a server, whose log goes its own way: the library's warnings are not shown like those of a command.
    logs_itself: bool = False
