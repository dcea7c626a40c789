"""From an operation and its facts to what its spans say. Pure: no names of a convention, no clock, no OpenTelemetry.

Requests and answers of all rooms are read by their fields' names: what is called the same means the same everywhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from quipu.errors import QuipuError
from quipu.fields import duration_ms
from quipu.model.principal import DEFAULT_TENANT
from quipu.model.record import Record
from quipu.operation import AnyOperation, Facts, OwnSpan, Span

Value: TypeAlias = str | bool | int | float | Sequence[str]
Clean: TypeAlias = Callable[[str], str]

#: A delete of more ids than this is one span for each store.
MOST_IDS = 32
#: What callers named: shown after the redaction of their tenant, or not at all.
CHOSEN = frozenset({"store_name", "namespace", "record_id", "agent", "conversation"})
OWN: frozenset[Span | OwnSpan] = frozenset({"quipu.memory.review", "quipu.consolidate"})
_LONGEST_NAME = 1024
#: So many spans stand beneath a pass of consolidation.
_MOST_DECISIONS = 128
_RETIRED = {"forget": "deleted", "archive": "archived", "demote": "demoted"}
_OUTCOMES = frozenset({"created", "updated", "unchanged"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as spans say it. Of a server's caller the client knows what the server has told it."""

    tenant: str | None = None
    user_id: str | None = None
    default_agent: str | None = None


@dataclass(slots=True, kw_only=True)
class Described:
    """One span."""

    span: Span
    #: By the keys of a convention's table.
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    outcome: str | None = None
    #: `ids`, `filter` or `policy`, of a delete.
    selector: str | None = None
    #: Whether it is about a memory that was not there before.
    is_new: bool = False
    #: Whether consolidation decided what became of it.
    is_merged: bool = False
    types: tuple[str, ...] = ()
    k: int | None = None
    backends_failed: int = 0
    #: The code of an error that the answer holds.
    failed: str | None = None
    #: For metrics, where the memory is.
    top_score: float | None = None
    content_bytes: int | None = None


def span_of(operation: AnyOperation, request: Any = None) -> Span | OwnSpan | None:
    """What the operation is called; without a request, what most of its requests are."""
    found = operation.span
    return found(request) if callable(found) else found


def described(operation: AnyOperation, facts: Facts, caller: Caller) -> list[Described]:
    """What the spans of a call say; mostly it has one."""
    request, response = facts.request, facts.response
    span = span_of(operation, request)
    if span is None or span == "quipu.memory.review" or span == "quipu.consolidate":
        return _decided(response)
    one = Described(span=span, outcome=_outcome(span, request, response), types=_types(request))
    one.backends_failed = _backends_failed(response)
    if span == "search_memory":
        _searched(one, request, response)
    elif span == "update_memory":
        _updated(one, facts)
    elif span == "delete_memory":
        return _deleted(one, facts, caller)
    _place(one.values, _whereabouts(facts, caller, _changed(facts)), caller)
    if span == "create_memory_store" and "scope" not in one.values:  # it was refused
        default = operation.request.model_fields["scope"].default
        one.values["scope"] = str(_get(request, "scope") or default)
    return [one]


# -- where, and whose --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """The store as far as it is known, and whose memory it is."""

    #: With id, name, scope, tier and namespace.
    store: Any = None
    store_name: str | None = None
    tier: str | None = None
    agent: str | None = None
    user: str | None = None
    session: str | None = None


def _whereabouts(facts: Facts, caller: Caller, record: Record | None) -> _Place:
    """From the answer where it says so, else from the record that the ledger was given, else from the request."""
    request, response = facts.request, facts.response
    shown: Sequence[Any] = () if _is_ranked(response) else _shown(response)
    about = shown[:1] if _get(request, "id") is not None else ()
    known: list[Any] = [one for one in (response, *about, record, request) if one is not None]

    def first(name: str) -> Any:
        return next((found for one in known if (found := getattr(one, name, None)) is not None), None)

    store = _store(facts, record)
    names_one = store is None and (_get(request, "id") or _get(request, "store")) is not None
    named = {(str(one.store), str(one.tier)) for one in shown} if names_one else set[tuple[str, str]]()
    name, tier = named.pop() if len(named) == 1 else (None, None)
    if record is not None:
        tier = record.tier
    items = _get(request, "items") or ()
    return _Place(
        store=store,
        store_name=name,
        tier=tier,
        agent=first("agent_id") or _only(_get(item, "agent_id") for item in items) or caller.default_agent,
        user=first("user_id") or caller.user_id,
        session=first("session_id"),
    )


