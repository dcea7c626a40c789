"""The OpenTelemetry API, loaded only once somebody in the process has: without it there is nobody to tell.

Nothing but the API is needed. Tracer and meter are fetched when they are first used, and never a global one is set.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from quipu.telemetry import names
from quipu.telemetry.endings import Endings
from quipu.telemetry.measuring import Instruments
from quipu.telemetry.settings import Telemetry

__all__ = ["Engine", "Opened"]


class Opened:
    """A span at work, current until it is closed."""

    __slots__ = ("_token", "context", "outer", "span")

    def __init__(self, span: Span, outer: Context) -> None:
        self.span, self.outer = span, outer
        # One that is not sampled is made current too, so that what is beneath it is not sampled either.
        self.context = span.get_span_context()
        is_known = self.context.is_valid
        self._token = contexts.attach(trace.set_span_in_context(span, outer)) if is_known else None

    def leave(self) -> None:
        """No longer current."""
        if self._token is not None:
            contexts.detach(self._token)
            self._token = None

    def close(
        self,
        end_ns: int,
        name: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        error: tuple[str, str | None] | None = None,
    ) -> None:
        """Ended, with all that is known of it. An error is its type and what may be said about it."""
        if self._token is not None:
            self.leave()
        span = self.span
        if not span.is_recording():
            return
        if name is not None:
            span.update_name(name)
        if error is not None:
            attributes = {**(attributes or {}), names.ERROR_TYPE: error[0]}
            span.set_status(Status(StatusCode.ERROR, error[1]))
        if attributes:
            span.set_attributes(attributes)
        span.end(end_time=end_ns)


class Engine:
    """Makes spans and has instruments, for one provider of each."""

    def __init__(self, telemetry: Telemetry, version: str, *, is_client: bool) -> None:
        self._telemetry = telemetry
        #: Of a span of memory.
        self.memory_kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
        self._tracer = trace.get_tracer(names.SCOPE, version, telemetry.tracer_provider)
        meter = metrics.get_meter(names.SCOPE, version, telemetry.meter_provider)
        self.instruments = Instruments(meter)
        self._version = version
        self._is_tracing = self._is_measuring = False
        #: Where spans may be left to be ended later; None: nobody knows who would miss them.
        self.endings: Endings | None = None

    @property
    def is_tracing(self) -> bool:
        """Whether a provider was set up: the API's own makes nothing of what it is told."""
        if not self._is_tracing:
            provider = self._telemetry.tracer_provider or trace.get_tracer_provider()
            self._is_tracing = _is_real(provider)
            self.endings = getattr(provider, "endings", None) if self._is_tracing else None
        return self._is_tracing

    @property
    def is_measuring(self) -> bool:
        if not self._is_measuring:
            self._is_measuring = _is_real(self._telemetry.meter_provider or metrics.get_meter_provider())
        return self._is_measuring

    def open(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        start_ns: int,
        *,
        links: Sequence[SpanContext] = (),
        is_root: bool = False,
        carrier: Mapping[str, str] | None = None,
    ) -> Opened:
        """A span that is current from now on. A carrier holds somebody else's context, which it continues."""
        outer = Context() if is_root else contexts.get_current()
        if carrier is not None:
            outer = propagate.extract(carrier, outer)
        span = self._tracer.start_span(
            name,
            context=outer,
            kind=kind,
            attributes=attributes,
            links=[Link(link) for link in links] if links else (),
            start_time=start_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        return Opened(span, outer)

    def made(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        times: tuple[int, int],
        outer: Context,
    ) -> None:
        """A span that has ended already."""
        span = self._tracer.start_span(
            name, context=outer, kind=kind, attributes=dict(attributes), start_time=times[0]
        )
        span.end(end_time=times[1])

    @staticmethod
    def around() -> Context:
        """What is current."""
        return contexts.get_current()

    @staticmethod
    def current() -> SpanContext:
        """Where in which trace we are."""
        return trace.get_current_span().get_span_context()

    @staticmethod
    def inject(headers: MutableMapping[str, str]) -> None:
        """The current trace, in whatever form the process propagates it."""
        propagate.inject(headers)

    def event(
        self, name: str, timestamp: int, attributes: Mapping[str, Any], *, is_warning: bool, span: Span
    ) -> None:
        """A log record beside a span. Logs are still an underscored part of the API, so this is optional."""
        from opentelemetry._logs import LogRecord, SeverityNumber, get_logger

        logger = get_logger(names.SCOPE, self._version, self._telemetry.logger_provider)
        logger.emit(
            LogRecord(
                timestamp=timestamp,
                context=trace.set_span_in_context(span),
                severity_number=SeverityNumber.WARN if is_warning else SeverityNumber.INFO,
                attributes=dict(attributes),
                event_name=name,
            )
        )


def _is_real(provider: object) -> bool:
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
