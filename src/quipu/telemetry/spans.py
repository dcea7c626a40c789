"""Spans and measurements of every call, of requests, and of work in the background.

1. Nothing in here fails into an operation, nor waits.
2. While nobody in the process has set up OpenTelemetry, an operation costs a look at a dictionary.
3. What is known at the start is there at the start, for samplers, and holds nothing that a caller chose. The rest is
   said at the end, if anybody wants it.
"""

import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from quipu.errors import QuipuError
from quipu.operation import AnyOperation, Context, Facts
from quipu.telemetry import content
from quipu.telemetry import conventions as c
from quipu.telemetry.describe import (
    OWN,
    Caller,
    Clean,
    Described,
    Value,
    cleaned,
    described,
    description,
    error_type,
    place_of,
    span_of,
)
from quipu.telemetry.settings import Showing, Side, Telemetry

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from quipu.telemetry.engine import Engine, Opened

_log = logging.getLogger("quipu.telemetry")
_API = "opentelemetry.trace"
_NOTHING: AbstractContextManager[Any] = nullcontext()
_MOST_LINKS = 128
_MOST_KNOWN = 4096
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_OTHER = "_OTHER"
#: What a host can mean by a request or a notification: MCP's own, and ours.
_MCP_METHODS = frozenset(
    {
        *("completion/complete", "initialize", "logging/setLevel", "ping", "server/discover"),
        *(f"memory/{name}" for name in ("expire", "forget", "merge", "recall", "remember")),
        *("memory/review", "memory/review/get", "memory/review/list"),
        *("notifications/cancelled", "notifications/initialized", "notifications/progress"),
        *("notifications/roots/list_changed", "prompts/get", "prompts/list"),
        *("resources/list", "resources/read", "resources/subscribe", "resources/templates/list"),
        *("resources/unsubscribe", "subscriptions/listen", "tools/call", "tools/list"),
    }
)
_SERVER_ERROR = 500


class Redaction(Protocol):
    """A tenant's secrets, as far as they are known without asking the ledger."""

    def known(self, tenant: str, checked_at: int | None) -> Clean | None:
        """Masks secrets in a text. None: nobody knows them as of this position, or at all."""
        ...

    async def load(self, tenant: str) -> None:
        """Read them, so that they are known from now on."""
        ...


class Exchange(Protocol):
    """An HTTP request and its answer, as far as it came."""

    @property
    def shown_method(self) -> str: ...
    @property
    def route(self) -> str | None: ...
    @property
    def status(self) -> int | None: ...