def place_of(facts: Facts, caller: Caller) -> dict[str, Value]:
    """Where it is, and nothing else."""
    values: dict[str, Value] = {}
    _place(values, _whereabouts(facts, caller, None), caller)
    return values


def _store(facts: Facts, record: Record | None) -> Any:
    """The one store that it was about; None of several, and where none was reached."""
    answered = getattr(facts.response, "store", None)
    if hasattr(answered, "scope"):
        return answered
    if hasattr(facts.response, "scope") and hasattr(facts.response, "tier"):  # the answer is a store
        return facts.response
    if facts.store is not None:
        return facts.store
    if _get(facts.request, "items") is not None:  # a batch: the store that all of it went to
        answers = [one.response for one in _get(facts.response, "results") or () if one.response is not None]
        stores = {answer.store.id: answer.store for answer in answers if answer.store is not None}
        is_one = len(stores) == 1 and all(answer.store is not None for answer in answers)
        return next(iter(stores.values())) if is_one else None
    return None if record is None else facts.stores.get(record.store_id)


def _place(values: dict[str, Value], place: _Place, caller: Caller) -> None:
    store = place.store
    _put(values, "store_id", None if store is None else store.id)
    _put(values, "store_name", place.store_name if store is None else store.name)
    _put(values, "scope", None if store is None else store.scope)
    _put(values, "tier", place.tier or (None if store is None else store.tier))
    # Whose it is says only where the store is divided so.
    _put(values, "agent", place.agent if store is not None and store.scope == "agent" else None)
    _put(values, "conversation", place.session if store is not None and store.scope == "session" else None)
    tenant = None if caller.tenant == DEFAULT_TENANT else caller.tenant
    isolated = "/".join(part for part in (tenant, place.user) if part)
    _put(values, "namespace", getattr(store, "namespace", None) or isolated)


# -- searches ----------------------------------------------------------------------------------------------------------


def _searched(one: Described, request: Any, response: Any) -> None:
    asked = getattr(request, "k", None) if _get(request, "k") is not None else _get(request, "limit")
    one.k = asked if isinstance(asked, int) else None
    if response is None:
        return
    found = _shown(response)
    if not response.is_held:
        one.values["results"] = len(found)
    if len(found) == 1 and not _is_ranked(response):
        _put(one.values, "record_id", _get(request, "id"))
    floor = _get(response, "min_relevance")
    if floor and _get(request, "min_relevance") != "off":  # a floor of 0 keeps nothing out
        one.values["threshold"] = float(floor)
    if found and _is_ranked(response):
        one.top_score = found[0].score


def _shown(response: Any) -> Sequence[Any]:
    """The memories in an answer of a search, whatever it calls them."""
    for name in ("results", "records", "versions", "nodes"):
        found = _get(response, name)
        if found is not None:
            return [one for one in found if hasattr(one, "content")]
    return [response] if hasattr(response, "content") and hasattr(response, "agent_id") else []


def _is_ranked(response: Any) -> bool:
    return hasattr(response, "fusion_used")


# -- updates -----------------------------------------------------------------------------------------------------------


def _updated(one: Described, facts: Facts) -> None:
    request, response, values = facts.request, facts.response, one.values
    items = _get(request, "items")
    if items is not None:
        _batch(one, items, response)
        one.is_new = all(item.id is None for item in items)
        return
    record = _changed(facts)
    merges = _get(request, "duplicates")
    if merges is not None:
        values["strategy"] = "merge"
        _count(values, 1 + len(merges))
        _put(values, "record_id", _get(response, "canonical_id"))
        return
    ids = _get(response, "ids")
    if ids is not None:  # archived, demoted
        _count(values, len(ids))
        if len(ids) == 1:
            values["record_id"] = ids[0]
        return
    _count(values, 1)
    one.is_new = _get(request, "content") is not None and _get(request, "id") is None
    _put(values, "record_id", _get(response, "id") or _get(record, "id") or _get(request, "id"))
    _put(values, "importance", _get(request, "importance"))
    _put(values, "expires", _date(_expiry(request, response, record)))
    if _get(request, "id") is not None:
        _put(values, "strategy", _get(request, "strategy"))
    if one.outcome in ("created", "updated") and record is not None:
        one.content_bytes = len(record.content.encode("utf-8", "surrogatepass"))


