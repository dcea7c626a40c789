"""`quipu verify` and `quipu audit export`: what a person does with proof."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from quipu.audit.model import EVERY_TENANT, FILES, KEYS, TenantReport
from quipu.command import HandCommand, Session
from quipu.errors import ForbiddenError, InvalidError

_FAILED = 2
#: So many faults are shown to a person; a program gets all that are named.
_SHOWN = 20


async def _verify(session: Session, files: tuple[str, ...], tenant: str | None, keys: str | None) -> int:
    """Exit code 0: nothing is wrong and, of exported files, everything is proven."""
    if files and not _is_journal(files):
        # By name: this module stands below those that read files of memories.
        bundles: Any = import_module("quipu.transfer.verifying")
        return bundles.verify_files(session, files, keys)
    if files:
        report = _offline(files, keys)
        is_proven = report.is_verified and not report.reasons
        session.answer({"verified": is_proven, **report.to_dict()}, *_lines(report, is_proven=is_proven))
        return 0 if is_proven else _FAILED
    if keys is not None:
        raise InvalidError("--keys is for exported files.", reason="usage", hint="Name the files as well.")
    memory = session.memory("works")
    try:
        try:
            answer = await memory.call("verify", {"tenant": tenant or EVERY_TENANT})
        except ForbiddenError:
            if tenant is not None:
                raise
            session.note("This credential verifies its own tenant only.")
            answer = await memory.call("verify", {})
    finally:
        await memory.close()
    lines = [line for report in answer.tenants for line in _lines(report, is_proven=report.is_verified)]
    lines += [f"The database: {fault.detail}" for fault in answer.faults]
    lines += [f"Not checked: {said}" for said in answer.unverifiable]
    session.answer(answer.to_dict(), *lines)
    return 0 if answer.verified else _FAILED


def _is_journal(files: tuple[str, ...]) -> bool:
    """Whether the files are those of an exported journal, or their folder; other files are bundles of memories."""
    paths = [Path(name).expanduser() for name in files]
    return any(path.name in FILES or path.is_dir() for path in paths)


def _lines(report: TenantReport, *, is_proven: bool) -> Iterator[str]:
    """A report for a person."""
    counts = (
        (report.entries, "entries"),
        (report.records, "versions"),
        (report.side_rows, "other rows"),
        (report.checkpoints, "signatures"),
        (report.anchors, "published positions"),
    )
    said = ", ".join(f"{count:,} {name}" for count, name in counts if count)
    outcome = "verified" if is_proven else "not proven" if report.is_verified else "NOT as it was written"
    yield f"{report.tenant or '(no tenant)'}: {outcome} ({said or 'nothing there'})"
    for fault in report.faults[:_SHOWN]:
        place = "" if fault.id is None else f"{fault.id}: "
        yield f"  {fault.kind}: {place}{fault.detail}"
    if report.fault_count > _SHOWN:
        yield f"  and {report.fault_count - _SHOWN:,} more; --json names up to 1,000"
    for unchecked in report.unverifiable:
        yield f"  not checked: {unchecked}"


def _offline(files: tuple[str, ...], keys: str | None) -> TenantReport:
    """Exported files, or the folder they are in. No memory is opened."""
    paths = {path.name: path for path in _paths(files)}
    unknown = sorted(paths.keys() - set(FILES))
    if unknown:
        raise InvalidError(
            f"{unknown[0]} is no file of an export.", reason="no_file", hint=f"There are {', '.join(FILES)}."
        )
    with ExitStack() as opened:
        try:
            lines = {
                name: opened.enter_context(path.open(encoding="utf-8", errors="surrogateescape"))
                for name, path in paths.items()
            }
            trusted = None if keys is None else _keys(Path(keys))
        except OSError as error:
            raise InvalidError(
                f"{error.filename} cannot be read.", reason="no_file", hint="Check the path."
            ) from error
        from quipu.audit.offline import verified  # help is shown without what checks signatures

        return verified(lines, trusted)


def _paths(files: tuple[str, ...]) -> Iterator[Path]:
    for name in files:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from (path / file for file in FILES if (path / file).exists())
        else:
            yield path


def _keys(path: Path) -> dict[str, str]:
    """Public keys that came another way than the export."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        return {str(name): str(key) for name, key in found.items()}
    except (ValueError, AttributeError) as error:
        raise InvalidError(
            f"{path} holds no keys.", reason="no_file", hint=f"It is written like {KEYS} of an export."
        ) from error


def _free_place(folder: str) -> Path:
    target = Path(folder).expanduser()
    if target.exists():
        raise InvalidError(
            f"{target} is there already.", reason="target_exists", hint="Name a folder that is not there."
        )
    if not target.parent.is_dir():
        raise InvalidError(f"There is no folder {target.parent}.", reason="no_file", hint="Make it first.")
    return target


async def _export(session: Session, folder: str, with_records: bool) -> int:
    """All files or none: they are written beside the folder first."""
    target = _free_place(folder)
    memory = session.memory("works")
    counts = dict.fromkeys(FILES if with_records else FILES[:-1], 0)
    try:
        with (
            tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as draft,
            ExitStack() as opened,
        ):
            files = {
                name: opened.enter_context((Path(draft) / name).open("w", encoding="utf-8", newline="\n"))
                for name in counts
            }
            given: Mapping[str, Any] = {"with_records": with_records}
            async for item in memory.stream("export_journal", given):
                files[item.file].write(item.line + "\n")
                counts[item.file] += 1
            opened.close()
            target.mkdir()
            for name in counts:
                (Path(draft) / name).rename(target / name)
    finally:
        await memory.close()
    said = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    session.answer({"folder": str(target), "lines": counts}, f"{target}: {said}")
    session.note(f"`quipu verify {target}` checks it. Keep {KEYS} in a place of its own as well.")
    return 0


VERIFY = HandCommand(
    name="verify",
    help="Check that everything is what was written: every tenant, each named. Or files, without any memory: an exported "
    "journal, or bundles of memories.\n\n"
    "Ends with 2 when something is not as it was written, or when files do not prove what they say.",
    run=_verify,
    parameters=(
        click.Argument(
            ["files"],
            nargs=-1,
            required=False,
            help="Files of an exported journal, or their folder; bundles; left out, the memory.",
        ),
        click.Option(["--tenant"], metavar="NAME", help="Only this tenant. Default: every one."),
        click.Option(
            ["--keys"],
            metavar="FILE",
            help="Public keys that came another way than the files; for a bundle the DID document of who signed.",
        ),
    ),
    examples=(
        "quipu verify",
        "quipu verify memories.bundle.zip",
        "quipu verify ./export",
        "quipu verify ./export --keys keys-of-last-year.json",
    ),
)
EXPORT = HandCommand(
    name="audit export",
    help="Export the journal into a folder, to be verified away from the ledger.",
    run=_export,
    parameters=(
        click.Argument(["folder"], help="A folder that is not there yet."),
        click.Option(
            ["--with-records/--no-with-records", "with_records"],
            default=True,
            help="The versions of memories too; without them only the chain.",
        ),
    ),
    examples=("quipu audit export ./export",),
)
