"""`quipu import` and `quipu export`: files of this product and of others, in and out."""

import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast, get_args

import click

from quipu.command import Bar, HandCommand, Memory, Session
from quipu.errors import InvalidError, TamperedError
from quipu.transfer.formats.names import FormatName

_PIECE = 1 << 20
_REFUSED, _HELD = 1, 3
#: Standard input, or standard output.
_STREAM = "-"
_FORMATS = ("bundle", "mem0", "letta", "records")
_EXTRAS = ("receipts", "logs", "grants", "embeddings", "non_exportable")
#: How files are told by their names, where no format is given; what is left is a bundle.
_SUFFIXES = (
    (".bundle.ndjson", "bundle"),
    (".ndjson", "records"),
    (".jsonl", "records"),
    (".mem0.json", "mem0"),
    (".letta.json", "letta"),
)


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
    return "stdin" if file == _STREAM else Path(file).name[:256]


@contextmanager
def _source(file: str, given: dict[str, Any]) -> Generator[BinaryIO]:
    """The file, standard input, a folder as an archive, or what stands at an address, with its format."""
    if "://" in file:
        from quipu.transfer import live  # help is shown without it

        with live.dump_of(file) as (dump, format_):
            given["format"] = format_
            yield dump
        return
    if file == _STREAM:
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


async def _export(
    session: Session,
    *,
    file: str,
    format: str | None,
    since: str | None,
    include: tuple[str, ...],
    encrypt_to: tuple[str, ...],
    passphrase: bool,
    force: bool,
    **which: Any,
) -> None:
    from quipu.transfer import age  # help is shown without these
    from quipu.transfer.sentences import counted, export_sentences

    chosen = format or _format_of(file, is_sealed=bool(encrypt_to) or passphrase)
    if passphrase and encrypt_to:
        raise InvalidError(
            "A file is sealed with a passphrase or to recipients, not both.",
            reason="usage",
            hint="Leave out --passphrase or --encrypt-to.",
        )
    given = {name: value for name, value in which.items() if value not in (None, ())}
    if "filter" in given:
        given["filter"] = _json_object(str(given["filter"]))
    phrase = age.asked_passphrase(is_new=True) if passphrase else None
    memory = session.memory("works")
    try:
        with _target(file, is_forced=force) as place, _sealed(place, phrase) as target:
            if chosen == "records":
                if since or include or encrypt_to:
                    raise InvalidError(
                        "Records are plain and whole.",
                        reason="usage",
                        hint="Use --format bundle with --since, --include or --encrypt-to.",
                    )
                count = await _write_records(session, memory, given, target)
                if file != _STREAM:
                    session.answer({"file": file, "items": count}, f"{file}: {counted(count)}")
                return
            given |= {"format": chosen, "include": include, "encrypt_to": encrypt_to}
            if chosen == "bundle" and file.removesuffix(".age").endswith(".ndjson"):
                given["as_lines"] = True
            if since is not None:
                given |= _goes_on_from(since)
            told = await _write_file(session, memory, given, target)
    finally:
        await memory.close()
    if file != _STREAM:
        body = {"file": file, "size": told["size"], "sha256": told["sha256"], **told["report"]}
        if phrase is not None:  # it is another file than the one that came
            body |= {**_measured(file), "is_sealed": True}
        session.answer(body, *export_sentences(file, body))
        if told["report"]["format"] == "bundle":
            session.note(f"Check it anywhere, without this memory: quipu verify {file}")


async def _write_records(
    session: Session, memory: Memory, given: Mapping[str, Any], target: IO[bytes]
) -> int:
    count = 0
    with session.bar("Exporting") as bar:
        async for record in memory.stream("export_records", given):
            target.write(record.model_dump_json().encode("utf-8", "surrogatepass") + b"\n")
            count += 1
            bar(count)
    return count


async def _write_file(
    session: Session, memory: Memory, given: Mapping[str, Any], target: IO[bytes]
) -> dict[str, Any]:
    """Write it, and see that it came over as it was sent."""
    told: dict[str, Any] = {}
    digest, size = hashlib.sha256(), 0
    parts: AsyncIterator[Any] = memory.stream("export_file", given)
    with session.bar("Exporting") as bar:
        async for part in parts:
            if not told:
                told = {"size": part.size, "sha256": part.sha256, "report": part.report}
            target.write(part.data)
            digest.update(part.data)
            size += len(part.data)
            bar(size, told["size"])
    if (size, digest.hexdigest()) != (told.get("size"), told.get("sha256")):
        raise TamperedError(
            "The file did not come over as it was sent.", reason="wrong_digest", hint="Export it again."
        )
    return told


