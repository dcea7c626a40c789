"""The observer that makes spans, metrics and events of what memory does.

1. Nothing in here fails into an operation, nor waits.
2. While nobody in the process has loaded OpenTelemetry, and no ring is kept, an operation costs a look at a dictionary.
3. Attributes known at the start are there at the start, for samplers; the rest is worked out at the end, if it is wanted.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from quipu.model.observation import Action, Observation
from quipu.model.record import Tier
from quipu.telemetry import names
from quipu.telemetry.describing import Begun, begun, description, error_type, is_client
from quipu.telemetry.operating import Operation, Watcher
from quipu.telemetry.recalls import Recalls
from quipu.telemetry.recent import Recent
from quipu.telemetry.settings import Showing, Telemetry

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from quipu.telemetry.engine import Engine

_log = logging.getLogger("quipu.telemetry")
_NOTHING: AbstractContextManager[Any] = nullcontext()
_API = "opentelemetry.trace"
_MOST_LINKS = 128
_MOST_KNOWN = 4_096

#: Told of every other span that has ended: its name, its kind, its attributes, and what it failed with.
BlockWatcher = Callable[[str, str, Mapping[str, Any], str | None], None]


class Tracing:
    """One per process and side."""

    #: Whoever wants every operation of this process, in whatever way it is shown: a test suite that checks them all.
    watchers: ClassVar[tuple[Watcher, ...]] = ()
    #: The same for what stands around operations: requests, decisions, passes in the background, calls of a model.
    block_watchers: ClassVar[tuple[BlockWatcher, ...]] = ()

    def __init__(
        self,
        showing: Showing,
        telemetry: Telemetry,
        *,
        clock_ns: Callable[[], int],
        version: str,
        recent: Recent | None = None,
    ) -> None:
        self.showing = replace(showing, redact=telemetry.redact or showing.redact)
        self.clock_ns = telemetry.clock_ns or clock_ns
        self.recent = recent
        self._telemetry, self._version = telemetry, version
        self._engine: Engine | None = None
        self._spans: Engine | None = None
        self._numbers: Engine | None = None
        self.recalls = None if self.showing.capture.on_spans else Recalls(self.showing)
        self.wants_content = self.showing.capture.on_spans or (
            self.showing.capture.on_events and self.showing.events
        )
        self._begun: dict[tuple[Action, bool, bool], Begun] = {}
        self._is_live = False
        #: Where held writes, and writes that expire or settle, were made: what follows from them points back.
        self._held: OrderedDict[str, SpanContext] = OrderedDict()
        self._passing: OrderedDict[str, SpanContext] = OrderedDict()

    @property
    def engine(self) -> Engine | None:
        """The API, once there is somebody to tell."""
        if self._engine is None:
            given = self._telemetry
            if _API not in sys.modules and given.tracer_provider is None and given.meter_provider is None:
                return None
            from quipu.telemetry.engine import Engine

            self._engine = Engine(given, self._version, is_client=is_client(self.showing))
        return self._engine

    @property
    def tracing(self) -> Engine | None:
        """The API, where spans go somewhere. A provider that was set up stays for as long as the process does."""
        if self._spans is None and (engine := self.engine) is not None and engine.is_tracing:
            self._spans = engine
        return self._spans

    @property
    def measuring(self) -> Engine | None:
        """The API, where numbers go somewhere."""
        if self._numbers is None and self.showing.metrics:
            engine = self.engine
            self._numbers = engine if engine is not None and engine.is_measuring else None
        return self._numbers

    @property
    def is_watching(self) -> bool:
        if self._is_live or self.recent is not None or self.watchers or self.block_watchers:
            return True
        try:
            self._is_live = self.tracing is not None or self.measuring is not None
        except Exception as failed:  # noqa: BLE001  somebody else's provider; nobody is told then
            _log.warning("There is nobody to tell. (%s)", type(failed).__name__)
        return self._is_live

    # -- what the service tells ---------------------------------------------------------------------------------

    def operation(self, observation: Observation) -> AbstractContextManager[Any]:
        if not self._is_live and not self.is_watching:
            return _NOTHING
        try:
            spans, numbers = self._spans, self._numbers
            if spans is None or numbers is None:
                spans, numbers = self.tracing, self.measuring
            # What can be told at the start: there are only so many kinds of operations.
            kind = (observation.action, observation.is_new, observation.deletes)
            start = self._begun.get(kind)
            if start is None:
                start = self._begun[kind] = begun(observation, self.showing)
            return Operation(self, observation, start, spans, numbers)
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("An operation could not be watched. (%s)", type(failed).__name__)
            return _NOTHING

    def review(self, proposal_id: str) -> AbstractContextManager[Any]:
        held = self._held.get(proposal_id)
        return self.block(names.REVIEW_SPAN, links=() if held is None else (held,))

    def background(self, name: str, causes: Sequence[str]) -> AbstractContextManager[Any]:
        known = [self._passing[cause] for cause in causes if cause in self._passing]
        engine = self.tracing
        if engine is not None and engine.current().is_valid:
            known.append(engine.current())
        return self.block(name, links=known[:_MOST_LINKS], is_root=True)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        return self.block(names.PHASE_SPAN + name) if self.showing.phases else _NOTHING

    def standing(self, records: int, pending: int) -> None:
        engine = self.measuring
        if engine is not None:
            engine.instruments.standing(records, pending)

    def block(
        self,
        name: str,
        *,
        kind: str = "INTERNAL",
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[SpanContext] = (),
        is_root: bool = False,
        carrier: Mapping[str, str] | None = None,
        is_told: bool = True,
    ) -> Block:
        """Any other span. One that is not told is kept in the ring only."""
        return Block(self, name, kind, attributes or {}, links, is_root, carrier, is_told)

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Put the current trace into a request's headers."""
        try:
            if (engine := self.tracing) is not None:
                engine.inject(headers)
        except Exception as failed:  # noqa: BLE001  somebody else's propagator; the request goes without
            _log.warning("The trace was left off a request. (%s)", type(failed).__name__)

    def remembered(self, seen: Observation, context: SpanContext) -> None:
        """Keep where a write was made, as long as something may follow from it."""
        passes = seen.expires_at is not None or (
            seen.action is Action.REMEMBER and seen.tier is Tier.SHORT_TERM
        )
        if seen.proposal_id is None and not passes:
            return
        for known, key in (
            (self._held, seen.proposal_id),
            (self._passing, seen.record_id if passes else None),
        ):
            if key is not None and context.is_valid:
                known[key] = context
                if len(known) > _MOST_KNOWN:
                    known.popitem(last=False)


