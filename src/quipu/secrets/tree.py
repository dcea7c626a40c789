"""The texts of a request or of a JSON value, in order, and the same value with some of them replaced.

A request is walked by its model: every text field is marked with what a secret in it means (`fields.Redact`). Inside
free JSON every key and every string follows the mark of its field, and so does a number that is long enough to be a
secret in digits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from inspect import get_annotations
from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, NewType, cast, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType

from quipu.fields import Redact

#: A shorter number cannot hold a registered value.
_SHORTEST_NUMBER = 8
#: The fields that a caller's own vector may have been made of.
_VECTOR_OF = frozenset({"content", "query"})
#: The row of everything that can be rewritten.
REWRITTEN: Final = 0


# -- what a model says of its fields --------------------------------------------------------------------------------


class TextField(NamedTuple):
    """A field to look at, and what a secret in it means; None: only models inside it hold text."""

    name: str
    mark: Redact | None


@cache
def text_fields(model: type[BaseModel]) -> tuple[TextField, ...]:
    """The fields to look at: those of the model's own class first, so that its main text comes before what it inherits.

    A text field without a mark, or with two different ones, is a TypeError: nobody would know what to do.
    """
    fields: dict[str, TextField | None] = {}
    for base in model.__mro__:
        for name in get_annotations(base):
            if name in model.model_fields and name not in fields:
                fields[name] = _text_field(model, name)
    return tuple(one for one in fields.values() if one is not None)


def _text_field(model: type[BaseModel], name: str) -> TextField | None:
    info = model.model_fields[name]
    parts = list(_parts(info.annotation, *info.metadata))
    marks = {part for part in parts if isinstance(part, Redact)}
    has_text = any(map(_is_text, parts))
    if len(marks) > 1 or (has_text and not marks):
        raise TypeError(f"{model.__name__}.{name} needs one mark of what a secret in it means.")
    if Redact.NONE in marks or not (has_text or any(map(_is_model, parts))):
        return None
    return TextField(name, marks.pop() if marks else None)


def _parts(annotation: Any, *metadata: Any) -> Iterator[Any]:
    """The marks and the plain types that the type of a field is made of."""
    yield from (mark for mark in metadata if isinstance(mark, Redact))
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(*get_args(annotation))
    elif isinstance(annotation, NewType):
        yield from _parts(annotation.__supertype__)
    elif isinstance(annotation, TypeAliasType):
        yield from _parts(annotation.__value__)
    elif origin is None:
        yield annotation
    elif origin is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _is_text(part: Any) -> bool:
    """Whether it may hold a text that the type does not name; what is not known may."""
    if isinstance(part, type):
        return not issubclass(part, bool | int | float | bytes | NoneType | Enum | BaseModel)
    return part is not Ellipsis and not isinstance(part, Redact)


# -- the texts ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Leaf:
    """One text: a string, a key, or a number as it is written."""

    text: str
    #: Texts of one row are also read one after the other. A field that cannot be rewritten is a row of its own.
    row: int = REWRITTEN
    is_key: bool = False
    is_number: bool = False
    #: The key that it stands under, if it is the value of one.
    key: "Leaf | None" = None
    #: The labels of what was found in it.
    found: tuple[str, ...] = ()


class Finding(NamedTuple):
    """Where secrets were found, as a JSON pointer, and their labels."""

    pointer: str
    labels: Sequence[str]
    row: int


class Tree:
    """A request or a JSON value, and its texts."""

    def __init__(self, value: Any, mark: Redact = Redact.REWRITE) -> None:
        self.value: Final = value
        self._rows = REWRITTEN
        self.leaves: Final[list[Leaf]] = []
        #: Whether a machine in JSON text says a key twice. What it said first is no part of the machine, is not looked
        #: at, and is therefore not kept.
        self.has_repeats = False
        self._collect(value, self._row(mark), None)

    def rows(self) -> list[list[Leaf]]:
        """The texts, row by row."""
        rows: dict[int, list[Leaf]] = {}
        for leaf in self.leaves:
            rows.setdefault(leaf.row, []).append(leaf)
        return list(rows.values())

    def rebuilt(self, pointer: str, findings: list[Finding]) -> Any:
        """The value with its texts as they are now; what was found in them is added to `findings`."""
        if not self.has_repeats and not any(leaf.found for leaf in self.leaves):
            return self.value
        return self._rebuilt(self.value, iter(self.leaves), pointer, findings)

    def _row(self, mark: Redact | None) -> int:
        if mark is not Redact.REFUSE:
            return REWRITTEN
        self._rows += 1
        return self._rows

    def _collect(self, value: Any, row: int, key: Leaf | None) -> None:
        if isinstance(value, str):
            self.leaves.append(Leaf(value, row, key=key))
        elif _is_number(value):
            self.leaves.append(Leaf(repr(value), row, is_number=True, key=key))
        elif isinstance(value, Mapping):
            for name, item in cast("Mapping[str, Any]", value).items():
                self.leaves.append(leaf := Leaf(name, row, is_key=True))
                self._collect(item, row, leaf)
        elif isinstance(value, list | tuple):
            for item in cast("Sequence[Any]", value):
                self._collect(item, row, None)
        elif isinstance(value, BaseModel):
            for name, mark in text_fields(type(value)):
                item = getattr(value, name)
                if item is None:
                    continue
                if (machine := _machine(value, name, item)) is not None:
                    item, repeats = machine
                    self.has_repeats |= repeats
                self._collect(item, self._row(mark), None)
        elif not isinstance(value, bool | int | float | bytes | NoneType):
            raise TypeError(f"A {type(value).__name__} cannot be searched for secrets.")

    def _rebuilt(self, value: Any, leaves: Iterator[Leaf], pointer: str, findings: list[Finding]) -> Any:
        if isinstance(value, str) or _is_number(value):
            leaf = next(leaves)
            if leaf.found:
                findings.append(Finding(pointer, leaf.found, leaf.row))
            return leaf.text if leaf.found else value
        if isinstance(value, Mapping):
            return self._rebuilt_object(cast("Mapping[str, Any]", value), leaves, pointer, findings)
        if isinstance(value, list | tuple):
            items = cast("Sequence[Any]", value)
            new = [
                self._rebuilt(item, leaves, f"{pointer}/{index}", findings)
                for index, item in enumerate(items)
            ]
            if all(one is other for one, other in zip(new, items, strict=True)):
                return items
            return tuple(new) if isinstance(value, tuple) else new
        if isinstance(value, BaseModel):
            return self._rebuilt_model(value, leaves, pointer, findings)
        return value

    def _rebuilt_object(
        self, value: Mapping[str, Any], leaves: Iterator[Leaf], pointer: str, findings: list[Finding]
    ) -> Mapping[str, Any]:
        new: dict[str, Any] = {}
        is_same = True
        for item in value.values():
            leaf = next(leaves)
            key = leaf.text
            if leaf.found:
                findings.append(Finding(pointer, leaf.found, leaf.row))  # the pointer must not hold the key
                key = _unused(key, value, new)
            new[key] = self._rebuilt(item, leaves, f"{pointer}/{_escaped(key)}", findings)
            is_same = is_same and not leaf.found and new[key] is item
        return value if is_same else new

    def _rebuilt_model(
        self, model: BaseModel, leaves: Iterator[Leaf], pointer: str, findings: list[Finding]
    ) -> BaseModel:
        changed: dict[str, Any] = {}
        for name, _ in text_fields(type(model)):
            item = getattr(model, name)
            machine = _machine(model, name, item)
            before, repeats = (item, False) if machine is None else machine
            after = self._rebuilt(before, leaves, f"{pointer}/{name}", findings)
            if after is not before or repeats:
                changed[name] = after if machine is None else json.dumps(after, ensure_ascii=False)
        if not _VECTOR_OF.isdisjoint(changed) and getattr(model, "embedding", None) is not None:
            changed["embedding"] = None  # a vector that the caller made of the words shows what they were
        return model.model_copy(update=changed) if changed else model


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and len(repr(value)) >= _SHORTEST_NUMBER


def _machine(model: BaseModel, name: str, value: Any) -> tuple[dict[str, Any], bool] | None:
    """A procedure's machine that comes as JSON text, and whether it says a key twice.

    It is searched as what it means, so that it is still a machine afterwards. A request without a type, which changes
    a memory, may be one for a procedure.
    """
    if name != "content" or not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    if getattr(model, "type", "procedural") != "procedural":
        return None
    repeats: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        repeats.append(len(result) < len(pairs))
        return result

    try:
        machine = json.loads(value, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    return machine, any(repeats)


def _unused(key: str, *taken: Mapping[str, Any]) -> str:
    """Two secrets of one label stay two keys."""
    name, number = key, 1
    while any(name in names for names in taken):
        number += 1
        name = f"{key} ({number})"
    return name


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
