"""import: many memories from a file of lines."""

from __future__ import annotations

import gzip
import io
import sys
from bisect import bisect_right
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast

import typer

from quipu.cli import importing_files as files
from quipu.cli import importing_links as links
from quipu.cli import interrupted, options, output, sealing
from quipu.cli.command import Command
from quipu.cli.faults import BAD_INPUT, FAILED
from quipu.cli.importing_files import Format
from quipu.cli.proof import Keys
from quipu.cli.session import Session, Use
from quipu.errors import BackendUnavailableError, InvalidError

if TYPE_CHECKING:
    from quipu.cli.progress import Bar
    from quipu.model.outcomes import ImportSummary

app = typer.Typer()

_GZIP = b"\x1f\x8b"
_STRETCH = 256
_TOO_LONG = f"{InvalidError.code}: The line is too long."


@app.command("import", cls=Command, rich_help_panel="In and out")
def import_(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file, plain or gzip; its https address; - reads standard input."
        ),
    ],
    dry_run: options.DryRun = False,
    on_error: Annotated[
        Literal["continue", "stop"], typer.Option("--on-error", help="What a bad line does.")
    ] = "continue",
    store: options.InStore = None,
    format: Format = None,
    keys: Keys = None,
    foreign_owner: Annotated[
        bool, typer.Option("--foreign-owner", help="Also take what somebody unknown has signed.")
    ] = False,
    identity: sealing.Identity = None,
    passphrase_file: sealing.Passphrase = None,
) -> None:
    """Bring in memories: lines, a bundle, or what another assistant exported.

    [bold]Examples[/bold]
      quipu import memories.ndjson
      quipu import backup.ndjson.gz --dry-run
      quipu import memories.bundle.zip --keys their-keys.json
      quipu import memories.bundle.zip.age --identity key.txt
      quipu import chatgpt-export.zip --dry-run       what would come in, what is lost, what is refused
      quipu import https://memory.example/mine.bundle.zip --dry-run
      pbpaste | quipu import - --format text
      echo '{"content": "Mara is vegetarian"}' | quipu import -

    What the file is, is told by looking at it. A line is what `quipu export` writes, or as short as
    {"content": "..."}. Each 500 are one transaction. A file that was cut off in the middle is brought
    in again: of a bundle or a vendor's file, nothing comes twice. An address is asked over https and
    never inside a private network; what it hands out is tried like a file.
    Exit codes: 0 all is in, 1 some is not, 2 the memory failed, 3 some waits for approval.
    See also: imports, export, bundle, remember, reembed.
    """
    run = Session.of(ctx)
    with links.at_hand(run, file) as path:
        is_sealed = identity is not None or passphrase_file is not None or sealing.is_sealed(path)
        known = (None if format == "ndjson" else format) if is_sealed else files.format_of(path, format)
        if known is not None or is_sealed:
            files.bring_in(
                run,
                path,
                known,
                dry_run=dry_run,
                store=store,
                keys=keys,
                foreign_owner=foreign_owner,
                identity=identity,
                words=passphrase_file,
            )
            return
        with _opened(path) as source, run.bar("Importing", "bytes") as bar:
            lines = Lines(source, store, bar)
            with run.memory(model=not dry_run, use=Use.TRIES if dry_run else Use.MAKES) as memory:
                before = 0 if dry_run else interrupted.position(memory)
                with interrupted.telling(
                    run, lambda: interrupted.brought_in(memory, before, dry_run=dry_run)
                ):
                    summary = memory.import_records(
                        lines.stream(), dry_run=dry_run, stop_on_error=on_error == "stop"
                    )
        _answer(run, summary, lines, dry_run=dry_run)
        if summary.failed:
            raise typer.Exit(FAILED if any(_is_ours(said) for _, said in summary.errors) else BAD_INPUT)


def _is_ours(said: str) -> bool:
    """Whether the memory failed, such as on a full disk, and not the line."""
    return said.startswith(f"{BackendUnavailableError.code}:")


