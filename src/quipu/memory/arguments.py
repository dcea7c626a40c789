"""What callers may give instead of the exact value: words for members, mappings for values."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quipu.errors import InvalidError
from quipu.model.operations import Embedding, ExpirePolicy, Floor
from quipu.model.record import DETAIL_FIELDS, Link, MemoryType, PrivacyIntent

if TYPE_CHECKING:
    from quipu.model.value import Json

E = TypeVar("E", bound=str)
EmbeddingLike = Embedding | Mapping[str, Any] | None


def member(kind: type[E], value: str, pointer: str) -> E:
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        accepted = [str(member) for member in cast("Any", kind)]
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is not one of its words.", accepted=accepted
        ) from None


def floor(value: float | Floor | str) -> float | Floor:
    return member(Floor, value, "/min_relevance") if isinstance(value, str) else value


def embedding(value: EmbeddingLike) -> Embedding | None:
    if value is None or isinstance(value, Embedding):
        return value
    try:
        return Embedding(value["model"], value["vector"])
    except KeyError as missing:
        raise InvalidError.at(
            "/embedding", "missing_field", "An embedding has a model and a vector."
        ) from missing


def link(value: Link | Mapping[str, str], pointer: str) -> Link:
    if isinstance(value, Link):
        return value
    try:
        return Link(value["to"], value["rel"])
    except KeyError:
        raise InvalidError.at(pointer, "missing_field", "A link has a `to` and a `rel`.") from None


def several(values: Sequence[str], pointer: str) -> tuple[str, ...]:
    """A list of texts; a single text would be taken for its letters."""
    if isinstance(values, str):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is one text, not a list.", accepted=["list of texts"]
        )
    return tuple(values)


def privacy(value: PrivacyIntent | Mapping[str, Any] | None) -> PrivacyIntent | None:
    if value is None or isinstance(value, PrivacyIntent):
        return value
    from quipu.faces.memorywire import wire  # pydantic is slow to load, and most calls do not need it

    request, _ = wire.parsed(
        "remember", {"agent_id": "a", "type": "semantic", "content": "-", "privacy_intent": dict(value)}
    )
    return request.privacy_intent


def policy(value: ExpirePolicy | Mapping[str, Any] | None) -> ExpirePolicy:
    if value is None or isinstance(value, ExpirePolicy):
        return value or ExpirePolicy()  # an empty one is refused by the rules
    known = {field.name for field in fields(ExpirePolicy)}
    for name in value:
        if name not in known:
            raise InvalidError.at(
                f"/policy/{name}",
                "unknown_policy_key",
                "There is no such policy key.",
                accepted=sorted(known),
            )
    kind = value.get("type")
    given: dict[str, Any] = {
        **value,
        "type": None if kind is None else member(MemoryType, kind, "/policy/type"),
    }
    return ExpirePolicy(**given)


def details(given: Mapping[str, Json]) -> dict[str, Json]:
    for name in given:
        if name not in DETAIL_FIELDS:
            raise TypeError(f"remember() got an unexpected keyword argument {name!r}")
    return dict(given)


async def each(
    lines: Iterable[Mapping[str, Any] | str] | AsyncIterable[Mapping[str, Any] | str],
) -> AsyncIterator[Mapping[str, Any] | str]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line
