"""The OpenTelemetry API, loaded only once something in the process has: without it there is nobody to tell.

Nothing but the API is needed, and never is a global provider set.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from quipu._version import __version__
from quipu.telemetry import conventions as c
from quipu.telemetry.metrics import Instruments, Standing
from quipu.telemetry.settings import Telemetry

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
