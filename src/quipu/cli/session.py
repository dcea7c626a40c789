"""What one run of the command line was told: whose memory, where, and how to answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quipu.cli import output
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.cli.progress import Bar
    from quipu.config import Config
    from quipu.sync import Memory

_KEY = "quipu.cli.session"
#: No token is longer; a file that is was named by mistake.
_LONGEST_TOKEN = 16_384
HELD = 3


class Use(Enum):
    """What a command does with a memory, and so what becomes of it where there is none."""

    #: It puts something in: a memory is made.
    MAKES = "makes"
    #: It would put something in, and only says what would happen: an empty memory stands in.
    TRIES = "tries"
    #: It only looks: a place that was named in the command is refused; at the usual place an empty memory stands in.
    READS = "reads"
    #: It works on what is there, or vouches for it: refused.
    NEEDS = "needs"


class _Warnings(logging.Handler):
    """What the memory has to say while it works."""

    def __init__(self, level: int, *, is_json: bool) -> None:
        super().__init__(level)
        self._is_json = is_json

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        line = (
            output.json_line({"warning": said}, is_ascii=True)
            if self._is_json
            else f"{record.levelname.title()}: {said}"
        )
        sys.stderr.write(line + "\n")


def _token_in(name: str) -> str:
    """The token in a file, without the line's end."""
    file = Path(name).expanduser()
    try:
        with file.open(encoding="ascii") as lines:
            found = lines.read(_LONGEST_TOKEN).strip()
    except (OSError, UnicodeError) as error:
        raise InvalidError(
            f"There is no token to be read in {file}.", reason="no_file", hint="Check the path."
        ) from error
    if not found:
        raise InvalidError(f"{file} is empty.", reason="no_file", hint="Put the token into it, on one line.")
    return found


