"""The texts of a JSON value in order, to be rewritten one by one or read as one, and the value put together again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from quipu.model.value import Json

#: A shorter number cannot hold a registered value.
_SHORTEST_NUMBER = 8
#: Spelt out, because every write asks: a union is made anew each time, and an abstract class asks further.
_NUMBERS = (int, float)
_OBJECTS = (dict, Mapping)
#: Where secrets were found, and their labels.
Findings: TypeAlias = list[tuple[str, list[str]]]


@dataclass(slots=True)
class Leaf:
    """One text: a string, a key, or a number as it is written."""

    text: str
    is_key: bool = False
    is_number: bool = False
    #: The key that it stands under, if it is the value of one.
    key: Leaf | None = None
    found: list[str] = field(default_factory=list[str])


def gather(value: Json, texts: list[str], keys: list[str]) -> None:
    """Adds every text and every key of a value, as a `Tree` would find it, without the means to put it together again."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, _NUMBERS):
        texts.append(repr(value))
    elif isinstance(value, _OBJECTS):
        for name, item in value.items():
            keys.append(name)
            gather(item, texts, keys)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Json]", value):
            gather(item, texts, keys)


class Tree:
    """A JSON value and its leaves."""

    def __init__(self, value: Json, *, with_numbers: bool = True) -> None:
        self._value, self._with_numbers = value, with_numbers
        self.leaves: list[Leaf] = []
        if value is not None:
            self._collect(value, None)

    def rebuilt(self, pointer: str, findings: Findings) -> Json:
        """The value with its leaves as they are now; what was found in them is added, by JSON Pointer."""
        if not any(leaf.found for leaf in self.leaves):
            return self._value
        return self._rebuilt(self._value, iter(self.leaves), pointer, findings)

    def _is_leaf(self, value: Json) -> bool:
        if isinstance(value, str):
            return True
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._with_numbers and is_number and len(repr(value)) >= _SHORTEST_NUMBER

    def _collect(self, value: Json, key: Leaf | None) -> None:
        if self._is_leaf(value):
            is_text = isinstance(value, str)
            self.leaves.append(Leaf(value if is_text else repr(value), is_number=not is_text, key=key))
        elif isinstance(value, Mapping):
            for name, item in value.items():
                self.leaves.append(leaf := Leaf(name, is_key=True))
                self._collect(item, leaf)
        elif isinstance(value, list | tuple):
            for item in cast("Sequence[Json]", value):
                self._collect(item, None)

    def _rebuilt(self, value: Json, leaves: Iterator[Leaf], pointer: str, findings: Findings) -> Json:
        if self._is_leaf(value):
            leaf = next(leaves)
            if leaf.found:
                findings.append((pointer, leaf.found))
            return leaf.text if leaf.found else value
        if isinstance(value, Mapping):
            return self._rebuilt_object(value, leaves, pointer, findings)
        if isinstance(value, list | tuple):
            items = enumerate(cast("Sequence[Json]", value))
            return [self._rebuilt(item, leaves, f"{pointer}/{index}", findings) for index, item in items]
        return value

    def _rebuilt_object(
        self, value: Mapping[str, Json], leaves: Iterator[Leaf], pointer: str, findings: Findings
    ) -> Json:
        result: dict[str, Json] = {}
        for item in value.values():
            leaf = next(leaves)
            key = leaf.text
            if leaf.found:
                findings.append((pointer, leaf.found))  # the key itself must not be told
                key = _unused(key, value, result)
            result[key] = self._rebuilt(item, leaves, f"{pointer}/{_escaped(key)}", findings)
        return result


def _unused(key: str, *taken: Mapping[str, Json]) -> str:
    """Two secrets of one label stay two keys."""
    name, number = key, 1
    while any(name in names for names in taken):
        number += 1
        name = f"{key} ({number})"
    return name


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
