"""Every span of every test before the validator.

In this process and in every `quipu` that a test starts (`tests/watched.py`), each operation of memory is shown in each
convention, and each other span of Quipu's own is taken as it is. No exporter is needed for that. What tests do export is judged
by `tests/telemetry`, as it arrives.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from quipu.model.observation import Observation
from quipu.telemetry.checking import Finding, Level, Point, Span, Terms, checked
from quipu.telemetry.describing import begun, ended
from quipu.telemetry.names import SCOPE, Convention
from quipu.telemetry.settings import Showing
from quipu.telemetry.tracing import Tracing

_WATCHED = Path(__file__).parent / "watched.py"
#: The file, in the folder where processes tell what they found, that holds the faults of all of them.
_SAID = "faults.txt"
#: What the validator has said, in this process, and nobody has been told yet.
_faults: list[str] = []
#: How operations were shown in this process since somebody last looked.
_shown: set[Terms] = set()


def watch(tell: Callable[[str], None] = _faults.append) -> None:
    """From now on, in this process."""

    def operation(seen: Observation, showing: Showing, error: BaseException | None) -> None:
        _shown.add(Terms(convention=showing.convention, allows_content=showing.capture.on_spans))
        for fault in _operation_faults(seen, showing, error):
            tell(fault)

    def block(name: str, kind: str, attributes: Mapping[str, Any], failed: str | None) -> None:
        for fault in _block_faults(name, kind, attributes, failed):
            tell(fault)

    Tracing.watchers, Tracing.block_watchers = (operation,), (block,)


def watch_for(folder: Path) -> None:
    """In a process that a test started: at once and to a file, since it may be killed."""
    (folder / str(os.getpid())).touch()  # that it was watched can be seen

    def tell(fault: str) -> None:
        with (folder / _SAID).open("a", encoding="utf-8") as out:
            out.write(fault + "\n")

    watch(tell)


def command(*words: str) -> list[str]:
    """The `quipu` command as a process that is watched, for tests to start."""
    return [sys.executable, str(_WATCHED), str(told()), *words]


@cache
def told() -> Path:
    """Where the processes that this one starts tell what they found."""
    folder = Path(tempfile.mkdtemp(prefix="quipu-conventions-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def faults() -> list[str]:
    """All there are, here and from processes; they are told once."""
    found = _faults.copy()
    _faults.clear()
    # Asked after every test, of hundreds of processes: one file for all of them, which is seldom there.
    if told.cache_info().currsize and (said := told() / _SAID).exists():
        found += said.read_text("utf-8").splitlines()
        os.truncate(said, 0)
    return found


def exported_faults(
    spans: Sequence[Span], points: Sequence[Point] = (), terms: Terms | None = None
) -> list[str]:
    """Of what was exported. Without other terms a span follows one of the ways in which this process has shown any."""
    ways = [terms] if terms is not None else sorted(_shown, key=str) or [Terms()]
    each = [min((_violations(checked([span], terms=way)) for way in ways), key=len) for span in spans]
    whole = [one for one in checked(spans, points) if one.id == "disconnected" or one.id.startswith("metric")]
    return [_said(one) for found in (*each, whole) for one in found]


def forget_ways() -> None:
    """Before a test."""
    _shown.clear()


def _operation_faults(seen: Observation, showing: Showing, error: BaseException | None) -> list[str]:
    found: list[str] = []
    for convention in Convention:
        so = replace(showing, convention=convention)
        start = begun(seen, so)
        shown = ended(seen, so, start.name, error)
        span = Span(
            name=shown.name,
            kind="CLIENT" if shown.is_client else "INTERNAL",
            attributes={**start.attributes, **shown.attributes},
            status="UNSET" if error is None else "ERROR",
        )
        terms = Terms(convention=convention, allows_content=showing.capture.on_spans)
        found += [f"{convention}: {_said(one)}" for one in _violations(checked([span], terms=terms))]
    return found


def _block_faults(name: str, kind: str, attributes: Mapping[str, Any], failed: str | None) -> list[str]:
    """It is the same in each convention, which the facts say and not this test."""
    given = attributes if failed is None else {**attributes, "error.type": failed}
    status = "UNSET" if failed is None else "ERROR"
    span = Span(name=name, kind=kind, attributes=given, status=status, scope=SCOPE, scope_version="0")
    return [
        f"{convention}: {_said(one)}"
        for convention in Convention
        for one in _violations(checked([span], terms=Terms(convention=convention)))
    ]


def _violations(findings: Sequence[Finding]) -> list[Finding]:
    return [found for found in findings if found.level is Level.VIOLATION]


def _said(found: Finding) -> str:
    return f"{found.span}: {found.id}: {found.message}"
