"""What an import would do, or did, as memory exchange tells it (OAP contract 10.3)."""

from __future__ import annotations

from typing import Any

from quipu.errors import QuipuError
from quipu.model.moving import ImportReport, RolledBack

_NAMES = (
    "import_id",
    "sha256",
    "signature",
    "dry_run",
    "read",
    "accepted",
    "quarantined",
    "duplicate",
    "conflict",
    "updated",
    "removed",
    "removals_waiting",
    "kept",
    "instruction_like",
)


def told_import(report: ImportReport) -> dict[str, Any]:
    """The report, with a few items as they would be kept."""
    return {
        **{name: getattr(report, name) for name in _NAMES},
        "format": report.format.value,
        "rejected": [{"line": one.line, "reason": one.reason} for one in report.rejected],
        "sample": list(report.sample),
    }


def told_undoing(undone: RolledBack) -> dict[str, Any]:
    """What an import that was undone leaves behind."""
    names = ("import_id", "forgotten", "withdrawn", "restored")
    return {**{name: getattr(undone, name) for name in names}, "kept": list(undone.kept)}


def told_line(error: QuipuError) -> str:
    """What is wrong with a line, and where in it: among thousands nobody finds it by the message alone."""
    place = error.faults[0].pointer if error.faults else ""
    return f"{error.code}: {error.message}{f' At {place}.' if place else ''}"