def _format_of(file: str, *, is_sealed: bool) -> str:
    if file == _STREAM:
        return "bundle" if is_sealed else "records"
    name = file.lower().removesuffix(".age")
    return next((format for suffix, format in _SUFFIXES if name.endswith(suffix)), "bundle")


def _json_object(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        raise InvalidError(
            "The filter is no JSON.", reason="usage", hint="""Write it like '{"tags": "home"}'."""
        ) from None


def _goes_on_from(since: str) -> dict[str, Any]:
    """A position, a moment, or an earlier bundle, which says where it ended."""
    if not Path(since).is_file():
        return {"since": since}
    from quipu.transfer.formats import registry  # help is shown without what reads files
    from quipu.transfer.formats.archive import Source

    with Path(since).open("rb") as opened:
        found = registry.opened(Source(opened, since), "bundle")
    if found.position is None:
        raise InvalidError(
            f"{since} does not say where it ended.",
            reason="usage",
            hint="Give a journal position or a moment.",
        )
    base = {} if found.export_id is None else {"base_export_id": found.export_id}
    return {"since": str(found.position), **base}


@contextmanager
def _sealed(target: IO[bytes], phrase: str | None) -> Generator[IO[bytes]]:
    """Where the file is written before it is sealed. It is sealed here: a passphrase goes nowhere."""
    if phrase is None:
        yield target
        return
    from quipu.transfer import age

    with tempfile.TemporaryFile() as plain:
        yield plain
        plain.seek(0)
        age.seal_with_passphrase(cast("BinaryIO", plain), cast("BinaryIO", target), phrase)


def _measured(file: str) -> dict[str, Any]:
    with Path(file).expanduser().open("rb") as sealed:
        return {"sha256": hashlib.file_digest(sealed, "sha256").hexdigest(), "size": sealed.tell()}


@contextmanager
def _target(file: str, *, is_forced: bool) -> Generator[IO[bytes]]:
    """Where the file is written: beside its place, until it is whole."""
    if file == _STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file).expanduser()
    if path.is_dir():
        raise InvalidError(f"{file} is a folder.", reason="usage", hint="Name a file in it.")
    if not path.parent.is_dir():
        raise InvalidError(f"There is no folder {path.parent}.", reason="no_file", hint="Make it first.")
    if path.exists() and not is_forced:
        raise InvalidError(
            f"{file} is there already.",
            reason="target_exists",
            hint="Choose another name, or repeat with --force.",
        )
    descriptor, draft = tempfile.mkstemp(".draft", f".{path.name}.", path.parent)
    try:
        with closing(os.fdopen(descriptor, "wb")) as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _options() -> Sequence[click.Parameter]:
    return (
        click.Argument(["file"], metavar="FILE", help="Where to; - is standard output."),
        click.Option(
            ["--format"],
            type=click.Choice(_FORMATS),
            help="What to write. Left out: records for .ndjson and .jsonl, mem0 for .mem0.json, letta for "
            ".letta.json, for everything else a bundle.",
        ),
        click.Option(["--agents"], multiple=True, help="Only of this agent; may be given several times."),
        click.Option(["--user-id"], help="Only about this person."),
        click.Option(["--store"], help="Only from this memory store."),
        click.Option(
            ["--types"],
            multiple=True,
            type=click.Choice(("semantic", "episodic", "procedural", "emotional")),
            help="Only this kind of memory; may be given several times.",
        ),
        click.Option(["--filter"], help='Only memories that fit, such as \'{"tags": "home"}\'.'),
        click.Option(
            ["--as-of"], help="As it was then: a journal position, a moment with its zone, or a run."
        ),
        click.Option(
            ["--since"],
            metavar="WHEN|FILE",
            help="Only what has changed since a position, a moment, or an earlier bundle.",
        ),
        click.Option(
            ["--include"],
            multiple=True,
            type=click.Choice(_EXTRAS),
            help="Also in a bundle; may be given several times.",
        ),
        click.Option(
            ["--encrypt-to"],
            multiple=True,
            metavar="age1…",
            help="Seal it for this age recipient; may be given several times.",
        ),
        click.Option(
            ["--passphrase"], is_flag=True, help="Ask for a passphrase, twice, and seal the file with it."
        ),
        click.Option(["--force"], is_flag=True, help="Replace a file that is there."),
    )


EXPORT = HandCommand(
    name="export",
    help="""Take memories out into a file: everything, signed, or what another product reads.

    A bundle holds all that this product knows of each memory, signed by you. The file is there only when it is whole.
    """,
    run=_export,
    parameters=tuple(_options()),
    examples=(
        "quipu export memories.bundle.zip",
        "quipu export more.bundle.zip --since memories.bundle.zip",
        "quipu export memories.bundle.zip.age --encrypt-to age1…",
        "quipu export memories.mem0.json --agents planner",
        "quipu export memories.ndjson",
    ),
)
