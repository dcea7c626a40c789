"""Every operation of every test, as a span in each convention, before the validator. No exporter is needed for that."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.observation import Observation
from quipu.telemetry.checking import Level, Span, Terms, checked
from quipu.telemetry.describing import described
from quipu.telemetry.names import Convention
from quipu.telemetry.settings import Showing
from quipu.telemetry.tracing import Tracing

#: What the validator has said in this process so far.
FAULTS: list[str] = []


def watch() -> None:
    """From now on, in this process."""
    Tracing.watchers = (_check,)


def _check(seen: Observation, showing: Showing, error: BaseException | None) -> None:
    for convention in Convention:
        shown = described(seen, replace(showing, convention=convention), error)
        span = Span(
            name=shown.name,
            kind="CLIENT" if shown.is_client else "INTERNAL",
            attributes=shown.attributes,
            status="UNSET" if error is None else "ERROR",
        )
        terms = Terms(convention=convention, allows_content=True)
        FAULTS.extend(
            f"{convention}: {found.span}: {found.id}: {found.message}"
            for found in checked([span], terms=terms)
            if found.level is Level.VIOLATION
        )