def _batch(one: Described, items: Sequence[Any], response: Any) -> None:
    """A batch is one update without a record. Where every one of them failed, it did."""
    _count(one.values, len(items))
    results = () if response is None else response.results
    done = [result.response for result in results if result.response is not None]
    one.outcome = _only(_outcome(one.span, None, answer) for answer in done)
    one.types = _typed(items)
    if results and not done:
        one.failed = results[0].error.code
    if len(done) == len(items) == 1:
        one.values["record_id"] = done[0].id


def _changed(facts: Facts) -> Record | None:
    """The version that was written, where it was one."""
    wanted = _get(facts.response, "id") or _get(facts.response, "canonical_id")
    found = [*facts.after, *facts.before]
    if wanted is not None:
        return next((record for record in found if record.id == wanted), None)
    return found[0] if len(found) == 1 else None


def _expiry(request: Any, response: Any, record: Record | None) -> int | None:
    """When it ends: of what was written, else as it was asked for, if nothing else in the request can end it sooner."""
    if record is not None:
        return record.expires_at
    asked, since = _get(request, "expires_at"), _get(response, "stored_at")
    if isinstance(asked, str):
        length = duration_ms(asked)
        asked = None if length is None or since is None else since + length
    return None if _get(_get(request, "privacy_intent"), "retain") is not None else asked


# -- deletes -----------------------------------------------------------------------------------------------------------


def _deleted(one: Described, facts: Facts, caller: Caller) -> list[Described]:
    """One span for each id that was named; otherwise one for each store, so that the scope it says is true."""
    request, response = facts.request, facts.response
    named: Sequence[str] = tuple(dict.fromkeys(_get(request, "ids") or ()))
    gone: Sequence[str] = _get(response, "forgotten_ids") or _get(response, "ids") or ()
    removed = {record.id: record for record in facts.before}
    one.selector = "policy" if _get(request, "policy") else "filter" if _get(request, "filter") else "ids"
    if _get(request, "memory_ref") is not None:  # an entry of a run: its record, or none
        named, gone = tuple(removed) or (str(_get(request, "id")),), tuple(removed)
    if one.selector == "ids" and 0 < len(named) <= MOST_IDS:
        spans: list[Described] = []
        for name in named:
            outcome = one.outcome
            if outcome == "deleted" and name not in gone:
                outcome = "not_found"
            spans.append(_removal(one, facts, caller, removed.get(name), outcome=outcome, name=name))
        return spans
    places: dict[tuple[str, str | None], list[Record]] = {}
    for record in removed.values():
        places.setdefault(_division(facts, record), []).append(record)
    if not places:
        return [_removal(one, facts, caller, None, outcome=one.outcome, count=len(gone) or len(named))]
    return [
        _removal(one, facts, caller, records[0], outcome=one.outcome, count=len(records))
        for records in places.values()
    ]


def _division(facts: Facts, record: Record) -> tuple[str, str | None]:
    """What spans of a delete tell apart: the store, and in it whose it is."""
    scope = getattr(facts.stores.get(record.store_id), "scope", None)
    owner = {"agent": record.agent_id, "session": record.session_id}.get(scope or "")
    return record.store_id, owner


def _removal(
    one: Described,
    facts: Facts,
    caller: Caller,
    record: Record | None,
    *,
    outcome: str | None,
    name: str | None = None,
    count: int = 1,
) -> Described:
    span = Described(span=one.span, outcome=outcome, selector=one.selector, types=one.types)
    span.backends_failed = one.backends_failed
    if name is not None:
        span.values["record_id"] = name
    _count(span.values, count)
    place = _whereabouts(facts, caller, record)
    if record is not None:
        store = facts.stores.get(record.store_id) or place.store
        place = _Place(
            store=store, agent=record.agent_id, user=record.user_id or place.user, session=record.session_id
        )
    _place(span.values, place, caller)
    span.values.pop("tier", None)  # none of them selects by tier
    if "scope" not in span.values:  # no store was reached: what the request selects by
        span.values["scope"] = "user" if place.user else "session" if place.session else "agent"
    return span


# -- consolidation -----------------------------------------------------------------------------------------------------