def _answer(run: Session, summary: ImportSummary, lines: Lines, *, dry_run: bool) -> None:
    if run.is_json:
        for number, said in lines.told(summary.errors):
            code, _, detail = said.partition(": ")
            output.write_line({"line": number, "error": {"code": code, "detail": detail}})
        counts = {name: getattr(summary, name) for name in ("read", "stored", "held", "failed", "import_id")}
        output.write_line({"summary": counts | ({"dry_run": True} if dry_run else {})})
        return
    notes = output.notes()
    for number, said in lines.told(summary.errors):
        notes.print(output.clean(f"line {number}: {said}"), markup=False, style="red")
    word = "Would import" if dry_run else "Imported"
    shown = output.console()
    shown.print(f"{word} {summary.stored:,} of {output.counted(summary.read, 'line')}", markup=False)
    if summary.failed:
        notes.print(f"{output.counted(summary.failed, 'line')} not taken", markup=False)
    if (summary.stored or summary.held) and not dry_run:
        run.note(f"import {summary.import_id}")


@contextmanager
def _opened(file: Path) -> Generator[Source]:
    with ExitStack() as stack:
        if str(file) == "-":
            yield Source(sys.stdin.buffer, None)
            return
        try:
            opened = stack.enter_context(file.open("rb"))
        except OSError as error:
            raise InvalidError(
                f"{file} cannot be read: {error.strerror}.", reason="no_file", hint="Check the path."
            ) from error
        yield Source(opened, file.stat().st_size)


class Source:
    """Bytes from a file or a pipe, unpacked if they are packed."""

    def __init__(self, raw: BinaryIO, total: int | None) -> None:
        self._raw = raw
        self._counted = _Counted(raw)
        self.total = total

    @property
    def done(self) -> int:
        return self._counted.done

    def lines(self) -> Iterator[bytes | None]:
        """Line by line; None stands for one that is too long."""
        buffered = io.BufferedReader(self._counted)
        if buffered.peek(2)[:2] != _GZIP:
            yield from _bounded(buffered)
            return
        try:
            with gzip.open(buffered) as unpacked:
                yield from _bounded(cast("BinaryIO", unpacked))
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise InvalidError(
                "The gzip file is damaged or cut short.", reason="bad_file", hint="Fetch or pack it again."
            ) from error


def _bounded(stream: BinaryIO) -> Iterator[bytes | None]:
    """A device, or a packed file that unpacks to one line without end, would take all memory."""
    from quipu.formats.archives import LONGEST_LINE

    while line := stream.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(io.DEFAULT_BUFFER_SIZE)
        yield None


class _Counted(io.RawIOBase):
    """Passes bytes on and counts them. What it reads from stays open."""

    def __init__(self, raw: BinaryIO) -> None:
        self._from = raw
        self.done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = cast("Any", self._from).read1(len(buffer))
        buffer[: len(data)] = data
        self.done += len(data)
        return len(data)


class Lines:
    """The lines of a source that hold something, and where in the file they stand."""

    def __init__(self, source: Source, store: str | None, bar: Bar) -> None:
        self._source, self._store, self._bar = source, store, bar
        self._given = 0
        self._blank = 0
        #: Before which given line how many blank ones stand.
        self._shifts: list[tuple[int, int]] = [(0, 0)]
        #: Which of the given lines were too long to be read.
        self._too_long: set[int] = set()

    async def stream(self) -> AsyncIterator[str | dict[str, Any]]:
        """A stretch at a time, read on a thread of its own: a slow pipe holds nobody up."""
        import asyncio

        lines = self._source.lines()
        while stretch := await asyncio.to_thread(lambda: list(islice(lines, _STRETCH))):
            for line in stretch:
                if line is not None and not line.strip():
                    self._blank += 1
                    self._shifts.append((self._given, self._blank))
                    continue
                self._given += 1
                if line is None:
                    self._too_long.add(self._given)
                yield "" if line is None else self._line(line)
            self._bar(self._source.done, self._source.total)

    def _line(self, line: bytes) -> str | dict[str, Any]:
        try:
            text = line.decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError:
            return ""  # refused as a line that is no JSON, without its text
        if self._store is None:
            return text
        from quipu.faces.memorywire.wire_json import loads

        try:
            value = loads(text)
        except InvalidError:
            return text
        return {"store": self._store, **cast("dict[str, Any]", value)} if isinstance(value, dict) else text

    def told(self, errors: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """What was wrong, by the lines of the file."""
        return [
            (self.number(given), _TOO_LONG if given in self._too_long else said) for given, said in errors
        ]

    def number(self, given: int) -> int:
        """The line of the file that was handed on as the so-manieth."""
        place = bisect_right(self._shifts, (given - 1, sys.maxsize)) - 1
        return given + self._shifts[place][1]
