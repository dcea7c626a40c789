"""export, of whole files: bundles, and what other assistants read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Any

from quipu.cli import output, values
from quipu.cli.importing_files import loss_body, show_loss
from quipu.cli.session import Session
from quipu.errors import InvalidError


class FormatName(StrEnum):
    """What can be written."""

    NDJSON = "ndjson"
    BUNDLE = "quipu-bundle-v1"
    PAM = "pam-1.0"
    OMI = "omi-l1"
    MARKDOWN = "markdown"
    MEM0 = "mem0"
    LETTA = "letta-blocks"


def base(since: str | None) -> dict[str, Any]:
    """Where an export goes on from: a moment, a position, or what a bundle says of itself."""
    if since is None or not Path(since).is_file():
        return {"since": None if since is None else values.as_of(since)}
    from quipu.cli.bundles import describe

    opened = describe(Path(since), None, None)
    if opened.position is None:
        raise InvalidError.at("/since", "bad_value", "That file does not say where it ended.")
    return {"since": opened.position, "base_export_id": opened.export_id}


def take_out(run: Session, file: Path, format: str, **chosen: Any) -> None:
    """Write the file, and say what is in it and what got lost. Through a pipe a bundle goes as lines."""
    is_piped = str(file) == "-"
    suffix = file.with_suffix("").suffix if file.suffix == ".age" else file.suffix
    is_lines = format == FormatName.BUNDLE.value and (is_piped or suffix in (".ndjson", ".jsonl"))
    with tempfile.TemporaryDirectory(prefix="quipu-export-") as folder, run.memory() as memory:
        target = Path(folder) / "export" if is_piped else file
        report = memory.export_file(target, format=format, as_lines=is_lines, **chosen)
        if is_piped:
            with target.open("rb") as source:
                shutil.copyfileobj(source, sys.stdout.buffer)
            return
    told: dict[str, Any] = {
        "file": str(file),
        "format": format,
        "items": report.items,
        "withheld": report.withheld,
        "export_id": report.export_id,
        "sha256": report.sha256,
        "size": report.size,
        "loss": loss_body(report.loss),
    }
    if run.answer_json(told):
        return
    output.console().print(
        f"Exported {output.counted(report.items, 'memory', 'memories')} to {file} ({format})", markup=False
    )
    if report.withheld:
        output.console().print(f"  {report.withheld:,} left at home, as their writers wanted", markup=False)
    show_loss(report.loss)
    if format == FormatName.BUNDLE.value:
        run.note(f"Check it anywhere with `quipu bundle verify {file}`.")