@dataclass(slots=True)
class Session:
    """The shared options of a run, and the way to a memory that follows them."""

    agent: str | None = None
    store_urls: tuple[str, ...] = ()
    server: str | None = None
    token_file: str | None = None
    embedder: str | None = None
    is_json: bool = False
    is_quiet: bool = False
    is_verbose: bool = False

    @classmethod
    def of(cls, ctx: typer.Context) -> Session:
        """The session of this run, however deep the command stands."""
        found: Session = ctx.meta.setdefault(_KEY, cls())
        return found

    # -- settings and memory ------------------------------------------------------------------------------------

    def config(self) -> Config:
        """The settings with this run's options on top."""
        from quipu import config as settings

        loaded = settings.load()
        token = None if self.token_file is None else _token_in(self.token_file)
        if token is None and self.server is not None:
            from quipu.memory.remote import token_for

            token = token_for(loaded, self.server)
        ledger, mirrors = self._places()
        return loaded.with_values(
            agent=self.agent,
            embedder=self.embedder,
            store_url=ledger,
            mirrors="\n".join(mirrors) or None,
            server_url=self.server,
            server_token=token,
        )

    def _places(self) -> tuple[str | None, list[str]]:
        """The ledger and the mirrors that this run was told of."""
        if len(self.store_urls) < 2 and not self._is_one_mirror():
            return (self.store_urls[0] if self.store_urls else None), []
        from quipu.bootstrap.stores import ledger_and_mirrors

        ledger, mirrors = ledger_and_mirrors(self.store_urls)
        return ("" if ledger is None else ledger), mirrors

    def _is_one_mirror(self) -> bool:
        """One URL that is neither a ledger's nor a server's."""
        if not self.store_urls or "://" not in self.store_urls[0]:
            return False
        from quipu.bootstrap.stores import is_ledger
        from quipu.memory.remote import is_server

        return not is_ledger(self.store_urls[0]) and not is_server(self.store_urls[0])

    def server_of(self, config: Config) -> str | None:
        """The server that this run speaks to, if it does. A place that was named in the command wins."""
        from quipu.memory.remote import is_server

        if self.server is not None and self.store_urls:
            raise InvalidError(
                "A memory is on a server or at a store URL, not both.",
                reason="usage",
                hint="Give --server or --store-url.",
            )
        if self.server is None and (self.store_urls or not config.server_url):
            return config.store_url if is_server(config.store_url) else None
        return config.server_url

    def stay_here(self, command: str) -> None:
        """Refuse to go on when this run speaks to a server: the command is about files of this machine."""
        if self.server_of(self.config()) is not None:
            raise InvalidError(
                f"`quipu {command}` works on a memory of this machine, not on a server.",
                reason="usage",
                hint="Run it where the server is, or name a file with --store-url.",
            )

    @contextmanager
    def memory(self, *, model: bool = False, use: Use = Use.NEEDS) -> Generator[Memory]:
        """The memory, open. Without `model` no embedder is loaded: for what neither writes nor searches text.

        `use` says what becomes of a memory that is not there.
        """
        config = self.config()
        server = self.server_of(config)
        if server is not None:
            with self.warnings(), self._remote(config, server) as memory:
                yield memory
            return
        from quipu.sync import Memory

        chosen = self.ready(config, use)
        with self.warnings(), self.building() as progress:
            made: Any = Memory  # its signature is the asynchronous one's, which a type checker cannot call
            memory: Memory = made(
                agent_id=config.agent,
                stores=(list(self.store_urls) or None) if chosen is config else None,
                config=chosen if model else chosen.with_values(embedder="none"),
                progress=progress,
            )
            try:
                memory.open()
                yield memory
            finally:
                memory.close()

    def ready(self, config: Config, use: Use) -> Config:
        """The settings to open a memory of this machine with: only who puts something in makes one.

        Where it is still to come, who only looks gets an empty one that is gone afterwards, without model and mirrors.
        """
        from quipu.bootstrap.addresses import address

        where = address(config.store_url)
        if where.is_fleeting and use is not Use.TRIES:
            from quipu.cli.places import forgetful

            raise forgetful()
        if use is Use.MAKES:
            return config
        path = where.missing
        if path is None:
            return config
        if use is Use.NEEDS or (use is Use.READS and self.store_urls):
            from quipu.cli.places import refusal

            if config.mirrors:  # a URL that means nothing is told first
                from quipu.bootstrap import mirrors

                mirrors.check_schemes(where, config)
            raise refusal(path, is_named=bool(self.store_urls))
        self.note(f"Nothing is remembered yet: there is no memory at {path}. `quipu remember` makes it.")
        from urllib.parse import quote

        place = f"sqlite://:memory:?name={quote(where.name)}"
        return config.with_values(store_url=place, mirrors="", embedder="none")

    @contextmanager
    def _remote(self, config: Config, server: str) -> Generator[Memory]:
        """The memory on a server. The first call tells whether it is there and lets us in."""
        from quipu.sync import connect

        memory = connect(server, agent_id=config.agent, config=config)
        try:
            yield memory
        finally:
            memory.close()

    @contextmanager
    def warnings(self) -> Generator[None]:
        """Warnings on standard error: everything when verbose, errors only when quiet, JSON where that was asked for."""
        level = logging.DEBUG if self.is_verbose else logging.ERROR if self.is_quiet else logging.WARNING
        handler, logger = _Warnings(level, is_json=self.is_json), logging.getLogger("quipu")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(level)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)

    # -- answering ----------------------------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Somebody looks at a terminal and wants to see progress."""
        return sys.stderr.isatty() and not self.is_json and not self.is_quiet

    @property
    def may_ask(self) -> bool:
        """There is a person who can answer a question."""
        return sys.stdin.isatty() and sys.stderr.isatty() and not self.is_json

    def agree(self, question: str) -> None:
        """A person says yes to what is final; where nobody can be asked, --yes must have been given."""
        if not self.may_ask:
            raise InvalidError(
                "This is final, and nobody can be asked.",
                reason="confirmation_required",
                hint="Repeat with --yes if you are sure.",
            )
        if not typer.confirm(question, err=True):
            output.notes().print("Nothing was changed.")
            raise typer.Exit(1)

    def note(self, text: str) -> None:
        """Something worth knowing that is not the answer."""
        if not self.is_quiet and not self.is_json:
            output.notes().print(text, style="dim", markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """Something that is probably not as it was meant; said even to who wants no notes."""
        if self.is_json:
            sys.stderr.write(output.json_line({"warning": text}, is_ascii=True) + "\n")
            return
        output.notes().print(f"Warning: {text}", style="yellow", markup=False, soft_wrap=True)

    def answer_json(self, body: Any) -> bool:
        """Give the answer as JSON if that was asked for; otherwise it is still to be given."""
        if self.is_json:
            output.write_json(body)
        return self.is_json

    @contextmanager
    def bar(self, what: str, unit: str = "") -> Generator[Bar]:
        from quipu.cli.progress import Bar

        with Bar(what, is_shown=self.is_watched, unit=unit) as bar:
            yield bar

    @contextmanager
    def building(self) -> Generator[Any]:
        """Shows how the embedder is built, the first time it is."""
        from quipu.cli.progress import BuildBar

        with BuildBar(is_shown=self.is_watched) as bar:
            yield bar
