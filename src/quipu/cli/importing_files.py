"""import, of whole files: what they are, bringing them in, and the report."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from quipu.cli import interrupted, output, sealing
from quipu.cli.proof import trusted
from quipu.cli.session import HELD, Session, Use
from quipu.errors import InvalidError, QuipuError

if TYPE_CHECKING:
    from quipu.model.moving import ImportReport, LossReport

FormatWord: TypeAlias = Literal[
    "ndjson",
    "quipu-bundle-v1",
    "pam-1.0",
    "omi-l1",
    "markdown",
    "mem0",
    "letta-blocks",
    "chatgpt",
    "claude",
    "gemini",
    "text",
]
Format: TypeAlias = Annotated[
    FormatWord | None,
    typer.Option("--format", help="What the file is; without it, that is told by looking."),
]
#: So many refused items are listed.
_LISTED = 20
_GO_ON = "Part of the file may be in. Bring it in again: what is in does not come twice."


def format_of(file: Path, said: str | None) -> str | None:
    """The format of a file that is brought in as a whole; None for lines, which come one by one."""
    if said is not None:
        return None if said == "ndjson" else said
    if str(file) == "-" or not file.is_file():
        return None
    from quipu.formats.archives import Source
    from quipu.formats.reading import detected

    with file.open("rb") as opened:
        if opened.read(2) == b"PK":
            return detected(Source(opened, file.name)).value
        try:
            found = detected(Source(opened, file.name)).value
        except QuipuError:
            return None  # lines may begin with anything; each is looked at by itself
    return None if found == "text" and file.suffix not in (".txt", ".md") else found


def bring_in(
    run: Session,
    file: Path,
    format: str | None,
    *,
    dry_run: bool,
    store: str | None,
    keys: Path | None,
    foreign_owner: bool,
    identity: Path | None = None,
    words: Path | None = None,
) -> None:
    """Try it, carry it out, and say what became of it."""
    with (
        _at_hand(file) as path,
        run.memory(model=not dry_run, use=Use.TRIES if dry_run else Use.MAKES) as memory,
        run.bar("Importing", "items") as bar,
        interrupted.telling(run, lambda: None if dry_run else _GO_ON),
    ):
        report = memory.import_file(
            path,
            format=format,
            dry_run=dry_run,
            store=store,
            keys=None if keys is None else trusted(keys),
            foreign_owner=foreign_owner,
            identities=sealing.identities(identity),
            passphrase=sealing.passphrase(words),
            progress=bar,
        )
    if not run.answer_json(body(report)):
        _show(run, report)
    if report.refused:
        raise typer.Exit(1)
    if (report.quarantined or report.removals_waiting) and not dry_run:
        raise typer.Exit(HELD)


@contextmanager
def _at_hand(file: Path) -> Generator[Path]:
    """The file; what comes by a pipe is put into one first, because it is looked at more than once."""
    is_piped = str(file) == "-"
    if not is_piped and not file.exists():
        raise InvalidError(f"{file} is not there.", reason="no_file", hint="Check the path.")
    if not is_piped and file.is_file():
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="quipu-import-") as folder, ExitStack() as stack:
        try:
            source = sys.stdin.buffer if is_piped else stack.enter_context(file.open("rb"))
        except OSError as error:
            raise InvalidError(
                f"{file} cannot be read: {error.strerror}.", reason="no_file", hint="Check the path."
            ) from error
        path = Path(folder) / "stdin"
        with path.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield path


def body(report: ImportReport) -> dict[str, Any]:
    """The report for a program."""
    names = (
        "import_id", "sha256", "file_name", "importer_version", "dry_run", "read", "accepted", "quarantined",
        "duplicate", "conflict", "updated", "removed", "removals_waiting", "kept", "refused", "signature", "owner", "export_id", "instruction_like",
    )  # fmt: skip
    return {
        **{name: getattr(report, name) for name in names},
        "format": report.format.value,
        "rejected": [
            {"line": one.line, "reason": one.reason, "message": one.message} for one in report.rejected
        ],
        "loss": loss_body(report.loss),
    }


def loss_body(loss: LossReport) -> dict[str, Any]:
    """What got lost, for a program."""
    return {
        "dropped": [{"field": one.field, "count": one.count} for one in loss.dropped],
        "mapped": [{"from": one.origin, "to": one.to, "count": one.count} for one in loss.mapped],
    }


def _show(run: Session, report: ImportReport) -> None:
    shown, notes = output.console(), output.notes()
    word = "Would import" if report.dry_run else "Imported"
    shown.print(
        f"{word} {report.accepted:,} of {output.counted(report.read, 'item')} ({report.format.value})",
        markup=False,
    )
    facts = [
        (report.quarantined, "wait for approval" if not report.dry_run else "would wait for approval"),
        (report.duplicate, "are there already"),
        (report.conflict, "have an id that says something else here, and get a new one"),
        (report.updated, "of them are new versions of what came before"),
        (
            report.removed,
            "forgotten there, and here" if not report.dry_run else "would be forgotten, as there",
        ),
        (report.removals_waiting, "forgotten there, and wait for approval here"),
        (report.kept, "forgotten there, but kept: they are yours, or were changed here"),
        (report.refused, "refused"),
        (report.instruction_like, "talk to a model instead of about the world"),
    ]
    for count, said in facts:
        if count:
            shown.print(f"  {count:,} {said}", markup=False)
    show_loss(report.loss)
    for one in report.rejected[:_LISTED]:
        notes.print(f"item {one.line}: {one.reason}: {one.message}", markup=False, style="red")
    if (report.quarantined or report.removals_waiting) and not report.dry_run:
        run.note(f"quipu imports approve {report.import_id}")
    elif not report.dry_run:
        run.note(f"import {report.import_id}; `quipu imports undo` takes it back")


def show_loss(loss: LossReport) -> None:
    """What got lost, for a person."""
    shown = output.console()
    for one in loss.dropped:
        shown.print(f"  lost: {one.field} ({one.count:,})", markup=False)
    for one in loss.mapped:
        shown.print(f"  became: {one.origin} → {one.to} ({one.count:,})", markup=False)
