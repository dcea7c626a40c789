"""JSON Schema 2020-12 of every message. Renderers read this, never pydantic's insides."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from quipu.operation import AnyOperation, Request

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Operations: TypeAlias = Sequence[AnyOperation]


class PlainSchema(GenerateJsonSchema):
    """Without the titles that repeat each name: a model pays for every word of a tool's schema."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def schema(model: type[BaseModel]) -> dict[str, Any]:
    """Shared: to be read, not changed."""
    # An answer has all its fields, also those with a default: that is the serialisation schema.
    mode = "validation" if issubclass(model, Request) else "serialization"
    return model.model_json_schema(mode=mode, schema_generator=PlainSchema)


def without(whole: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """An object's schema for a face that has some fields already: out of the path, or bound to the connection."""
    properties = {name: part for name, part in whole["properties"].items() if name not in names}
    required = [name for name in whole.get("required", ()) if name not in names]
    return {**whole, "properties": properties, "required": required}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, as a renderer needs it."""

    name: str
    #: string, integer, number, boolean, array, object
    kind: str
    schema: Mapping[str, Any]
    description: str
    is_required: bool
    is_nullable: bool
    #: The other kinds it may be: a duration beside a moment.
    other_kinds: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.schema.get("enum", ()))

    @property
    def default(self) -> Any:
        return self.schema.get("default")


@cache
def fields(model: type[BaseModel]) -> Mapping[str, Field]:
    """In the order in which they are declared."""
    whole = schema(model)
    shared = whole.get("$defs", {})
    found: dict[str, Field] = {}
    for name, outer in whole.get("properties", {}).items():
        arms = [_resolved(arm, shared) for arm in outer.get("anyOf", [outer])]
        present = [arm for arm in arms if arm.get("type") != "null"]
        merged: dict[str, Any] = {key: value for key, value in outer.items() if key not in ("anyOf", "$ref")}
        merged |= present[0]
        if merged.get("default", 0) is None:
            del merged["default"]
        if "const" in merged:
            merged["enum"] = [merged["const"]]
        found[name] = Field(
            name=name,
            kind=merged.get("type", "object"),
            schema=merged,
            description=outer.get("description", ""),
            is_required=name in whole.get("required", ()),
            is_nullable=len(present) < len(arms),
            other_kinds=tuple(arm.get("type", "object") for arm in present[1:]),
        )
    return found


def _resolved(arm: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(arm.get("$ref", "")).rpartition("/")[2]
    return {**{key: value for key, value in arm.items() if key != "$ref"}, **shared[name]} if name else arm


def from_texts(request: type[Request], texts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Fields out of a query or a command line, where all is text. What cannot be read, the model will refuse."""
    known = fields(request)
    return {name: _from_texts(known.get(name), list(values)) for name, values in texts.items()}


def _from_texts(field: Field | None, texts: list[str]) -> Any:
    if field is None or len(texts) != 1:
        return texts
    if field.kind == "array":
        return _items(field, texts)
    if field.kind == "string":
        return texts[0]
    try:
        value = json.loads(texts[0])
    except (ValueError, RecursionError):
        return texts[0]
    return texts[0] if isinstance(value, str) else value


def _items(field: Field, texts: list[str]) -> list[Any]:
    """A list of texts as they are; a list of anything else as JSON."""
    if field.schema.get("items", {}).get("type", "object") == "string":
        return texts
    try:
        read = json.loads(texts[0])
    except (ValueError, RecursionError):
        return texts
    return read if isinstance(read, list) else [read]  # pyright: ignore[reportUnknownVariableType]  the model checks it


def files(operations: Operations) -> dict[str, str]:
    """File name → text, as they are published under schemas/."""
    texts: dict[str, str] = {}
    for operation in operations:
        for suffix, model in (("", operation.request), (".response", operation.response)):
            name = f"{operation.name}{suffix}.json"
            texts[name] = json.dumps({"$schema": DIALECT, "$id": name, **schema(model)}, indent=2) + "\n"
    return texts
