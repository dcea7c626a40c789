"""The OpenTelemetry API, loaded only once something in the process has: without it there is nobody to tell.

Nothing but the API is needed, and never is a global provider set.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from quipu._version import __version__
from quipu.telemetry import conventions as c
from quipu.telemetry.describe import Described, Value
from quipu.telemetry.settings import Telemetry

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


__all__ = ["Engine", "Opened"]


class Opened:
    """A span at work, current until it is closed."""

    __slots__ = ("_clock", "_token", "context", "outer", "span")

    def __init__(self, span: Span, outer: Context, clock: Callable[[], int] | None) -> None:
        self.span, self.outer, self._clock = span, outer, clock
        self.context = span.get_span_context()
        # One that is not sampled is made current too: what is beneath it is not sampled either.
        self._token = (
            contexts.attach(trace.set_span_in_context(span, outer)) if self.context.is_valid else None
        )

    def close(
        self,
        name: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        error: tuple[str, str | None] | None = None,
    ) -> None:
        """End it, with all that is known of it. An error is its type and what may be said of it."""
        if self._token is not None:
            contexts.detach(self._token)
            self._token = None
        span = self.span
        if not span.is_recording():
            return
        if name is not None:
            span.update_name(name)
        if attributes:
            span.set_attributes(attributes)
        if error is not None:
            span.set_attribute(c.ERROR_TYPE, error[0])
            span.set_status(Status(StatusCode.ERROR, error[1]))
        span.end(None if self._clock is None else self._clock())


class Engine:
    """Makes spans and has instruments, for one provider of each."""

    def __init__(self, given: Telemetry, standing: Standing) -> None:
        self._given = given
        self._tracer = trace.get_tracer(c.SCOPE, __version__, given.tracer_provider)
        self._standing = standing
        self._instruments: Instruments | None = None
        self._is_tracing = False

    @property
    def is_tracing(self) -> bool:
        """Whether a provider was set up: the API's own makes nothing of what it is told. It stays as long as we do."""
        if not self._is_tracing:
            self._is_tracing = _is_real(self._given.tracer_provider or trace.get_tracer_provider())
        return self._is_tracing

    @property
    def instruments(self) -> Instruments | None:
        """None while numbers go nowhere."""
        if self._instruments is None:
            provider = self._given.meter_provider or metrics.get_meter_provider()
            if _is_real(provider):
                meter = metrics.get_meter(c.SCOPE, __version__, provider)
                self._instruments = Instruments(meter, self._standing)
        return self._instruments

    def open(
        self,
        name: str,
        kind: str,
        attributes: Mapping[str, Any],
        *,
        links: Sequence[SpanContext] = (),
        is_root: bool = False,
        carrier: Mapping[str, str] | None = None,
    ) -> Opened:
        """A span that is current from now on. A carrier holds somebody else's trace, which it continues."""
        clock = self._given.clock_ns
        outer = Context() if is_root else contexts.get_current()
        if carrier is not None:
            outer = propagate.extract(carrier, outer)
        span = self._tracer.start_span(
            name,
            context=outer,
            kind=SpanKind[kind],
            attributes=attributes,
            links=[Link(link) for link in links] if links else (),
            start_time=None if clock is None else clock(),
            record_exception=False,
            set_status_on_exception=False,
        )
        return Opened(span, outer, clock)

    def made(
        self,
        name: str,
        kind: str,
        attributes: Mapping[str, Any],
        error: tuple[str, str | None] | None = None,
        *,
        beside: Opened | None = None,
        beneath: Opened | None = None,
    ) -> None:
        """A span that has ended already: beside or beneath another one it has its times, by itself none to speak of."""
        other, around = beside or beneath, None
        start = end = None if self._given.clock_ns is None else self._given.clock_ns()
        if other is not None:
            around = other.outer if beneath is None else trace.set_span_in_context(other.span, other.outer)
            start, end = getattr(other.span, "start_time", None), getattr(other.span, "end_time", None)
        span = self._tracer.start_span(
            name, context=around, kind=SpanKind[kind], attributes=attributes, start_time=start
        )
        if error is not None:
            span.set_attribute(c.ERROR_TYPE, error[0])
            span.set_status(Status(StatusCode.ERROR, error[1]))
        span.end(end)

    @staticmethod
    def around() -> Context:
        return contexts.get_current()

    @staticmethod
    def current() -> SpanContext:
        return trace.get_current_span().get_span_context()

    @staticmethod
    def inject(headers: MutableMapping[str, str]) -> None:
        propagate.inject(headers)


def _is_real(provider: object) -> bool:
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
