"""From an observation to a span: its name, its kind, its attributes. Pure; the names come from one table."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple, TypeAlias, cast

from quipu.errors import QuipuError
from quipu.model.observation import Action, Became, Observation
from quipu.model.principal import DEFAULT_TENANT
from quipu.model.record import Tier
from quipu.model.store import StoreScope
from quipu.rules.texts import is_keepable
from quipu.telemetry import content, names
from quipu.telemetry.names import TABLES, Convention, Operation, Table
from quipu.telemetry.settings import Identity, Namespaces, Showing, Side

Value: TypeAlias = str | bool | int | float | list[str]
_STORES = {Action.CREATE_STORE: Operation.CREATE_STORE, Action.DELETE_STORE: Operation.DELETE_STORE}
_LABELS = (names.OPERATION_NAME, names.PROVIDER_NAME, names.SERVER_ADDRESS, names.SERVER_PORT)
#: Well above what a name may have.
_LONGEST_NAME = 1_024
_SEARCHES = frozenset({Action.RECALL, Action.GET, Action.LIST})


class Described(NamedTuple):
    """A span of memory, ready to be shown."""

    name: str
    is_client: bool
    attributes: Mapping[str, Value]


def operation_of(seen: Observation, table: Table) -> Operation:
    """What the convention calls it."""
    if seen.action in _STORES:
        return _STORES[seen.action]
    if seen.action in _SEARCHES:
        return Operation.SEARCH
    if seen.action is Action.FORGET or (seen.action is Action.EXPIRE and seen.deletes):
        return Operation.DELETE
    if table.tells_creation and seen.is_new and seen.action is Action.REMEMBER:
        return Operation.CREATE
    return Operation.UPDATE


def is_client(showing: Showing) -> bool:
    """Memory in the same process is its own client only for the proposal."""
    return TABLES[showing.convention].is_always_client or showing.server is not None


class Begun(NamedTuple):
    """What can be told of an operation at its start, and of every other of its kind.

    Its mappings are plain dictionaries: of a proxy the SDK finds out anew, each time, by way of the registries of abstract
    classes, that it is a mapping. Nobody may change them.
    """

    #: Without a store.
    name: str
    #: What samplers may go by: nothing that a caller chose.
    attributes: Mapping[str, Value]
    #: Of the caller's metric, unless it fails.
    labels: Mapping[str, Value]
    #: Whether the duration is counted here: once for each call, on the caller's side.
    is_callers: bool
    #: Whether the memory is in this process, and so its numbers.
    is_ours: bool


def begun(seen: Observation, showing: Showing) -> Begun:
    """There are only so many of these: they are for keeping."""
    operation = operation_of(seen, TABLES[showing.convention])
    attributes: dict[str, Value] = {names.OPERATION_NAME: operation.value}
    if _names_provider(showing):
        attributes[names.PROVIDER_NAME] = names.PROVIDER
    attributes[names.ACTION] = seen.action.value
    attributes[names.SIDE] = showing.side.value
    if showing.server is not None:
        attributes[names.SERVER_ADDRESS], attributes[names.SERVER_PORT] = showing.server
    return Begun(
        operation.value,
        attributes,
        labels(attributes),
        is_callers=showing.side is Side.CALLER,
        is_ours=showing.server is None,
    )


def ended(
    seen: Observation,
    showing: Showing,
    name: str,
    error: BaseException | None = None,
    *,
    is_bare: bool = False,
) -> Described:
    """What is known by the end only; `name` is what it was called at the start.

    `is_bare`: no name that a caller chose, and no content.
    """
    table = TABLES[showing.convention]
    operation, shown = _plan(showing.convention, name)
    values = _values(seen, showing, operation, None if is_bare else seen.clean)
    attributes = {called: values[key] for key, called in shown if key in values}
    _own(attributes, seen, table, operation)
    if showing.capture.on_spans and error is None and not is_bare:
        attributes |= _content(seen, showing, table, operation)
    if showing.convention is Convention.BOTH and operation is Operation.UPDATE:
        merged = operation_of(seen, TABLES[Convention.MERGED])
        attributes[names.MERGED_OPERATION] = merged.value
    if error is not None:
        attributes[names.ERROR_TYPE] = error_type(error)
    store = values.get("store_name")
    full = f"{name} {store}" if table.names_store and store else name
    return Described(full, is_client(showing), attributes)


@cache
def _plan(convention: Convention, name: str) -> tuple[Operation, tuple[tuple[str, str], ...]]:
    """The operation, and what its spans show: each value's key and what it is called."""
    operation, table = Operation(name), TABLES[convention]
    every = (*table.attributes.items(), *table.extra.items())
    return operation, tuple((key, named.name) for key, named in every if operation in named.on)


def _names_provider(showing: Showing) -> bool:
    """The merged convention names a provider only where memory is somebody else's."""
    return showing.convention is not Convention.MERGED or showing.server is not None


def _values(
    seen: Observation, showing: Showing, operation: Operation, clean: Callable[[str], str] | None
) -> dict[str, Value]:
    """By the tables' keys. Names that callers chose pass the redactors, or are left off."""
    values: dict[str, Value | None] = {"strategy": seen.strategy, "count": seen.count}
    if (scope := a_scope(seen.scope)) is not None:
        values["scope"] = scope.value
    if (tier := a_tier(seen.tier)) is not None:
        values["tier"] = tier.value
    if operation is Operation.SEARCH:
        values["results"], values["threshold"] = seen.count, _share(seen.threshold)
    else:
        values["expires"], values["importance"] = _date(seen.expires_at), _share(seen.importance)
    if clean is not None:
        _named(values, seen, showing, clean)
    return {key: value for key, value in values.items() if value is not None}


