"""Keeping secrets out: every string that will be kept passes a list of redactors, text in, text and findings out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from quipu.model.operations import RememberRequest
from quipu.model.record import Link
from quipu.model.value import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the classes of what was found."""

    text: str
    found: tuple[str, ...] = ()


#: One way of finding and marking secrets.
Redactor: TypeAlias = Callable[[str], Redacted]


def redacted_text(text: str, redactors: Sequence[Redactor], found: list[str]) -> str:
    """The text after every redactor, in order; what they found is added to `found`."""
    for redactor in redactors:
        result = redactor(text)
        text = result.text
        found.extend(result.found)
    return text


def redacted_value(value: Json, redactors: Sequence[Redactor], found: list[str]) -> Json:
    """Keys and values, at any depth."""
    if isinstance(value, str):
        return redacted_text(value, redactors, found)
    if isinstance(value, Mapping):
        return {
            redacted_text(key, redactors, found): redacted_value(item, redactors, found)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted_value(item, redactors, found) for item in value]
    return value


def redacted_request(
    request: RememberRequest, redactors: Sequence[Redactor], found: list[str]
) -> RememberRequest:
    """Everything of a remember request that will be kept."""
    if not redactors:
        return request

    def text(value: str | None) -> str | None:
        return None if value is None else redacted_text(value, redactors, found)

    def tree(value: JsonObject | None) -> JsonObject | None:
        return None if value is None else cast("JsonObject", redacted_value(value, redactors, found))

    content = request.content
    return replace(
        request,
        content=redacted_text(content, redactors, found)
        if isinstance(content, str)
        else cast("JsonObject", redacted_value(content, redactors, found)),
        metadata=tree(request.metadata),
        tags=None
        if request.tags is None
        else tuple(redacted_text(tag, redactors, found) for tag in request.tags),
        links=None
        if request.links is None
        else tuple(Link(link.to, redacted_text(link.rel, redactors, found)) for link in request.links),
        source=text(request.source),
        details=tree(request.details) or {},
        reasoning=text(request.reasoning),
    )
