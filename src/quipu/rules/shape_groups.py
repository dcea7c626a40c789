"""Shapes of secrets that are looked for together, and the words without which none of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from quipu.rules.marking import Span
from quipu.rules.shapes import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Shapes that are looked for together, because they have their keywords in common."""

    keywords: tuple[str, ...]
    is_cased: bool
    is_long: bool
    #: The rank of each shape in the table, and the shape.
    shapes: tuple[tuple[int, Shape], ...]
    #: Whether any shape is tried only where a keyword stands.
    is_anchored: bool
    #: Without one of these, in lower case, none of the shapes is found.
    signs: tuple[str, ...]

    def spans(self, text: str, searched: str) -> Iterator[Span]:
        """Where they stand; `searched` is the text, in lower case unless they are cased."""
        anchors = self._anchors(searched) if self.is_anchored else ()
        for rank, shape in self.shapes:
            pattern = shape.pattern
            matches = _anchored(pattern, text, anchors) if shape.begins else pattern.finditer(text)
            group = "secret" if pattern.groupindex else 0
            for match in matches:
                if shape.accepts(match[group]):
                    yield Span(*match.span(group), shape.name, rank)

    def _anchors(self, searched: str) -> list[int]:
        """Where keywords stand."""
        places: set[int] = set()
        for word in self.keywords:
            place = searched.find(word)
            while place >= 0:
                places.add(place)
                place = searched.find(word, place + 1)
        return sorted(places)


def _anchored(pattern: re.Pattern[str], text: str, anchors: Iterable[int]) -> Iterator[re.Match[str]]:
    """The pattern is tried where a keyword stands, and nowhere else."""
    end = 0
    for place in anchors:
        if place >= end and (match := pattern.match(text, place)):
            end = max(match.end(), place + 1)
            yield match


def grouped(shapes: Sequence[Shape]) -> tuple[Group, ...]:
    """The shapes of a table, by what they have in common."""
    groups: dict[tuple[tuple[str, ...], bool, bool], list[tuple[int, Shape]]] = {}
    for rank, shape in enumerate(shapes):
        groups.setdefault((shape.keywords, shape.is_cased, shape.is_long), []).append((rank, shape))
    return tuple(
        Group(
            keywords,
            is_cased,
            is_long,
            tuple(members),
            any(shape.begins for _, shape in members),
            shortest(word.lower() for _, shape in members for word in shape.signs or keywords),
        )
        for (keywords, is_cased, is_long), members in groups.items()
    )


def holds_any(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words stands anywhere in the text."""
    for word in words:  # noqa: SIM110  twice as fast as any()
        if word in text:
            return True
    return False


def shortest(words: Iterable[str]) -> tuple[str, ...]:
    """The words without those that hold another."""
    kept: list[str] = []
    for word in sorted(set(words), key=lambda word: (len(word), word)):
        if not any(short in word for short in kept):
            kept.append(word)
    return tuple(kept)


def any_of(words: Iterable[str]) -> str:
    """An expression for any of the words, taken together by their first letters: it is tried at every place of a text."""
    rests: dict[str, list[str]] = {}
    for word in shortest(words):
        rests.setdefault(word[0], []).append(re.escape(word[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items()) or r"(?!)"