def _named(
    values: dict[str, Value | None], seen: Observation, showing: Showing, clean: Callable[[str], str]
) -> None:
    values["store_id"] = _cleaned(clean, seen.store_id)
    values["store_name"] = _cleaned(clean, seen.store_name)
    values["record_id"] = _cleaned(clean, seen.record_id)
    values["namespace"] = _namespace(seen, showing, clean)
    is_always = showing.identity is Identity.ALWAYS
    if is_always or seen.scope is StoreScope.AGENT:
        values["agent"] = _cleaned(clean, seen.agent_id)
    if is_always or seen.scope is StoreScope.SESSION:
        values["conversation"] = _cleaned(clean, seen.session_id)


def a_scope(scope: object) -> StoreScope | None:
    """A request that was refused may hold any text in its place, which is nobody's to see."""
    return scope if isinstance(scope, StoreScope) else None


def a_tier(tier: object) -> Tier | None:
    return tier if isinstance(tier, Tier) else None


def _share(value: object) -> float | None:
    """A number from 0 to 1. A request that was refused may hold anything."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= 1 else None


def _cleaned(clean: Callable[[str], str], text: object) -> str | None:
    """A name that there can be. A request that was refused may hold one that no exporter can write, or a whole book."""
    if not text or not isinstance(text, str) or len(text) > _LONGEST_NAME or not is_keepable(text):
        return None
    return clean(text)


def _namespace(seen: Observation, showing: Showing, clean: Callable[[str], str]) -> str | None:
    """What the store says it isolates; else the user, the tenant, or both. The default tenant by itself isolates nobody."""
    if showing.namespace is Namespaces.OFF:
        return None
    tenant = None if seen.tenant == DEFAULT_TENANT else seen.tenant
    if tenant is None and seen.user_id is None and seen.namespace is None:
        return None
    parts = [part for part in (tenant, cast("object", seen.user_id)) if part and isinstance(part, str)]
    plain = _cleaned(clean, seen.namespace or "/".join(parts))
    if plain is None or showing.namespace is Namespaces.PLAIN:
        return plain
    if showing.key is None:
        return None
    return hmac.new(showing.key, plain.encode("utf-8"), hashlib.sha256).hexdigest()[:32]


def _own(own: dict[str, Value], seen: Observation, table: Table, operation: Operation) -> None:
    """Adds what only Quipu tells."""
    if seen.became is not None:
        own[names.OUTCOME] = seen.became.value
    if seen.types:
        is_search = operation is Operation.SEARCH
        types = [str(kind) for kind in seen.types]
        own[names.RECORD_TYPE] = types if is_search else types[0]
    if seen.selector is not None:
        own[names.SELECTOR] = seen.selector.value
    if isinstance(seen.k, int) and not isinstance(seen.k, bool):
        own[names.SEARCH_K] = seen.k
        if table.has_top_k:
            own[names.TOP_K] = seen.k
    if seen.backends_failed:
        own[names.BACKENDS_FAILED] = seen.backends_failed


def _content(seen: Observation, showing: Showing, table: Table, operation: Operation) -> dict[str, Value]:
    """The opt-in attributes: a plain string stays one, the rest is JSON text."""
    shown: dict[str, Value] = {}
    is_cut = False
    records = content.redacted(seen.records, operation.value, showing.redact)
    for key, named in (*table.attributes.items(), *table.extra.items()):
        if operation not in named.on:
            continue
        text, was_cut = None, False
        if key == "query" and seen.query is not None:
            passed = content.redacted([{"content": seen.query}], operation.value, showing.redact)
            if passed:
                text, was_cut = content.text_of(passed[0].get("content"), showing.content_limit)
        elif key == "content" and records:
            text, was_cut = content.text_of(records[0].get("content"), showing.content_limit)
        elif key == "records" and records:
            text, was_cut = content.records_text(records, showing.content_limit)
        if text is not None:
            shown[named.name] = text
            is_cut = is_cut or was_cut
    if is_cut:
        shown[names.TRUNCATED] = True
    return shown


def _date(epoch_ms: object) -> str | None:
    """ISO 8601 in UTC; a moment that the calendar does not reach is its last day."""
    if not isinstance(epoch_ms, int) or isinstance(epoch_ms, bool):
        return None
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def error_type(error: BaseException) -> str:
    """A stable code; of an unexpected error the class, builtins without their module."""
    if isinstance(error, QuipuError):
        return error.code
    kind = type(error)
    if kind.__name__ == "CancelledError":
        return "cancelled"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def description(error: BaseException) -> str | None:
    """Our own errors never hold memory; of anybody else's nobody knows."""
    return error.message if isinstance(error, QuipuError) else None


def labels(begun: Mapping[str, Value], failed: str | None = None) -> dict[str, Value]:
    """What a metric of the caller's side is told apart by: never a user, a record, a store or a text."""
    shown = {key: begun[key] for key in _LABELS if key in begun}
    if failed is not None:
        shown[names.ERROR_TYPE] = failed
    return shown


@cache
def own_labels(
    name: str, scope: StoreScope | None, tier: Tier | None, became: Became | None, failed: str | None
) -> Mapping[str, Value]:
    """Labels of Quipu's own metrics. There are only so many, so each set is made once; plain for the same reason as `Begun`."""
    shown: dict[str, Value] = {names.OPERATION_NAME: name}
    if scope is not None:
        shown[names.LABEL_SCOPE] = scope.value
    if tier is not None:
        shown[names.LABEL_TIER] = tier.value
    if became is not None:
        shown[names.OUTCOME] = became.value
    if failed is not None:
        shown[names.ERROR_TYPE] = failed
    return shown
