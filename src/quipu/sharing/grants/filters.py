"""Which items a grant covers, or a query narrows it to. Pure.

Conditions are joined by AND, the members of a list by OR. A filter is judged anew at every query.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import AfterValidator, Field, Strict, model_validator

from quipu.fields import Name, Redact, Share, bad_value, fault
from quipu.model.record import MemoryType, Record
from quipu.model.search import Selection
from quipu.operation import Message
from quipu.sharing.items import Kind, labels_of
from quipu.sharing.times import instant

_TYPES: Mapping[Kind, frozenset[MemoryType]] = {
    "preference": frozenset({"semantic"}),
    "summary": frozenset({"semantic"}),
    "document_reference": frozenset({"semantic"}),
    "conversation_turn": frozenset({"episodic"}),
    "observation": frozenset({"episodic"}),
    "fact": frozenset({"semantic", "procedural", "emotional"}),
}


def _moment(text: str) -> str:
    if instant(text) is None:
        raise bad_value("a time in UTC, such as 2026-01-01T00:00:00Z")
    return text


#: A time as RFC 3339, in UTC.
Instant: TypeAlias = Annotated[str, Field(max_length=32), AfterValidator(_moment), Redact.NONE]
Words: TypeAlias = Annotated[tuple[Name, ...], Strict(False), Field(min_length=1, max_length=1000)]
Kinds: TypeAlias = Annotated[tuple[Kind, ...], Strict(False), Field(min_length=1, max_length=6)]


class ItemFilter(Message):
    """What an item must be like. Everything is said by `all`; a filter that says nothing is refused."""

    subject_entity_ids: Words | None = None
    kinds: Kinds | None = None
    captured_after: Instant | None = None
    captured_before: Instant | None = None
    labels_any: Words | None = None
    labels_all: Words | None = None
    labels_none: Words | None = None
    min_confidence: Share | None = None
    scope_ids: Words | None = None
    all: Literal[True] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise fault("missing_field", "", 'a condition, or {"all": true} for everything')
        return self

    @property
    def labels(self) -> frozenset[str]:
        """The labels that it names, and which whoever has the grant therefore knows."""
        return frozenset((*(self.labels_any or ()), *(self.labels_all or ())))


def admits(wanted: ItemFilter, item: Mapping[str, Any]) -> bool:
    """Whether a filter fits an item: the whole item for a grant's filter, the item as it is shown for a query's."""
    provenance = cast("Mapping[str, Any]", item["provenance"])
    labels = cast("Sequence[str]", item.get("labels", ()))
    at = instant(provenance["captured_at"]) or 0
    return (
        (wanted.subject_entity_ids is None or item.get("subject_entity_id") in wanted.subject_entity_ids)
        and (wanted.kinds is None or item["kind"] in wanted.kinds)
        and (wanted.captured_after is None or at > (instant(wanted.captured_after) or 0))
        and (wanted.captured_before is None or at < (instant(wanted.captured_before) or 0))
        and (wanted.labels_any is None or any(label in labels for label in wanted.labels_any))
        and (wanted.labels_all is None or all(label in labels for label in wanted.labels_all))
        and (wanted.labels_none is None or not any(label in labels for label in wanted.labels_none))
        and (wanted.min_confidence is None or provenance["confidence"] >= wanted.min_confidence)
        and (wanted.scope_ids is None or item.get("scope_id") in wanted.scope_ids)
    )


def selection(tenant: str, wanted: ItemFilter) -> Selection:
    """The records among which its items are: what can be told of a record before an item is made of it."""
    types = frozenset[MemoryType]()
    for kind in wanted.kinds or ():
        types |= _TYPES[kind]

    def matches(record: Record) -> bool:
        return wanted.labels_any is None or any(label in wanted.labels_any for label in labels_of(record))

    return Selection(tenant=tenant, types=types, matches=matches)