class Block:
    """A span that is not an operation of memory."""

    def __init__(
        self,
        tracing: Tracing,
        name: str,
        kind: str,
        attributes: Mapping[str, Any],
        links: Sequence[SpanContext],
        is_root: bool,
        carrier: Mapping[str, str] | None,
        is_told: bool,
    ) -> None:
        self._tracing, self._name, self._kind = tracing, name, kind
        self._attributes, self._links, self._is_root, self._carrier = attributes, links, is_root, carrier
        self._is_told = is_told
        self._opened = self._kept = None
        #: Added at the end, and the error type where the block ends badly without an exception.
        self.found: dict[str, Any] = {}
        self.failed: str | None = None

    def __enter__(self) -> Block:
        try:
            self._enter()
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("A span could not be begun. (%s)", type(failed).__name__)
        return self

    def _enter(self) -> None:
        start = self._tracing.clock_ns()
        engine, recent = self._tracing.tracing, self._tracing.recent
        if engine is not None and self._is_told:
            from opentelemetry.trace import SpanKind

            self._opened = engine.open(
                self._name,
                SpanKind[self._kind],
                self._attributes,
                start,
                links=self._links,
                is_root=self._is_root,
                carrier=self._carrier,
            )
        if recent is not None:
            self._kept = recent.open(self._name, start)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._exit(error)
        except Exception as failed:  # noqa: BLE001  telemetry never fails into the work
            _log.warning("A span could not be ended. (%s)", type(failed).__name__)

    def _exit(self, error: BaseException | None) -> None:
        end = self._tracing.clock_ns()
        failed = self.failed if error is None else error_type(error)
        if self._kept is not None and self._tracing.recent is not None:
            span, token = self._kept
            span.attributes, span.error = {**self._attributes, **self.found}, failed
            self._tracing.recent.close(span, token, end)
        if self._opened is not None:
            said = None if error is None else description(error)
            told = None if failed is None else (failed, said)
            self._opened.close(end, attributes=self.found, error=told)
        for watcher in self._tracing.block_watchers:
            watcher(self._name, self._kind, {**self._attributes, **self.found}, failed)