class Spans:
    """One for each memory, and one for each remote client."""

    def __init__(
        self,
        showing: Showing,
        given: Telemetry | None = None,
        *,
        redaction: Callable[[], Redaction] | None = None,
    ) -> None:
        """`redaction`: asked when somebody looks. Without it, names are shown as they are: the remote client knows no
        secrets."""
        self.showing, self.given, self._redaction = showing, given or Telemetry(), redaction
        self.table = c.TABLES[showing.convention]
        self.kind = "CLIENT" if self.table.is_always_client or showing.server else "INTERNAL"
        self.side: Side = "caller"
        #: How many memories there are and how many writes wait, if somebody counts them.
        self.standing: tuple[int, int] | None = None
        self._engine: Engine | None = None
        self._warned: set[str] = set()
        self._noted: OrderedDict[str, SpanContext] = OrderedDict()

    @property
    def redaction(self) -> Redaction | None:
        return None if self._redaction is None else self._redaction()

    @property
    def engine(self) -> "Engine | None":
        """The API, once there is somebody to tell."""
        if self._engine is None:
            given = self.given
            if _API not in sys.modules and given.tracer_provider is None and given.meter_provider is None:
                return None
            from quipu.telemetry.engine import Engine

            self._engine = Engine(given, lambda: self.standing)
        return self._engine

    def serve(self) -> None:
        """From now on calls come from elsewhere: what is counted here is the server's side."""
        self.side = "server"

    def guarded(self, what: str) -> "_Guard":
        """Around everything here that is not the work itself; `what` is said where it fails."""
        return _Guard(self, what)

    def warn(self, what: str, error: BaseException) -> None:
        """Once for each kind of thing that went wrong, without its text."""
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("%s (%s)", what, type(error).__name__)

    # -- calls --------------------------------------------------------------------------------------------------------

    def observe(self, operation: AnyOperation, ctx: Context) -> "AbstractContextManager[Call | None]":
        """A call in this process."""
        if operation.span is None:
            return _NOTHING
        who = ctx.principal
        return self._call(operation, ctx.facts, lambda: Caller(who.tenant, who.user_id, who.default_agent))

    def remote(
        self, operation: AnyOperation, facts: Facts, caller: Callable[[], Caller]
    ) -> "AbstractContextManager[Call | None]":
        """A call of a server."""
        return _NOTHING if operation.span is None else self._call(operation, facts, caller)

    def _call(
        self, operation: AnyOperation, facts: Facts, caller: Callable[[], Caller]
    ) -> "AbstractContextManager[Call | None]":
        with self.guarded("A call cannot be observed."):
            engine = self._engine or self.engine
            if engine is None or not (engine.is_tracing or (self.showing.has_metrics and engine.instruments)):
                return _NOTHING
            return Call(self, engine, operation, facts, caller)
        return _NOTHING

    # -- other spans --------------------------------------------------------------------------------------------------

    def block(
        self,
        name: str,
        kind: str = "INTERNAL",
        attributes: Mapping[str, Any] | None = None,
        *,
        links: Sequence["SpanContext"] = (),
        is_root: bool = False,
        carrier: Mapping[str, str] | None = None,
    ) -> "Block":
        return Block(self, name, kind, attributes or {}, links, is_root=is_root, carrier=carrier)

    def background(self, name: str) -> "Block":
        """What a server does by itself: a trace of its own."""
        return self.block(name, is_root=True)

    def model_call(self, operation: str, model: str) -> "Block":
        """A call of a model that is served elsewhere, without its texts."""
        return self.block(
            f"{operation} {model}", "CLIENT", {c.OPERATION_NAME: operation, c.REQUEST_MODEL: model}
        )

    def store_created(self, tenant: str, store: Any) -> None:
        """The store that every tenant has was made, unasked."""
        with self.guarded("A call cannot be described."):
            engine = self.engine
            if engine is None or not engine.is_tracing:
                return
            facts = Facts(operation="create_store", response=store)
            one = Described(span="create_memory_store", outcome="created")
            one.values |= place_of(facts, Caller(tenant))
            found = _attributes(one, "create_memory_store", one.values, self)
            started = _started("create_memory_store", "create_store", self)
            name = (
                f"create_memory_store {store.name}" if self.table.has_store_in_name else "create_memory_store"
            )
            engine.made(name, self.kind, {**started, **found})

    def noted(self, key: str, context: "SpanContext") -> None:
        """Where a write was held, or kept for a while: what follows from it points back there."""
        self._noted[key] = context
        if len(self._noted) > _MOST_KNOWN:
            self._noted.popitem(last=False)

    def links_to(self, keys: Iterable[str]) -> "list[SpanContext]":
        return [self._noted[key] for key in keys if key in self._noted][:_MOST_LINKS]

    def request(
        self, scheme: str, carrier: Callable[[], Mapping[str, str]], exchange: Callable[[], Exchange]
    ) -> "RequestSpan":
        return RequestSpan(self, scheme, carrier, exchange)

    def mcp_request(self, method: str, tool: str | None, seconds: float, error: str | None) -> None:
        """One MCP request was answered. The tool is one of ours."""
        with self.guarded("A request cannot be measured."):
            instruments = self.instruments
            if instruments is None:
                return
            labels = {c.MCP_METHOD: method if method in _MCP_METHODS else _OTHER}
            if tool is not None:
                labels |= {c.TOOL_NAME: tool, c.OPERATION_NAME: "execute_tool"}
            if error is not None:
                labels[c.ERROR_TYPE] = error
            instruments.record(c.MCP_DURATION, seconds, labels)

    @property
    def instruments(self) -> Any:
        """None while numbers go nowhere."""
        engine = self.engine if self.showing.has_metrics else None
        return None if engine is None else engine.instruments

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Put the current trace into the headers of a request."""
        with self.guarded("A request goes without its trace."):
            engine = self.engine
            if engine is not None and engine.is_tracing:
                engine.inject(headers)


class _Guard:
    """Telemetry never fails into the work."""

    __slots__ = ("_spans", "_what")

    def __init__(self, spans: Spans, what: str) -> None:
        self._spans, self._what = spans, what

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._spans.warn(self._what, error)
        return True


class Call:
    """One call: a span, or several where it was about several things."""

    __slots__ = ("_began", "_caller", "_engine", "_facts", "_opened", "_operation", "_spans", "_started")

    def __init__(
        self,
        spans: Spans,
        engine: "Engine",
        operation: AnyOperation,
        facts: Facts,
        caller: Callable[[], Caller],
    ) -> None:
        self._spans, self._engine, self._operation, self._facts = spans, engine, operation, facts
        self._caller = caller
        self._opened: Opened | None = None
        self._started: dict[str, Value] = {}
        self._began = 0.0

    def __enter__(self) -> "Call":
        spans = self._spans
        self._began = time.perf_counter()
        with spans.guarded("A span cannot be begun."):
            name = span_of(self._operation) or ""
            if name in OWN:
                self._opened = self._engine.open(name, "INTERNAL", {}) if self._engine.is_tracing else None
                return self
            self._started = _started(name, self._operation.name, spans)
            if self._engine.is_tracing:
                self._opened = self._engine.open(name, spans.kind, self._started)
        return self

    async def ready(self) -> None:
        """Names are checked before they are shown, with secrets as of the position that the work was done at."""
        redaction, tenant = self._spans.redaction, self._caller().tenant
        if redaction is None or tenant is None or redaction.known(tenant, self._facts.checked_at) is not None:
            return
        try:
            await redaction.load(tenant)
        except QuipuError as error:
            self._spans.warn("Names are not shown: the secrets cannot be read.", error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._spans.guarded("A call cannot be described."):
            self._end(error)
            return
        self._let_go(error)

    def _end(self, error: BaseException | None) -> None:
        seconds = time.perf_counter() - self._began
        spans, opened = self._spans, self._opened
        found = described(self._operation, self._facts, self._caller())
        failed = None if error is None else (error_type(error), description(error))
        if self._operation.span in OWN:
            self._end_own(found, failed)
            return
        first = found[0]
        if failed is None and first.failed is not None:
            failed = (first.failed, None)
        if opened is not None:
            if opened.span.is_recording():
                self._tell(opened, found, failed)
            else:
                opened.close()
        if spans.showing.has_metrics and (instruments := self._engine.instruments) is not None:
            self._started[c.OPERATION_NAME] = _name(first, spans)
            instruments.call(
                first,
                seconds,
                self._started,
                None if failed is None else failed[0],
                is_caller=spans.side == "caller",
                context=self._engine.around() if opened is None else opened.outer,
            )

    def _end_own(self, found: Sequence[Described], failed: tuple[str, str | None] | None) -> None:
        """A decision, or a pass: links to the writes it is about, and beneath it what it did to memories."""
        spans, opened, facts = self._spans, self._opened, self._facts
        if opened is None:
            return
        if opened.span.is_recording():
            decisions = getattr(facts.response, "decisions", ())
            about = [getattr(facts.request, "id", ""), *(name for one in decisions for name in one.ids)]
            for link in spans.links_to(about):
                opened.span.add_link(link)
        opened.close(error=failed)
        clean = self._clean()
        for one in found:
            name, attributes = self._shown(one, clean)
            started = _started(str(attributes[c.OPERATION_NAME]), self._operation.name, spans)
            self._engine.made(name, spans.kind, {**started, **attributes}, beneath=opened)

    def _clean(self) -> Clean | None:
        redaction = self._spans.redaction
        if redaction is None:
            return _as_it_is
        return redaction.known(self._caller().tenant or "", self._facts.checked_at)

    def _shown(self, one: Described, clean: Clean | None) -> tuple[str, dict[str, Value]]:
        """The span's name, and its attributes."""
        spans = self._spans
        operation = _name(one, spans)
        attributes = _attributes(one, operation, cleaned(one.values, clean), spans)
        store = attributes.get(spans.table.names["store_name"].name)
        return (f"{operation} {store}" if spans.table.has_store_in_name and store else operation), attributes

    def _tell(
        self, opened: "Opened", found: Sequence[Described], failed: tuple[str, str | None] | None
    ) -> None:
        spans, facts, clean = self._spans, self._facts, self._clean()
        if facts.proposal_id is not None and found[0].outcome == "pending_approval":
            spans.noted(facts.proposal_id, opened.context)
        elif found[0].outcome == "created" and found[0].values.get("tier") == "short_term":
            spans.noted(str(found[0].values.get("record_id")), opened.context)
        for place, one in enumerate(found):
            name, attributes = self._shown(one, clean)
            if spans.showing.has_content and failed is None and clean is not None:
                attributes |= _content(_name(one, spans), facts, clean, spans)
            if place == 0:
                opened.close(name, attributes, failed)
            else:
                attributes = {**self._started, **attributes}
                self._engine.made(name, spans.kind, attributes, failed, beside=opened)

    def _let_go(self, error: BaseException | None) -> None:
        """End a span that cannot be described with what it began with: left open, it would stand above all that follows."""
        if self._opened is None:
            return
        with self._spans.guarded("A span cannot be ended."):
            self._opened.close(error=None if error is None else (error_type(error), description(error)))


