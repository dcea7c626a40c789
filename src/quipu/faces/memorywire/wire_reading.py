"""From a JSON value to a body, or to an `InvalidError` that names each fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from pydantic import ValidationError

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire_decisions import EditBody, MergeIntoBody
from quipu.faces.memorywire.wire_faults import invalid
from quipu.faces.memorywire.wire_json import Path, pointer
from quipu.faces.memorywire.wire_parts import (
    Body,
    EmbeddingBody,
    LinkBody,
    PolicyBody,
    PrivacyIntentBody,
    ProvenanceBody,
)
from quipu.faces.memorywire.wire_remember import RememberBody

B = TypeVar("B", bound=Body)

#: The bodies inside bodies, by the field that holds them.
_INNER: Mapping[str, type[Body]] = {
    "policy": PolicyBody,
    "privacy_intent": PrivacyIntentBody,
    "embedding": EmbeddingBody,
    "links": LinkBody,
    "provenance": ProvenanceBody,
    "items": RememberBody,
    "edit": EditBody,
    "merge_into": MergeIntoBody,
}


def read(kind: type[B], data: object, *, strict: bool = True, under: Path = ()) -> tuple[B, tuple[str, ...]]:
    """A body, and the unknown top-level fields that were dropped because the caller is not strict.

    `under` is where the data stands in what the caller sent.
    """
    if not isinstance(data, dict):
        raise InvalidError.at(pointer(under), "bad_value", "This is not an object.", accepted=["object"])
    members = cast("dict[str, object]", data)
    ignored: tuple[str, ...] = ()
    if not strict:
        ignored = tuple(name for name in members if name not in kind.model_fields)
        members = {name: value for name, value in members.items() if name not in ignored}
    try:
        return kind.model_validate(members), ignored
    except ValidationError as error:
        # `from None`: pydantic's error holds the values, and ours must not.
        raise invalid(error, partial(_fields_at, kind), under) from None


def _fields_at(kind: type[Body], path: Path) -> Sequence[str]:
    names = [step for step in path if isinstance(step, str)]
    return tuple((_INNER[names[-1]] if names else kind).model_fields)
