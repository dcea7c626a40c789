"""What one run of the command line was given: which memory, and how to answer.

A memory is a file of this machine or on a server, never both. Who puts something in creates the file; a command that only
reads creates nothing.
"""

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quipu.cli import output, streams
from quipu.errors import InvalidError, NotFoundError

if TYPE_CHECKING:  # help is shown without loading what runs operations
    from quipu.bootstrap import Container
    from quipu.command import Use
    from quipu.config import Loaded, Settings
    from quipu.opening import OpenConnection, Runner
    from quipu.operation import AnyOperation

_KEY = "quipu.cli.session"
_SERVER_SCHEMES = ("quipu+https://", "quipu+http://")
_IN_MEMORY = "sqlite://:memory:"


def usual_file() -> Path:
    """Where memory is kept when nobody says where."""
    from quipu.config import data_dir

    return data_dir() / "memory.db"


def _loaded() -> "Loaded":
    from quipu.config import load

    return load()


def _embedded(*given: Any, **options: Any) -> "OpenConnection":
    from quipu.opening import embedded

    return embedded(*given, **options)


def _remote(*given: Any, **options: Any) -> "OpenConnection":
    from quipu.opening import remote

    return remote(*given, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """How a run reaches settings and memories. Tests hand in their own."""

    loaded: Callable[[], "Loaded"] = _loaded
    usual_file: Callable[[], Path] = usual_file
    embedded: Callable[..., "OpenConnection"] = _embedded
    remote: Callable[..., "OpenConnection"] = _remote


@dataclass(slots=True)
class Session:
    """The options of every command, and the way to the memory that they name."""

    surroundings: Surroundings = field(default_factory=Surroundings)
    store_urls: tuple[str, ...] = ()
    server: str | None = None
    token_file: str | None = None
    is_json: bool = False
    is_quiet: bool = False
    is_verbose: bool = False
    #: The operation that is being run, so that an error names its options.
    operation: "AnyOperation | None" = None
    _found: "Loaded | None" = None

    @classmethod
    def of(cls, ctx: click.Context) -> "Session":
        """The session of this run, however deep the command stands."""
        found = ctx.meta.get(_KEY)
        if not isinstance(found, cls):
            found = ctx.meta[_KEY] = ctx.obj if isinstance(ctx.obj, cls) else cls()
        return found

    # -- which memory ---------------------------------------------------------------------------------------------

    @property
    def loaded(self) -> "Loaded":
        """The settings with their sources. Read once; what is odd about them is said once."""
        if self._found is None:
            self._found = self.surroundings.loaded()
            for warning in self._found.warnings:
                self.warn(warning)
        return self._found

    @property
    def settings(self) -> "Settings":
        return self.loaded.settings

    def server_of(self) -> str | None:
        """The server that this run speaks to, if it does. What was named in the command wins over the settings."""
        if self.server is not None and self.store_urls:
            raise InvalidError(
                "A memory is on a server or in a file, not both.",
                reason="usage",
                hint="Give --server or --store-url.",
            )
        if self.server is not None:
            return self.server
        if self.store_urls:
            url = self.store_urls[0]
            return url if url.lower().startswith(_SERVER_SCHEMES) else None
        if self.settings.server:
            return self.settings.server
        store = self.settings.store or ""
        return store if store.lower().startswith(_SERVER_SCHEMES) else None

    def stay_here(self, command: str) -> None:
        """Refuse to go on when this run speaks to a server: the command is about files of this machine."""
        if self.server_of() is not None:
            raise InvalidError(
                f"`quipu {command}` works on a memory of this machine, not on a server.",
                reason="usage",
                hint="Run it where the server is, or name a file with --store-url.",
            )

    def store_address(self) -> str:
        """The address of the memory of this machine that this run names."""
        named = self.store_urls[0] if self.store_urls else self.settings.store
        return named or f"sqlite://{self.surroundings.usual_file()}"

    def memory(self, use: "Use") -> "Runner":
        """The memory that this run names. Nothing is opened before the first call."""
        from quipu.model.principal import local
        from quipu.opening import Runner, chosen_agent

        settings = self.settings
        server = self.server_of()
        if server is not None:
            token = None if self.token_file is None else token_in(self.token_file)
            opener = self.surroundings.remote(server, token=token, config=settings)
            return Runner(opener, agent_id=chosen_agent(settings))
        opener = self.surroundings.embedded(
            settings, local(agent_id=settings.agent), **self._place(use, settings)
        )
        return Runner(opener, agent_id=settings.agent)

    @asynccontextmanager
    async def container(self, use: "Use", settings: "Settings | None" = None) -> "AsyncGenerator[Container]":
        """What bootstrap puts together over the memory of this machine; closed at the end of the block."""
        from quipu.bootstrap import open_container

        settings = settings or self.settings
        opened = await open_container(settings, **self._place(use, settings))
        try:
            yield opened
        finally:
            await opened.close()

    def _place(self, use: "Use", settings: "Settings") -> dict[str, Any]:
        """Where the memory of this machine is, as bootstrap is given it. An empty one stands in for a file that is not
        there yet, and where that would mislead it is refused."""
        named = list(self.store_urls)
        path = ledger_file(self.store_address())
        if path is None or path.exists() or use == "creates":
            return {"stores": named or ([] if settings.store else [self.store_address()])}
        if use != "tries":
            if use == "works" or named:
                raise no_memory(path, is_named=bool(named))
            self.note(
                f"Nothing is remembered yet: there is no memory at {path}. `quipu remember` creates it."
            )
        return {"stores": [_IN_MEMORY], "embedder": "none"}

    # -- answering ------------------------------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Somebody looks at a terminal and wants to see progress."""
        return sys.stderr.isatty() and not self.is_json and not self.is_quiet

    def answer(self, body: Mapping[str, Any], *lines: str) -> None:
        """The answer: the body for a program, the lines for a person."""
        if self.is_json:
            output.write_json(body)
            streams.flush()
        for line in lines:
            self.say(line)

    def item(self, body: Mapping[str, Any], line: str) -> None:
        """One of many answers, shown at once. Raises BrokenPipeError when nobody reads any more."""
        if self.is_json:
            output.write_json(body, is_line=True)
        else:
            streams.write(output.clean(line) + "\n")
        streams.flush()
        streams.check_reader()

    def say(self, text: str, style: str = "") -> None:
        """A line of the answer for a person; nothing for a program."""
        if not self.is_json:
            output.console().print(text, style=style or None, markup=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows for a person; nothing for a program."""
        if not self.is_json:
            output.console().print(output.Table(columns, rows))

    def bar(self, label: str) -> output.Bar:
        """One line that fills while long work goes on; drawn on a terminal only."""
        return output.Bar(label, is_shown=self.is_watched)

    def agree(self, question: str) -> None:
        """A person says yes to what is final; where nobody can be asked, --yes must have been given."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()) or self.is_json:
            raise InvalidError(
                "This is final, and nobody can be asked.",
                reason="confirmation_required",
                hint="Repeat it with --yes if you are sure.",
            )
        try:
            is_agreed = click.confirm(question, err=True)
        except OSError as error:  # the terminal is gone, and with it who would have answered
            raise click.Abort from error
        if not is_agreed:
            streams.write_error("Nothing was changed.\n")
            raise click.exceptions.Exit(1)

    def note(self, text: str) -> None:
        """Something worth knowing that is not the answer."""
        if not self.is_quiet and not self.is_json:
            output.console(is_error=True).print(text, style="dim", markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Something that is probably not as it was meant; shown even to who wants no notes."""
        if self.is_json:
            streams.write_error(output.json_text({"warning": text}) + "\n")
        else:
            output.console(is_error=True).print(
                f"Warning: {text}", style="yellow", markup=False, soft_wrap=True
            )

    @contextmanager
    def logging(self) -> Generator[None]:
        """Warnings of the library on standard error: everything when verbose, errors only when quiet."""
        level = logging.DEBUG if self.is_verbose else logging.ERROR if self.is_quiet else logging.WARNING
        handler, logger = _Handler(level, self), logging.getLogger("quipu")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(level)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)


class _Handler(logging.Handler):
    def __init__(self, level: int, session: Session) -> None:
        super().__init__(level)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if self._session.is_json:
            streams.write_error(output.json_text({"warning": text}) + "\n")
        else:
            streams.write_error(f"{record.levelname.title()}: {output.clean(text)}\n")


# -- the memory of this machine -----------------------------------------------------------------------------------


#: No token is longer; a file that is was named by mistake.
_LONGEST_TOKEN = 16_384
_MAGIC = b"SQLite format 3\x00"
#: So many files of a folder are looked through for one that may have been meant.
_MOST_FILES = 1000


def ledger_file(address: str) -> Path | None:
    """The file that a store address names; None for a database. What is in memory only is refused."""
    from quipu.bootstrap import is_memory, sqlite_path

    if is_memory(address):
        raise InvalidError(
            "This memory is in memory only: it is gone when the command ends.",
            reason="in_memory",
            hint="Name a file, such as --store-url sqlite:///home/me/memory.db, or leave --store-url out.",
        )
    try:
        return sqlite_path(address)
    except RuntimeError:
        raise InvalidError(
            "A path begins with ~ and leads nowhere: nobody on this machine has that name.",
            reason="bad_value",
            hint="Write the whole path, from / on.",
        ) from None


def no_memory(path: Path, *, is_named: bool) -> NotFoundError:
    """The refusal of a command that works on what is there; it names what may have been meant."""
    creates = "`quipu remember` creates a memory there."
    if not is_named:
        hint = "`quipu remember` creates it; `quipu config` says where it is looked for."
        return NotFoundError(f"There is no memory at {path} yet.", reason="no_memory_here", hint=hint)
    hint = f"Check the path. {creates}"
    if not path.parent.is_dir():
        hint = f"Check the path: there is no folder {path.parent} either. {creates}"
    elif near := _near_files(path):
        hint = f"Did you mean {' or '.join(map(str, near))}? If not: {creates}"
    return NotFoundError(f"There is no memory at {path}.", reason="no_memory_here", hint=hint)


def _near_files(path: Path) -> list[Path]:
    """Databases of the same folder whose names are a slip of the finger away."""
    try:
        known = {one.stem: one for one in islice(path.parent.iterdir(), _MOST_FILES) if _is_database(one)}
        return [known[stem] for stem in get_close_matches(path.stem, known, n=3, cutoff=0.7)]
    except OSError:  # a folder that may be passed through, but not listed
        return []


def _is_database(path: Path) -> bool:
    if not path.is_file():  # a pipe would be waited for
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def token_in(name: str) -> str:
    """The token in a file, without the line's end."""
    try:
        file = Path(name).expanduser()
        with file.open(encoding="ascii") as lines:
            found = lines.read(_LONGEST_TOKEN).strip()
    except (OSError, UnicodeError, RuntimeError) as error:
        raise InvalidError(
            "The token file cannot be read.", reason="no_file", hint=f"Check --token-file {name}."
        ) from error
    if not found:
        raise InvalidError(
            "The token file is empty.", reason="no_file", hint="Put the token on one line into it."
        )
    return found