class Block:
    """A span that is no call of memory."""

    def __init__(
        self,
        spans: Spans,
        name: str,
        kind: str,
        attributes: Mapping[str, Any],
        links: Sequence["SpanContext"],
        *,
        is_root: bool,
        carrier: Mapping[str, str] | None,
    ) -> None:
        self._spans, self._name, self._kind, self._attributes = spans, name, kind, attributes
        self._links, self._is_root, self._carrier = links[:_MOST_LINKS], is_root, carrier
        self._opened: Opened | None = None
        #: What is said at the end; and the error, where it ends badly without an exception.
        self.name: str | None = None
        self.found: dict[str, Any] = {}
        self.failed: str | None = None

    def __enter__(self) -> "Block":
        with self._spans.guarded("A span cannot be begun."):
            engine = self._spans.engine
            if engine is not None and engine.is_tracing:
                self._opened = engine.open(
                    self._name,
                    self._kind,
                    self._attributes,
                    links=self._links,
                    is_root=self._is_root,
                    carrier=self._carrier,
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is None:
            return
        with self._spans.guarded("A span cannot be ended."):
            failed = None if self.failed is None else (self.failed, None)
            if error is not None:
                failed = (error_type(error), description(error))
            self._opened.close(self.name, self.found, failed)


class RequestSpan:
    """One HTTP request: a SERVER span that continues the caller's trace, unless there is a span already.

    Its address is said by its route, which holds nothing that a caller chose.
    """

    def __init__(
        self,
        spans: Spans,
        scheme: str,
        carrier: Callable[[], Mapping[str, str]],
        exchange: Callable[[], Exchange],
    ) -> None:
        self._spans, self._scheme, self._carrier, self._exchange = spans, scheme, carrier, exchange
        self._block: Block | None = None
        self._began = 0.0

    def __enter__(self) -> None:
        spans = self._spans
        self._began = time.perf_counter()
        with spans.guarded("A span cannot be begun."):
            engine = spans.engine
            if engine is None or not engine.is_tracing or engine.current().is_valid:
                return
            labels = self._labels()
            self._block = spans.block(
                _shown(labels[c.HTTP_METHOD]), "SERVER", labels, carrier=self._carrier()
            )
            self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._spans.guarded("A request cannot be described."):
            labels = self._labels()
            status = self._exchange().status
            if status is not None:
                labels[c.HTTP_STATUS] = status
            failed = str(status or "none") if status is None or status >= _SERVER_ERROR else None
            if self._block is not None:
                route = labels.get(c.HTTP_ROUTE, "")
                self._block.name = f"{_shown(labels[c.HTTP_METHOD])} {route}".strip()
                self._block.found, self._block.failed = labels, failed
                self._block.__exit__(kind, error, trace)
            instruments = self._spans.instruments
            if instruments is not None:
                if failed is not None:
                    labels[c.ERROR_TYPE] = failed
                instruments.record(c.HTTP_DURATION, time.perf_counter() - self._began, labels)

    def _labels(self) -> dict[str, Any]:
        exchange = self._exchange()
        method = exchange.shown_method
        labels: dict[str, Any] = {
            c.HTTP_METHOD: method if method in _METHODS else _OTHER,
            c.URL_SCHEME: self._scheme,
        }
        if exchange.route is not None:
            labels[c.HTTP_ROUTE] = exchange.route
        return labels


def _shown(method: str) -> str:
    return "HTTP" if method == _OTHER else method


def _as_it_is(text: str) -> str:
    return text


def _started(name: str, operation: str, spans: Spans) -> dict[str, Value]:
    """What samplers may go by."""
    found: dict[str, Value] = {c.OPERATION_NAME: name}
    server = spans.showing.server
    if spans.table.is_always_client or server is not None:
        found[c.PROVIDER_NAME] = c.PROVIDER
    found |= {c.OPERATION: operation, c.SIDE: spans.side}
    if server is not None:
        found[c.SERVER_ADDRESS], found[c.SERVER_PORT] = server
    return found


def _name(one: Described, spans: Spans) -> c.SpanName:
    """What the convention calls it: only one of them tells creating a memory from changing one."""
    if one.span != "update_memory" or not spans.table.tells_creation:
        return one.span
    return "upsert_memory" if one.is_merged else "create_memory" if one.is_new else "update_memory"


def _attributes(
    one: Described, name: c.SpanName, values: Mapping[str, Value], spans: Spans
) -> dict[str, Value]:
    found: dict[str, Value] = {c.OPERATION_NAME: name}
    for key, called in spans.table.shown_on(name):
        if key in values and (key != "namespace" or spans.showing.has_namespace):
            found[called] = values[key]
    if one.outcome is not None:
        found[c.OUTCOME] = one.outcome
    if one.types:
        found[c.RECORD_TYPE] = one.types if name == "search_memory" else one.types[0]
    if one.selector is not None:
        found[c.SELECTOR] = one.selector
    if one.k is not None:
        found[c.SEARCH_K] = one.k
    if one.backends_failed:
        found[c.BACKENDS_FAILED] = one.backends_failed
    return found


def _content(name: c.SpanName, facts: Facts, clean: Clean, spans: Spans) -> dict[str, Value]:
    """Texts, for who asked for them: after redaction, and after the program's own hook."""
    wanted = {key: named.name for key, named in spans.table.content.items() if name in named.on}
    found: dict[str, Value] = {}
    with spans.guarded("The hook that redacts content failed: content is left off."):
        query = getattr(facts.request, "query", None)
        if "query" in wanted and isinstance(query, str):
            passed = content.redacted([{"content": clean(query)}], name, spans.given.redact)
            if passed:
                found[wanted["query"]], is_cut = content.text_of(passed[0].get("content"))
                found |= {c.TRUNCATED: True} if is_cut else {}
        if "content" in wanted or "records" in wanted:
            records = content.redacted(_records(name, facts, clean), name, spans.given.redact)
            if records:
                key = "content" if "content" in wanted else "records"
                text, is_cut = (
                    content.text_of(records[0].get("content"))
                    if key == "content"
                    else content.records_text(records)
                )
                found[wanted[key]] = text
                found |= {c.TRUNCATED: True} if is_cut else {}
        return found
    return {}


def _records(name: c.SpanName, facts: Facts, clean: Clean) -> list[dict[str, Any]]:
    """What was written, or what was found."""
    if name != "search_memory":
        wanted = getattr(facts.response, "id", None)
        return [{"id": one.id, "content": clean(one.content)} for one in facts.after if one.id == wanted]
    hits: Sequence[Any] = getattr(facts.response, "results", ())
    return [
        {"id": hit.id, "content": clean(hit.content), "score": hit.score}
        for hit in hits
        if isinstance(hit.content, str)
    ]
