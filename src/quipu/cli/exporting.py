"""export: memories, or the journal with its proofs, into files."""

from __future__ import annotations

import gzip
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer

from quipu.cli import exporting_files as files
from quipu.cli import options, output, sealing, streams, values
from quipu.cli.command import Command
from quipu.cli.exporting_files import FormatName
from quipu.cli.session import Session
from quipu.errors import InvalidError

app = typer.Typer()

Force = Annotated[bool, typer.Option("--force", help="Write over what is there.")]

#: Of the files of a memory: itself, its log, and its keys.
_SUFFIXES = ("", "-wal", "-shm", ".key", ".sealing-key")


@app.command("export", cls=Command, rich_help_panel="In and out")
def export(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to; .gz packs it; - is standard output.")
    ] = Path("-"),
    state: Annotated[
        list[options.StateName] | None,
        typer.Option("--state", help="In this state; may be repeated. Without it live and archived."),
    ] = None,
    filter: options.Filter = None,
    as_of: options.AsOf = None,
    store: options.InStore = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Of every agent.")] = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="DIR",
            help="Write journal, checkpoints, keys and records for `verify --export`.",
        ),
    ] = None,
    format: Annotated[
        FormatName | None,
        typer.Option("--format", help="What to write; without it .zip is a bundle, everything else lines."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="DID", help="Whose memories a bundle says they are.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Only what has changed since a moment, a journal position, or an earlier bundle (its file).",
        ),
    ] = None,
    receipts: Annotated[
        bool,
        typer.Option("--receipts", help="With the grants you gave, their receipts, and each item's logs."),
    ] = False,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="With the items' vectors, for a host with the same embedder.")
    ] = False,
    encrypt_to: sealing.Recipients = None,
    passphrase_file: sealing.Passphrase = None,
    force: Force = False,
) -> None:
    """Write memories as JSON lines, as a signed bundle, or for another assistant.

    [bold]Examples[/bold]
      quipu export memories.ndjson.gz --all-agents
      quipu export memories.bundle.zip                 signed; `quipu bundle verify` checks it anywhere
      quipu export more.bundle.zip --since memories.bundle.zip
      quipu export memories.bundle.zip.age --encrypt-to age1...
      quipu export memory-store.json --format pam-1.0
      quipu export --filter '{"user_id": "mara"}' | head
      quipu export --as-of 2026-01-31 january.ndjson
      quipu export --journal proof/                    for `quipu verify --export`

    See also: import, bundle, verify, backup.
    """
    run = Session.of(ctx)
    chosen = values.json_object(filter, "/filter")
    if journal is not None:
        write_journal(run, journal, force=force)
        return
    if force:
        _check_not_of_the_memory(run, file)
    name = file.with_suffix("") if file.suffix == ".age" else file
    is_whole = since is not None or receipts or embeddings or bool(encrypt_to) or passphrase_file is not None
    if format is None and (name.suffix == ".zip" or is_whole):
        format = FormatName.BUNDLE
    if format is FormatName.NDJSON and is_whole:
        raise InvalidError.at("/format", "bad_value", "Lines are plain and whole; a bundle can do this.")
    if format not in (None, FormatName.NDJSON):
        if file.exists() and not force:
            raise _taken(file)
        if state:
            raise InvalidError.at("/state", "bad_value", "Files hold what is live or archived.")
        files.take_out(
            run,
            file,
            format.value,
            filter=chosen,
            as_of=values.as_of(as_of),
            store=store,
            all_agents=all_agents,
            owner=owner,
            receipts=receipts,
            logs=receipts,
            grants=receipts,
            embeddings=embeddings,
            encrypt_to=encrypt_to or (),
            passphrase=sealing.passphrase(passphrase_file),
            **files.base(since),
        )
        return
    count = 0
    with run.memory() as memory, _target(file, force=force) as target, run.bar("Exporting", "records") as bar:
        found = memory.export(
            states=state or ["live", "archived"],
            filter=chosen,
            as_of=values.as_of(as_of),
            store=store,
            all_agents=all_agents,
        )
        for body in found:
            if target is None:
                output.write_line(body)
                streams.check_reader()
            else:
                target.write(output.json_line(body) + "\n")
                bar(count)
            count += 1
    if str(file) != "-" and not run.answer_json({"file": str(file), "records": count}):
        output.console().print(f"Exported {output.counted(count, 'record')} to {file}", markup=False)


def _check_not_of_the_memory(run: Session, file: Path) -> None:
    """Raise where the file is the memory itself, or one of its keys: what stood there would be gone for good."""
    from quipu import bootstrap

    config = run.config()
    if run.server_of(config) is not None or not file.exists():
        return
    where = bootstrap.address(config.store_url)
    own = [where.beside(suffix) for suffix in _SUFFIXES]
    if config.sealing_key:
        own.append(Path(config.sealing_key).expanduser())
    if any(one is not None and one.exists() and one.samefile(file) for one in own):
        raise InvalidError.at(
            "/file", "bad_value", f"{file} is part of the memory itself.", hint="Choose another name."
        )


@contextmanager
def _target(file: Path, *, force: bool) -> Generator[TextIO | None]:
    """A file that stands there only when it is whole; None for standard output."""
    if str(file) == "-":
        yield None
        return
    if file.is_dir():
        raise InvalidError.at("/file", "bad_value", f"{file} is a directory.", hint="Name a file in it.")
    if file.exists() and not force:
        raise _taken(file)
    from quipu.memory.files import draft_of, writing  # who asks for help needs no memory

    draft = draft_of(file)
    with writing(file):
        try:
            if file.suffix == ".gz":
                with (
                    gzip.open(draft, "wb") as packed,
                    io.TextIOWrapper(cast("io.BufferedWriter", packed), "utf-8") as text,
                ):
                    yield text
            else:
                with draft.open("w", encoding="utf-8") as text:
                    yield text
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)


def _taken(place: Path) -> InvalidError:
    return InvalidError(
        f"{place} exists already.", reason="exists", hint="Choose another name, or repeat with --force."
    )


def write_journal(run: Session, folder: Path, *, force: bool) -> None:
    """The journal and all that is needed to check it without the memory."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not force):
        raise _taken(folder)
    with run.memory() as memory:
        lines = memory.export_journal(folder)
    if run.answer_json({"folder": str(folder), "lines": lines}):
        return
    output.console().print(
        f"Exported the journal to {folder} ({output.counted(lines, 'line')})", markup=False
    )
    run.note("records.ndjson holds the memories themselves: keep the folder as safe as the memory.")
    run.note(f"Check it anywhere with `quipu verify --export {folder}`.")