def _decided(response: Any) -> list[Described]:
    """What a pass did to memories, as its report says; nothing of a dry run."""
    found: list[Described] = []
    decisions = () if _get(response, "dry_run") else _get(response, "decisions") or ()
    for one in decisions[:_MOST_DECISIONS]:
        if one.outcome in ("promoted", "held"):
            span = Described(span="update_memory", is_merged=True)
            span.outcome = "created" if one.outcome == "promoted" else "pending_approval"
            _put(span.values, "record_id", one.into if one.outcome == "promoted" else None)
        elif one.outcome in ("evicted", "known"):
            span = Described(span="delete_memory", outcome="deleted", selector="ids")
            span.values["scope"] = "user" if one.user_id else "agent"
            if len(one.ids) == 1:
                span.values["record_id"] = one.ids[0]
        else:
            continue
        _count(span.values, len(one.ids))
        _put(span.values, "namespace", one.user_id)
        found.append(span)
    return found


# -- parts -------------------------------------------------------------------------------------------------------------


def _outcome(span: Span, request: Any, response: Any) -> str | None:
    """What became of it."""
    if response is None or span == "search_memory":
        return "pending_approval" if response is not None and response.is_held else None
    if response.is_held:
        return "pending_approval"
    if span in ("create_memory_store", "delete_memory_store"):
        return "created" if span == "create_memory_store" else "deleted"
    if _get(request, "dry_run"):
        return "unchanged"
    if hasattr(response, "merged_count"):
        return "merged" if response.merged_count else "unchanged"
    if hasattr(response, "action_taken"):
        return _RETIRED[response.action_taken] if response.matched_count else "unchanged"
    if span == "delete_memory":
        is_gone = _get(response, "forgotten_ids") or _get(response, "deleted")
        return "deleted" if is_gone else "not_found"
    said = _get(response, "outcome")
    if said is not None:
        return said if said in _OUTCOMES else "unchanged"
    return "unchanged" if getattr(response, "stored_at", 0) is None else "updated"


def _types(request: Any) -> tuple[str, ...]:
    """Kinds of memory that the request names."""
    several = _get(request, "types")
    if several is not None:
        return tuple(several)
    one = _get(request, "type")
    is_said = getattr(request, "states_type", True)
    return (one,) if isinstance(one, str) and is_said else ()


def _typed(items: Sequence[Any]) -> tuple[str, ...]:
    kinds = {item.type for item in items}
    return tuple(kinds) if len(kinds) == 1 else ()


def _backends_failed(response: Any) -> int:
    failed = len(_get(response, "stores_failed") or ())
    return failed + sum(1 for one in _get(response, "stores") or () if getattr(one, "error", None))


def _count(values: dict[str, Value], count: int) -> None:
    values["count"] = count
    if count != 1:
        values["several"] = count


def _only(values: Iterable[str | None]) -> str | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _get(found: Any, name: str) -> Any:
    return getattr(found, name, None)


def _put(values: dict[str, Value], key: str, value: Any) -> None:
    if value is not None and value != "":
        values[key] = value


def _date(epoch_ms: int | None) -> str | None:
    """ISO 8601 in UTC; a moment that the calendar does not reach is its last one."""
    if epoch_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- names that callers chose, and errors ------------------------------------------------------------------------------


def cleaned(values: Mapping[str, Value], clean: Clean | None) -> dict[str, Value]:
    """Without secrets in names that callers chose; without these names where nobody can tell."""
    chosen = {key: text for key, text in values.items() if key in CHOSEN and isinstance(text, str)}
    kept = {key: value for key, value in values.items() if key not in chosen}
    if clean is None:
        return kept
    chosen = {key: text for key, text in chosen.items() if _is_keepable(text)}
    # Mostly there is nothing to mask: all of them are looked at together first.
    together = "\n".join(chosen.values())
    if clean(together) != together:
        chosen = {key: clean(text) for key, text in chosen.items()}
    return kept | chosen


def _is_keepable(text: str) -> bool:
    """A request that was refused may hold a name that no exporter can write, or a whole book."""
    return len(text) <= _LONGEST_NAME and "\x00" not in text and text.isprintable()


def error_type(error: BaseException) -> str:
    """A stable code; of an error that nobody foresaw the class, builtins without their module."""
    if isinstance(error, QuipuError):
        return error.code
    kind = type(error)
    if kind.__name__ == "CancelledError":
        return "cancelled"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def description(error: BaseException) -> str | None:
    """Our own errors hold no memory; of anybody else's nobody knows."""
    return error.message if isinstance(error, QuipuError) else None
