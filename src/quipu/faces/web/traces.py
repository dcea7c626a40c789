"""The last traces of this server, for those who run it: what took how long, and nothing of what it was about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from starlette.responses import Response

from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission
from quipu.telemetry import names
from quipu.telemetry.recent import Kept

_SHOWN = 30
#: The picture's width is a thousand; a name has the first part of it, and what is said of a bar the last.
_LEFT, _WIDE, _ROW = 300.0, 420.0, 26
_LEAST = 2.0
_MS = 1_000_000
#: What is said beside a bar, and in which words.
_SAID = {
    names.OUTCOME: "{}",
    names.RESULT_COUNT: "{} found",
    names.SEARCH_K: "{} asked for",
    names.HTTP_STATUS: "{}",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One span of a waterfall."""

    name: str
    #: Where its row begins, and how far in its name stands.
    y: int
    indent: int
    x: float
    width: float
    milliseconds: float
    error: str | None
    said: str
    is_operation: bool


@dataclass(frozen=True, slots=True)
class Waterfall:
    """One trace: bars below each other, from the first span to the last."""

    name: str
    began_at: int
    milliseconds: float
    error: str | None
    bars: tuple[Bar, ...]
    height: int


def waterfall(trace: Kept) -> Waterfall:
    """Every span beneath the one it belongs to, to the measure of the first."""
    length = max(trace.end_ns - trace.start_ns, 1)
    rows = list(_rows(trace, 0))
    bars = tuple(
        Bar(
            name=span.name,
            y=place * _ROW,
            indent=depth * 16,
            x=round(_LEFT + _WIDE * min(max((span.start_ns - trace.start_ns) / length, 0), 1), 2),
            width=round(max(_WIDE * min((span.end_ns - span.start_ns) / length, 1), _LEAST), 2),
            milliseconds=(span.end_ns - span.start_ns) / _MS,
            error=span.error,
            said=_said(span),
            is_operation=span.is_operation,
        )
        for place, (span, depth) in enumerate(rows)
    )
    error = next((span.error for span, _ in rows if span.error is not None), None)
    return Waterfall(trace.name, trace.start_ns // _MS, length / _MS, error, bars, max(len(bars), 1) * _ROW)


def _rows(span: Kept, depth: int) -> Iterator[tuple[Kept, int]]:
    yield span, depth
    for child in sorted(span.children, key=lambda one: one.start_ns):
        yield from _rows(child, depth + 1)


def _said(span: Kept) -> str:
    return ", ".join(
        words.format(span.attributes[name]) for name, words in _SAID.items() if name in span.attributes
    )


async def page(visit: Visit) -> Response:
    """Needs server:operate: it tells of every tenant's requests."""
    visit.need(Permission.OPERATE)
    recent = visit.site.recent
    return visit.page(
        "traces.html",
        is_kept=recent is not None,
        operations=() if recent is None else recent.operations,
        traces=[] if recent is None else [waterfall(trace) for trace in recent.traces[:_SHOWN]],
    )
