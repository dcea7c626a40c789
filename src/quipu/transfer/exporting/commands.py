"""`quipu export`: memories into a file of this machine, which is there only when it is whole."""

import hashlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import click

from quipu.command import HandCommand, Memory, Session
from quipu.errors import InvalidError, TamperedError
from quipu.transfer.formats.loss import LossReport

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
_STDOUT = "-"


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
    phrase = None
    if passphrase:
        from quipu.transfer import age  # help is shown without it

        phrase = age.asked_passphrase(is_new=True)
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
                if file != _STDOUT:
                    session.answer({"file": file, "items": count}, f"{file}: {_counted(count, 'memory')}")
                return
            given |= {"format": chosen, "include": include, "encrypt_to": encrypt_to}
            if chosen == "bundle" and file.removesuffix(".age").endswith(".ndjson"):
                given["as_lines"] = True
            if since is not None:
                given |= _goes_on_from(since)
            told = await _write_file(session, memory, given, target)
    finally:
        await memory.close()
    if file != _STDOUT:
        body = {"file": file, "size": told["size"], "sha256": told["sha256"], **told["report"]}
        if phrase is not None:  # it is another file than the one that came
            body |= {**_measured(file), "is_sealed": True}
        session.answer(body, *_lines(file, body))
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


def _lines(file: str, told: Mapping[str, Any]) -> Iterator[str]:
    """The report, in sentences."""
    yield f"{file}: {_counted(told['items'], 'memory')}, {told['size']:,} bytes, sha256 {told['sha256']}"
    if told["tombstones"]:
        yield f"It also names {_counted(told['tombstones'], 'deletion')}, without what was said."
    if told["withheld"]:
        yield (
            f"{_counted(told['withheld'], 'memory')} stayed here, marked as not exportable; "
            "a bundle takes them along with --include non_exportable."
        )
    loss = LossReport.model_validate(told["loss"], strict=False)
    for lost in loss.dropped:
        yield f"The format has no room for {lost.field}: left out {_times(lost.count)}."
    for mapped in loss.mapped:
        yield f"{mapped.origin} became {mapped.to} {_times(mapped.count)}."
    if told["signed_by"] is not None:
        yield f"Signed by {told['signed_by']}."
    if told["is_sealed"]:
        yield "Sealed: only who has the key of a recipient, or the passphrase, can read it."
    if told["format"] == "bundle":
        yield f"The next one can go on from here: quipu export NEXT --since {told['position']}"


def _counted(count: int, what: str) -> str:
    many = {"memory": "memories"}.get(what, f"{what}s")
    return f"{count:,} {what if count == 1 else many}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _format_of(file: str, *, is_sealed: bool) -> str:
    if file == _STDOUT:
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
    if file == _STDOUT:
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
