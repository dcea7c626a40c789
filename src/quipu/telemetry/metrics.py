"""Instruments: durations of calls, and numbers of Quipu's own. No label holds what a caller chose."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from quipu.telemetry import conventions as c
from quipu.telemetry.describe import Described, Value

_HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_COUNTS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_SCORES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BYTES = (64, 256, 1024, 4096, 16384, 65536, 262144)
#: Everything there is: name, unit, buckets (none: a gauge), what it says.
INSTRUMENTS: tuple[tuple[str, str, tuple[float, ...] | None, str], ...] = (
    (c.DURATION, "s", c.DURATION_BUCKETS, "Duration of GenAI operations."),
    (c.SERVER_DURATION, "s", c.DURATION_BUCKETS, "Duration of memory operations inside the server."),
    (c.HTTP_DURATION, "s", _HTTP_BUCKETS, "Duration of HTTP server requests."),
    (c.MCP_DURATION, "s", c.DURATION_BUCKETS, "Duration of MCP requests as seen by the server."),
    (c.SEARCH_RESULTS, "{record}", _COUNTS, "Memories returned by a search."),
    (c.TOP_SCORE, "1", _SCORES, "Score of the best hit."),
    (c.CONTENT_BYTES, "By", _BYTES, "Size of content that was written."),
    (c.STORE_RECORDS, "{record}", None, "Memories there are, of all tenants."),
    (c.PENDING, "{proposal}", None, "Writes that wait for a person, of all tenants."),
)
#: What the gauges say; None before it is known.
Standing = Callable[[], tuple[int, int] | None]


class Instruments:
    """Those of one meter."""

    def __init__(self, meter: Meter, standing: Standing) -> None:
        self._histograms: dict[str, Histogram] = {}
        for name, unit, buckets, about in INSTRUMENTS:
            if buckets is not None:
                self._histograms[name] = meter.create_histogram(
                    name, unit=unit, description=about, explicit_bucket_boundaries_advisory=list(buckets)
                )
                continue
            place = 0 if name == c.STORE_RECORDS else 1

            def observed(_: CallbackOptions, place: int = place) -> Iterable[Observation]:
                known = standing()
                return [] if known is None else [Observation(known[place])]

            meter.create_observable_gauge(name, [observed], unit=unit, description=about)

    def record(
        self, name: str, value: float, labels: Mapping[str, Any], context: Context | None = None
    ) -> None:
        self._histograms[name].record(value, labels, context)

    def call(
        self,
        one: Described,
        seconds: float,
        started: Mapping[str, Value],
        failed: str | None,
        *,
        is_caller: bool,
        context: Context,
    ) -> None:
        """One call: the convention's metric on the caller's side, our own inside the server and where the memory is."""
        own = _own_labels(one, str(started[c.OPERATION_NAME]), failed)
        if is_caller:
            wanted = (c.OPERATION_NAME, c.PROVIDER_NAME, c.SERVER_ADDRESS, c.SERVER_PORT)
            labels = {name: started[name] for name in wanted if name in started}
            self.record(
                c.DURATION, seconds, labels if failed is None else {**labels, c.ERROR_TYPE: failed}, context
            )
        else:
            self.record(c.SERVER_DURATION, seconds, own, context)
        if failed is not None or c.SERVER_ADDRESS in started:
            return
        results = one.values.get("results")
        if isinstance(results, int) and one.k is not None:
            self.record(c.SEARCH_RESULTS, results, own, context)
        if one.top_score is not None:
            self.record(c.TOP_SCORE, one.top_score, own, context)
        if one.content_bytes is not None:
            self.record(c.CONTENT_BYTES, one.content_bytes, own, context)


def _own_labels(one: Described, name: str, failed: str | None) -> dict[str, Any]:
    labels: dict[str, Any] = {c.OPERATION_NAME: name}
    for key, label in (("scope", c.STORE_SCOPE), ("tier", c.TIER)):
        if key in one.values:
            labels[label] = one.values[key]
    if one.outcome is not None:
        labels[c.OUTCOME] = one.outcome
    if failed is not None:
        labels[c.ERROR_TYPE] = failed
    return labels
