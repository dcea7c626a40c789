"""Shapes of secrets that are looked for together, and the words without which none of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from quipu.rules.marking import Span
from quipu.rules.shapes import Shape

#: The letters of English, the commonest first.
_BY_RARITY = "etaoinshrdlcumwfgypbvkjxqz"


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


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Says whether a text has any of the words in it, not where.

    Each is tried where its rarest character stands: a text has fewer of those than of first letters.
    """
    rests: dict[str, list[str]] = {}
    for word in shortest(words):
        place = max(range(len(word)), key=lambda place: _rarity(word[place]))
        before = f"(?<={re.escape(word[: place + 1])})" if place else ""
        rests.setdefault(word[place], []).append(before + re.escape(word[place + 1 :]))
    return re.compile(
        "|".join(f"{re.escape(rare)}(?:{'|'.join(rest)})" for rare, rest in rests.items()) or r"(?!)"
    )


def _rarity(char: str) -> int:
    """How seldom prose has a character; what is no small letter is the rarest."""
    return place if (place := _BY_RARITY.find(char)) >= 0 else len(_BY_RARITY)
