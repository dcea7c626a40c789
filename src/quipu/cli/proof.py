"""verify: is everything what it was? On the memory itself, or on an exported journal without any database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import InvalidError, TamperedError, UnverifiableError

if TYPE_CHECKING:
    from quipu.model.journal import Checkpoint
    from quipu.model.outcomes import Verification

app = typer.Typer()

FAULTY, UNCHECKED = 2, 1
_FILES = ("journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson")
#: So many faults are listed; the first is what matters.
_LISTED = 10


Export: TypeAlias = Annotated[
    Path | None,
    typer.Option("--export", metavar="DIR", help="Check an exported journal; no database is opened."),
]
Keys: TypeAlias = Annotated[
    Path | None,
    typer.Option("--keys", metavar="FILE", help="Public keys you trust, as `quipu audit keys` prints them."),
]
Kept: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--kept",
        metavar="PATH",
        help="Signed positions that you kept elsewhere: an earlier export, or a file of them. The journal must pass through each.",
    ),
]


@app.command("verify", cls=Command, rich_help_panel="Proof")
def verify(ctx: typer.Context, export: Export = None, keys: Keys = None, kept: Kept = None) -> None:
    """Check that nothing was altered, and name the first fault.

    [bold]Examples[/bold]
      quipu verify
      quipu audit keys > trusted.json                  once, kept somewhere else
      quipu export --journal proof/
      quipu verify --export proof/ --keys trusted.json
      quipu verify --kept proof/ --keys trusted.json   nothing was cut off or written anew since

    Checked are the chain, every digest, the signatures, the index and what stands beside the records.
    Exit codes: 0 all holds, 1 not all could be checked (a key, a signature, the records or the memory is missing), 2 a fault.
    See also: export --journal, audit log, doctor.
    """
    run = Session.of(ctx)
    if keys is not None and export is None and kept is None:
        raise InvalidError(
            "--keys goes with --export or --kept.", reason="usage", hint="The memory knows its own keys."
        )
    points = [] if kept is None else kept_points(kept)
    found = live(run, points, keys) if export is None else offline(export, keys, points)
    report(run, found)
    if export is not None and keys is None and found.holds:
        run.note(
            "Signatures were checked with the keys in the export itself; --keys checks them against yours."
        )
    if not found.holds:
        raise typer.Exit(FAULTY)
    if found.unverifiable:
        raise typer.Exit(UNCHECKED)


def live(run: Session, kept: Sequence[Checkpoint] = (), keys: Path | None = None) -> Verification:
    with run.memory() as memory:
        with run.bar("Checking", "entries") as bar:
            found = memory.verify(bar)
        if not kept:
            return found
        passed: dict[int, str | None] = {}
        for point in kept:
            entries = memory.journal(after=point.seq - 1, limit=1) if point.seq > 0 else ()
            passed[point.seq] = entries[0].hash if entries and entries[0].seq == point.seq else None
        return _against(found, kept, passed, trusted(keys) if keys else dict(memory.signing_keys()))


def _against(
    found: Verification, kept: Sequence[Checkpoint], passed: dict[int, str | None], keys: dict[str, str]
) -> Verification:
    """The same, and whether the chain passes through what was signed before and kept elsewhere."""
    from quipu import bootstrap
    from quipu.rules import chain
    from quipu.service.exported_audit import check_points, in_words

    walk = chain.Walk(bootstrap.canonical, wanted=passed)
    faults = list(found.faults)

    def check(message: bytes, key: str, signature: str) -> bool:
        return bootstrap.verify(message, key, signature, keys)

    unchecked = in_words(check_points(kept, walk, bootstrap.canonical, check, faults))
    return replace(
        found,
        faults=chain.in_order(dict.fromkeys(faults)),
        checkpoints=found.checkpoints + len(kept),
        unverifiable=tuple(dict.fromkeys((*found.unverifiable, *unchecked["unverifiable"]))),
        reasons=tuple(dict.fromkeys((*found.reasons, *unchecked["reasons"]))),
    )


def kept_points(place: Path) -> list[Checkpoint]:
    """Signed positions out of an earlier export, or a file with one in each line."""
    from quipu.service.exported_audit import checkpoint_of

    file = place / "checkpoints.ndjson" if place.is_dir() else place
    try:
        lines = [line for line in file.read_text("utf-8").split("\n") if line.strip()]
        points = [checkpoint_of(json.loads(line)) for line in lines]
    except (OSError, ValueError, RecursionError):
        points = []
    kept = [point for point in points if point is not None]
    if not kept or len(kept) < len(points):
        raise UnverifiableError(
            f"There are no signed positions in {file}, or something else stands among them.",
            reason="missing_file",
            hint="`quipu export --journal DIR` writes them; each line of DIR/checkpoints.ndjson is one.",
        )
    return kept


def offline(folder: Path, keys: Path | None, kept: Sequence[Checkpoint] = ()) -> Verification:
    """Check the exported files, and nothing but them."""
    from quipu import bootstrap
    from quipu.service.exported_audit import verified_export

    if not (folder / "journal.ndjson").is_file():
        raise UnverifiableError(
            f"There is no exported journal in {folder}.",
            reason="missing_file",
            hint="`quipu export --journal DIR` writes one.",
        )
    files: dict[str, Iterable[str]] = {
        name: _lines(folder / name) for name in _FILES if (folder / name).is_file()
    }
    files["keys.json"] = [json.dumps(trusted(keys or folder / "keys.json"))]
    try:
        return verified_export(files, bootstrap.canonical, bootstrap.verify, kept)
    except (ValueError, TypeError, KeyError) as error:
        raise TamperedError(
            "An exported file does not have the form that export gives it.",
            reason="altered_entry",
            hint="Export again; if this is the export you were given, it was altered.",
        ) from error


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise TamperedError(
            f"{file.name} is not UTF-8 text.",
            reason="altered_entry",
            hint="Export again; if this is the export you were given, it was altered.",
        ) from error


def trusted(file: Path) -> dict[str, str]:
    """Public keys by id, as `quipu audit keys` prints them."""
    try:
        found: Any = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnverifiableError(
            f"There are no public keys in {file}.",
            reason="missing_key",
            hint="`quipu audit keys` prints those of a memory.",
        )
    return {str(name): str(key) for name, key in cast("dict[Any, Any]", found).items()}


def report(run: Session, found: Verification) -> None:
    """What was checked and what was found."""
    if run.answer_json(body(found)):
        return
    shown = output.console()
    if not found.holds:
        first, *rest = found.faults
        shown.print(f"First fault: {_said(first)}", style="bold red", markup=False)
        for fault in rest[: _LISTED - 1]:
            shown.print(f"             {_said(fault)}", markup=False)
        if len(rest) >= _LISTED:
            shown.print(f"             and {len(rest) - _LISTED + 1} more", markup=False)
        if all(fault.kind == "index_differs" for fault in found.faults):
            run.note("Every memory is what it was: only the search index differs, and is mended as said.")
        else:
            run.note("Restore a backup that verifies, and find out who could write to the file.")
    for why in found.unverifiable:
        shown.print(f"Not checked: {why}", style="yellow", markup=False)
    if found.holds:
        word = "Holds" if not found.unverifiable else "No fault found, but not everything could be checked"
        shown.print(word, style="green" if not found.unverifiable else "yellow", markup=False)
    if not run.is_quiet:
        counts = [output.counted(found.entries, "entry", "entries"), output.counted(found.records, "version")]
        counts.append(output.counted(found.checkpoints, "checkpoint"))
        shown.print(" · ".join(counts), style="dim", markup=False)
        shown.print(f"head {found.head_seq} {found.head_hash}", style="dim", markup=False, soft_wrap=True)


def _said(fault: Any) -> str:
    where = [f"position {fault.seq}" if fault.seq is not None else "", fault.id or ""]
    return output.clean(f"{fault.kind} at {', '.join(filter(None, where)) or 'the file'}: {fault.detail}")


def body(found: Verification) -> dict[str, Any]:
    point = found.last_checkpoint
    return {
        "holds": found.holds,
        "entries": found.entries,
        "records": found.records,
        "checkpoints": found.checkpoints,
        "head": {"seq": found.head_seq, "hash": found.head_hash},
        "last_checkpoint": None
        if point is None
        else {"seq": point.seq, "at": point.at, "key_id": point.key_id},
        "faults": [
            {"kind": fault.kind, "detail": fault.detail, "seq": fault.seq, "id": fault.id}
            for fault in found.faults
        ],
        "unverifiable": list(found.unverifiable),
        "reasons": list(found.reasons),
    }
