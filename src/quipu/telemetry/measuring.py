"""Instruments: durations of calls, and numbers of Quipu's own. No label holds what a caller chose.

An operation only notes its numbers. They are counted several calls at a time, and before whoever collects them looks: one by one
they would cost an operation as much as its span does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from weakref import ref

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter
from opentelemetry.metrics import Observation as Observed

from quipu.model.observation import Became, Observation
from quipu.telemetry import names
from quipu.telemetry.describing import (
    Begun,
    a_scope,
    a_tier,
    error_type,
    labels,
    own_labels,
)

_HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_COUNTS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_SCORES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BYTES = (64, 256, 1024, 4096, 16384, 65536, 262144)
#: So many calls wait at most: the longer the row, the less each costs, and the longer the one waits that counts it.
_MOST_NOTED = 64
#: Of a call that no trace was around. It is not empty, since for an empty one the trace of whoever counts is taken.
_NOWHERE = Context({"quipu.telemetry": "nowhere"})


#: What calls are told apart by: how it began, scope and tier as they were seen (of a request that was refused they may be
#: anything), what it became and what it failed with.
_Kind: TypeAlias = tuple[Begun, object, object, Became | None, str | None]
#: A call that is not counted yet: its kind; seconds, results and top score of a search, bytes of a write; its context.
_Noted: TypeAlias = tuple[_Kind, float, int | None, float | None, int | None, Context]


#: All there are in the process: of several on one provider, whoever collects asks the first alone.
_LIVING: list[ref[Instruments]] = []


class Instruments:
    """Everything that is counted."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            names.DURATION,
            unit="s",
            description="Duration of GenAI operations.",
            explicit_bucket_boundaries_advisory=list(names.DURATION_BUCKETS),
        )
        self._served = meter.create_histogram(
            names.SERVER_DURATION,
            unit="s",
            description="Duration of memory operations inside the server.",
            explicit_bucket_boundaries_advisory=list(names.DURATION_BUCKETS),
        )
        self.http = meter.create_histogram(
            names.HTTP_DURATION,
            unit="s",
            description="Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=list(_HTTP_BUCKETS),
        )
        self.mcp = meter.create_histogram(
            names.MCP_DURATION,
            unit="s",
            description="Duration of MCP requests as seen by the server.",
            explicit_bucket_boundaries_advisory=list(names.DURATION_BUCKETS),
        )
        self._results = meter.create_histogram(
            names.SEARCH_RESULTS,
            unit="{record}",
            description="Memories returned by a search.",
            explicit_bucket_boundaries_advisory=list(_COUNTS),
        )
        self._top = meter.create_histogram(
            names.TOP_SCORE,
            unit="1",
            description="Score of the best hit.",
            explicit_bucket_boundaries_advisory=list(_SCORES),
        )
        self._bytes = meter.create_histogram(
            names.CONTENT_BYTES,
            unit="By",
            description="Size of content that was written.",
            explicit_bucket_boundaries_advisory=list(_BYTES),
        )
        self._noted: deque[_Noted] = deque()
        _LIVING[:] = [*(known for known in _LIVING if known() is not None), ref(self)]
        self._standing: tuple[int, int] | None = None
        meter.create_observable_gauge(
            names.STORE_RECORDS,
            [lambda options: self._collected(options, 0)],
            unit="{record}",
            description="Memories there are.",
        )
        meter.create_observable_gauge(
            names.PENDING,
            [lambda options: self._collected(options, 1)],
            unit="{proposal}",
            description="Writes that wait for a person.",
        )

    def operation(
        self,
        seen: Observation,
        begun: Begun,
        seconds: float,
        error: BaseException | None,
        around: Context,
    ) -> None:
        """One call, and the context it was made in."""
        is_ours = error is None and begun.is_ours
        failed = None if error is None else error_type(error)
        self._noted.append(
            (
                (begun, seen.scope, seen.tier, seen.became, failed),
                seconds,
                seen.count if is_ours and seen.k is not None else None,
                seen.top_score if is_ours else None,
                seen.content_bytes if is_ours else None,
                around or _NOWHERE,
            )
        )
        if len(self._noted) >= _MOST_NOTED:
            self._count()

    def standing(self, records: int, pending: int) -> None:
        """How things stand."""
        self._standing = records, pending

    def _collected(self, _options: CallbackOptions, which: int) -> Iterable[Observed]:
        """Whoever collects asks for these first: what is noted is counted by then."""
        for one in [found for known in _LIVING if (found := known()) is not None]:
            one._count()
        return [] if self._standing is None else [Observed(self._standing[which])]

    def _count(self) -> None:
        """One after another, each as its own measurement; most are of the same kind as the one before."""
        noted = self._noted
        last: _Kind | None = None
        told: Mapping[str, Any] = {}
        own: Mapping[str, Any] = {}
        while noted:
            try:
                kind, seconds, results, top_score, content_bytes, context = noted.popleft()
            except IndexError:  # another thread was faster
                return
            if last is None or not _is_same(kind, last):
                last, (told, own) = kind, _labels_of(kind)
            # The caller's side counts a call for the convention, the server's side for itself.
            (self._duration if kind[0].is_callers else self._served).record(seconds, told, context)
            if results is not None:
                self._results.record(results, own, context)
            if top_score is not None:
                self._top.record(top_score, own, context)
            if content_bytes is not None:
                self._bytes.record(content_bytes, own, context)


def _is_same(kind: _Kind, other: _Kind) -> bool:
    """The very same parts: enumerations would each be hashed, or compared, by a function of their own."""
    return (
        kind[0] is other[0]
        and kind[1] is other[1]
        and kind[2] is other[2]
        and kind[3] is other[3]
        and kind[4] == other[4]
    )


def _labels_of(kind: _Kind) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Of the duration, and of Quipu's own numbers."""
    begun, scope, tier, became, failed = kind
    own = own_labels(begun.name, a_scope(scope), a_tier(tier), became, failed)
    if not begun.is_callers:
        return own, own
    return begun.labels if failed is None else labels(begun.attributes, failed), own
