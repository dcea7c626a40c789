"""One operation of memory on its way out: what is done before it, and what is told after it.

Recall is what an agent does most, and a search has swept the processor's caches by the time its span ends: every call that
stands on this path costs several times what it costs by itself. So the way of a recall that went well is a short one.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from quipu.errors import QuipuError
from quipu.model.observation import Action, Observation
from quipu.telemetry import content, names
from quipu.telemetry.describing import Begun, description, ended, error_type
from quipu.telemetry.recalls import Recalls
from quipu.telemetry.recent import Recent
from quipu.telemetry.settings import Showing

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from quipu.telemetry.engine import Engine, Opened

_log = logging.getLogger("quipu.telemetry")

#: Told of every finished operation: what was seen, how it is shown here, and what it failed with.
Watcher = Callable[[Observation, Showing, BaseException | None], None]


class Told(Protocol):
    """Whoever an operation is told to, as far as it needs to know them."""

    watchers: ClassVar[tuple[Watcher, ...]]
    showing: Showing
    clock_ns: Callable[[], int]
    recent: Recent | None
    #: How recalls end; None where their content is shown, which is never the same.
    recalls: Recalls | None
    wants_content: bool

    def remembered(self, seen: Observation, context: SpanContext) -> None:
        """Keep where a write was made, as long as something may follow from it."""
        ...


class Operation:
    """One operation of memory: a span, or several where several things went."""

    __slots__ = (
        "_begun",
        "_end",
        "_engine",
        "_is_shown",
        "_kept",
        "_meter",
        "_opened",
        "_seen",
        "_start",
        "_tracing",
    )

    def __init__(
        self, tracing: Told, seen: Observation, begun: Begun, engine: Engine | None, meter: Engine | None
    ) -> None:
        self._tracing, self._seen, self._begun = tracing, seen, begun
        self._engine, self._meter = engine, meter
        self._opened = self._kept = None
        self._is_shown, self._start, self._end = False, 0, 0

    def __enter__(self) -> None:
        tracing, seen, engine, begun = self._tracing, self._seen, self._engine, self._begun
        try:
            self._start = start = tracing.clock_ns()
            if engine is not None:
                self._opened = opened = engine.open(begun.name, engine.memory_kind, begun.attributes, start)
                self._is_shown = opened.span.is_recording()
            if tracing.recent is not None:
                self._kept = tracing.recent.open(begun.name, start)
            seen.is_watched = bool(
                self._is_shown or self._meter is not None or self._kept is not None or tracing.watchers
            )
            seen.wants_content = self._is_shown and tracing.wants_content
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("An operation could not be watched. (%s)", type(failed).__name__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tracing, seen, opened = self._tracing, self._seen, self._opened
        end = self._start
        try:
            end = tracing.clock_ns()
            error = seen.error if error is None else error
            if opened is not None:
                if not self._is_shown:
                    opened.close(end)
                elif seen.action is Action.RECALL and error is None and tracing.recalls is not None:
                    self._end_recall(opened, tracing.recalls, end)
                else:
                    self._show(opened, seen.several or [seen], end, error)
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("An operation could not be shown. (%s)", type(failed).__name__)
            self._let_go(end, error)
        try:
            if self._kept is not None:
                self._keep((seen.several or [seen])[0], end, error)
            if self._meter is not None:
                around = self._meter.around() if opened is None else opened.outer
                first = seen.several[0] if seen.several else seen
                seconds = (end - self._start) / 1e9
                self._meter.instruments.operation(first, self._begun, seconds, error, around)
            for watcher in tracing.watchers:
                for one in seen.several or [seen]:
                    watcher(one, tracing.showing, error)
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("An operation could not be counted. (%s)", type(failed).__name__)

    def _let_go(self, end: int, error: BaseException | None) -> None:
        """End a span that could not be described with what it began with: left open, it would stand above all that follows."""
        if self._opened is None:
            return
        try:
            self._opened.close(end, error=None if error is None else (error_type(error), description(error)))
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("A span could not be ended. (%s)", type(failed).__name__)

    def _end_recall(self, opened: Opened, recalls: Recalls, end: int) -> None:
        """A recall that went well may be told later, where that makes no difference to anybody."""
        has_events = self._tracing.showing.events
        endings = None if has_events or self._engine is None else self._engine.endings
        if endings is not None:
            opened.leave()
            self._end = end
            endings.add(self)
            return
        name, attributes = recalls.ended(self._seen)
        if has_events:
            self._events(opened, self._begun.name, end, None)
        opened.close(end, name, attributes)

    def finish(self) -> None:
        """Told later."""
        opened, recalls = self._opened, self._tracing.recalls
        if opened is None or recalls is None:
            return
        try:
            opened.close(self._end, *recalls.ended(self._seen))
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("An operation could not be shown. (%s)", type(failed).__name__)
            self._let_go(self._end, None)

    def _show(
        self, opened: Opened, shown: Sequence[Observation], end: int, error: BaseException | None
    ) -> None:
        tracing, engine = self._tracing, self._engine
        showing, name = tracing.showing, self._begun.name
        full, _, attributes = ended(shown[0], showing, name, error)
        tracing.remembered(self._seen, opened.context)
        if showing.events:
            self._events(opened, name, end, error)
        told = None if error is None else (error_type(error), description(error))
        opened.close(end, full, attributes, told)
        if engine is None:
            return
        for one in shown[1:]:
            other = ended(one, showing, name, error)
            given = {**self._begun.attributes, **other.attributes}
            engine.made(other.name, engine.memory_kind, given, (self._start, end), opened.outer)

    def _keep(self, seen: Observation, end: int, error: BaseException | None) -> None:
        """In the ring. Those who run a server see nobody's memories: no name that a caller chose, and no content."""
        tracing = self._tracing
        if self._kept is None or tracing.recent is None:
            return
        span, token = self._kept
        begun = self._begun
        told = ended(seen, tracing.showing, begun.name, error, is_bare=True)
        span.name, span.attributes, span.is_operation = (
            told.name,
            {**begun.attributes, **told.attributes},
            True,
        )
        span.error = None if error is None else error_type(error)
        tracing.recent.close(span, token, end)
        tracing.recent.counted(begun.name, end - self._start, is_failed=error is not None)

    def _events(self, opened: Opened, operation: str, end: int, error: BaseException | None) -> None:
        """Content, and what went wrong, as log records beside the span."""
        seen, engine, showing = self._seen, self._engine, self._tracing.showing
        if engine is None:
            return
        if error is not None:
            said: dict[str, Any] = {"exception.type": error_type(error)}
            if isinstance(error, QuipuError):
                said["exception.message"] = error.message
            said["exception.stacktrace"] = "".join(traceback.format_tb(error.__traceback__))
            engine.event(names.EXCEPTION_EVENT, end, said, is_warning=True, span=opened.span)
            return
        if not showing.capture.on_events:
            return
        told: dict[str, Any] = {names.OPERATION_NAME: operation}
        records = content.redacted(seen.records, operation, showing.redact)
        keys = names.TABLES[names.Convention.MERGED].attributes
        if records:
            told[keys["records"].name] = [dict(record) for record in records]
        if seen.query is not None:
            passed = content.redacted([{"content": seen.query}], operation, showing.redact)
            if passed:
                told[keys["query"].name] = passed[0].get("content")
        if len(told) > 1:
            engine.event(names.DETAILS_EVENT, end, told, is_warning=False, span=opened.span)
