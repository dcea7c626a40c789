"""`quipu import`: a file of another product, or of this one, into memory: tried, shown, and then carried out."""

import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast, get_args

import click

from quipu.command import Bar, HandCommand, Memory, Session
from quipu.errors import InvalidError
from quipu.transfer.formats.names import FormatName

_PIECE = 1 << 20
_REFUSED, _HELD = 1, 3
_STDIN = "-"


async def _import(
    session: Session,
    *,
    file: str,
    identity: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **which: Any,
) -> int:
    """Exit code 0: all of it is in; 3: something waits for a person; 1: something was refused."""
    given = {name: value for name, value in which.items() if value not in (None, False)}
    given["file_name"] = _name(file)
    memory = session.memory("tries" if dry_run else "creates")
    try:
        with _source(file, given) as source, _unsealed(source, identity) as opened:
            report = await _tried(session, memory, opened, given)
        if not dry_run:
            if not session.is_json:
                _show(session, report)
            if report.counts.accepted + report.counts.held + report.counts.removed == 0:
                if session.is_json:
                    _show(session, report)
                session.note("There is nothing in it that is not here.")
                return _code(report)
            if not yes:
                session.agree("Bring it in?")
            report = await _carried_out(session, memory, report)
    finally:
        await memory.close()
    _show(session, report)
    if dry_run:
        session.note("Nothing was written. Repeat it without --dry-run to bring it in.")
    else:
        session.note(f"Take all of it back with: quipu undo --import {report.import_id} --no-dry-run")
        if report.counts.held:
            session.note(f"Approve what waits with: quipu review approve --import {report.import_id}")
    return _code(report)


async def _tried(session: Session, memory: Memory, file: BinaryIO, given: dict[str, Any]) -> Any:
    size = file.seek(0, 2)
    file.seek(0)
    with session.bar("Sending") as bar:
        report = await memory.send("import_file", given, _pieces(file, size, bar))
    with session.bar("Trying") as bar:
        while report.status == "checking":
            bar(report.counts.read)
            report = await memory.call("get_import", {"id": report.import_id, "wait_s": 1})
    return report


async def _carried_out(session: Session, memory: Memory, tried: Any) -> Any:
    with session.bar("Importing") as bar:
        while True:
            report = await memory.call("commit_import", {"id": tried.import_id, "wait_s": 1})
            if report.status == "done":
                return report
            bar(report.counts.read, tried.counts.read)


async def _pieces(file: BinaryIO, size: int, bar: Bar) -> AsyncIterator[bytes]:
    sent = 0
    while piece := file.read(_PIECE):
        yield piece
        sent += len(piece)
        bar(sent, size)


def _show(session: Session, report: Any) -> None:
    from quipu.transfer.sentences import sentences  # help is shown without it

    session.answer(report.to_dict(), *sentences(report))


def _code(report: Any) -> int:
    if report.counts.refused:
        return _REFUSED
    return _HELD if report.counts.held or report.counts.removals_held else 0


def _name(file: str) -> str:
    """What the report calls it: of an address only the scheme, for the rest may hold a password."""
    if "://" in file:
        return file.partition("://")[0].lower()[:32]
    return "stdin" if file == _STDIN else Path(file).name[:256]


@contextmanager
def _source(file: str, given: dict[str, Any]) -> Generator[BinaryIO]:
    """The file, standard input, a folder as an archive, or what stands at an address, with its format."""
    if "://" in file:
        from quipu.transfer import live  # help is shown without it

        with live.dump_of(file) as (dump, format_):
            given["format"] = format_
            yield dump
        return
    if file == _STDIN:
        with tempfile.TemporaryFile() as kept:
            while piece := sys.stdin.buffer.read(_PIECE):
                kept.write(piece)
            kept.seek(0)
            yield cast("BinaryIO", kept)
        return
    path = Path(file).expanduser()
    try:
        if path.is_dir():
            with tempfile.TemporaryFile() as kept:
                with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
                    for one in sorted(path.rglob("*")):
                        if one.is_file() and not one.is_symlink():
                            archive.write(one, one.relative_to(path.parent))
                kept.seek(0)
                yield cast("BinaryIO", kept)
            return
        with path.open("rb") as opened:
            yield opened
    except OSError as error:
        raise InvalidError(f"{file} cannot be read.", reason="no_file", hint="Check the path.") from error


@contextmanager
def _unsealed(source: BinaryIO, identity: tuple[str, ...]) -> Generator[BinaryIO]:
    """What a sealed file holds. It is opened here: keys and passphrases go nowhere."""
    from quipu.transfer import age  # help is shown without it

    head = source.read(64)
    source.seek(0)
    if not age.is_sealed(head):
        yield source
        return
    if not identity and not age.asks_for_a_passphrase(head):
        raise InvalidError(
            "The file is sealed to a key.",
            reason="encrypted_file",
            hint="Name the file with the key: --identity FILE.",
        )
    phrase = None if identity else age.asked_passphrase()
    with tempfile.TemporaryFile() as plain:
        target: IO[bytes] = plain
        age.unseal(source, cast("BinaryIO", target), identities=[*_identities(identity)], passphrase=phrase)
        plain.seek(0)
        yield cast("BinaryIO", plain)


def _identities(files: tuple[str, ...]) -> Generator[str]:
    for name in files:
        try:
            text = Path(name).expanduser().read_text("utf-8")
        except (OSError, ValueError) as error:
            raise InvalidError(f"{name} cannot be read.", reason="no_file", hint="Check the path.") from error
        yield from (line.strip() for line in text.splitlines() if line.strip() and line[:1] != "#")


IMPORT = HandCommand(
    name="import",
    help="""Bring in a file of another product, or of this one. It is tried first, and what would happen is shown.

    Ends with 1 when something in the file is refused, with 3 when something waits for a person.
    """,
    run=_import,
    parameters=(
        click.Argument(
            ["file"],
            metavar="FILE",
            help="The file, a folder, - for standard input, or where a product keeps its memories: mem0:///FOLDER, "
            "letta://HOST, cognee:///FOLDER, graphiti:///FILE, langgraph+sqlite:///FILE.",
        ),
        click.Option(
            ["--format"],
            type=click.Choice(get_args(FormatName)),
            metavar="NAME",
            help=f"What kind of file it is: {', '.join(get_args(FormatName))}. Default: found out by looking at it.",
        ),
        click.Option(
            ["--agent-id", "--agent"], help="Whose memories they become where the file does not say."
        ),
        click.Option(["--user-id"], help="Whom they are about where the file does not say."),
        click.Option(["--store"], help="The memory store that all of them go to."),
        click.Option(
            ["--foreign-owner"],
            is_flag=True,
            help="Also take a bundle that was signed with a key that cannot be had.",
        ),
        click.Option(
            ["--identity"],
            multiple=True,
            metavar="FILE",
            help="A file with the age key that opens a sealed file; may be given several times. "
            "The passphrase of one that has one is asked for.",
        ),
        click.Option(["--dry-run"], is_flag=True, help="Only say what would happen."),
        click.Option(["--yes"], is_flag=True, help="Do not ask."),
    ),
    examples=(
        "quipu import mem0.json --dry-run",
        "quipu import conversations.json --user-id ana --yes",
        "quipu import memories.bundle.zip",
        "quipu import 'mem0:///home/ana/qdrant?python=/home/ana/venv/bin/python' --dry-run",
    ),
)
