"""Secrets that nobody registered, known by their shape.

1. Every shape of the table is looked for in the text and in its decoded variants.
2. Where a run of base64, base32 or hex holds a secret, the whole run is replaced.
3. A secret that begins with its issuer's prefix is also found when it goes on in the next text of the same request.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from quipu.secrets.decoded import RUN, Decoded
from quipu.secrets.literals import Literals, Search, encoded, searcher
from quipu.secrets.marker import Piece, Span
from quipu.secrets.randomness import is_placeholder
from quipu.secrets.shapes import NAMES, SHAPES, Shape

#: Labels that are never a secret themselves.
LABELS: Final = NAMES

#: `x://:pwd@` and `pwd=abcdef` are the shortest secrets there are.
_SHORTEST = 9
_NEVER = r"[^\x00-\xff]"
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_SPACE = re.compile(r"\s")
_ENDING = re.compile(r"[\"'`<>,;&|()\[\]{}\\]")
#: Over how many texts one secret may be spread.
_MOST_PIECES = 4
_LONGEST_PIECE = 2_048
#: What the rest of a secret has, and a word after it has not.
_GOES_ON = re.compile(r"[0-9]|[a-z][A-Z]|[A-Z][a-z]?[A-Z]")


class Detectors:
    """Finds secrets by their shape."""

    def __init__(self, table: Sequence[Shape] = SHAPES) -> None:
        self._table = table

    # What a search goes by is made with the first text: many processes never look at one.

    @cached_property
    def _cased_rows(self) -> Mapping[str, Sequence[int]]:
        """From each keyword that is looked for as it is written to the rows that have it."""
        return self._rows(is_cased=True)

    @cached_property
    def _uncased_rows(self) -> Mapping[str, Sequence[int]]:
        """The same for those that are looked for in lower case."""
        return self._rows(is_cased=False)

    def _rows(self, *, is_cased: bool) -> Mapping[str, Sequence[int]]:
        rows: dict[str, list[int]] = {}
        for rank, shape in enumerate(self._table):
            for word in shape.keywords if shape.is_cased is is_cased else ():
                rows.setdefault(word, []).append(rank)
        return rows

    @cached_property
    def _cased(self) -> Literals:
        return Literals(self._cased_rows)

    @cached_property
    def _uncased(self) -> Literals:
        return Literals(self._uncased_rows)

    @cached_property
    def _has_keyword(self) -> Search:
        """Without a match of this, no row finds anything."""
        return searcher(_any_of(self._cased_rows, self._uncased_rows))

    @cached_property
    def _has_hint(self) -> Search:
        """Without a match of this, there is also nothing to decode."""
        return searcher(_any_of(self._cased_rows, self._uncased_rows) + b"|" + RUN)

    @cached_property
    def _has_uncased(self) -> Search:
        return searcher(_any_of((), self._uncased_rows))

    @cached_property
    def _prefixes(self) -> list[tuple[str, Shape]]:
        return [(word, shape) for shape in self._table if shape.is_prefixed for word in shape.keywords]

    @cached_property
    def _has_prefix(self) -> Search:
        return searcher(_any_of((word for word, _ in self._prefixes), ()))

    def is_clear(self, decoded: Decoded) -> bool:
        """Whether a text holds no secret for sure: no keyword, and nothing that could be decoded."""
        return decoded.is_plain and self._has_hint(decoded.data) is None

    def may_begin(self, texts: Sequence[str]) -> bool:
        """Whether a secret may begin in one of the texts and go on in the next."""
        return self._has_prefix(encoded(" ".join(map(_last_word, texts)))) is not None

    def may_name(self, key: str) -> bool:
        """Whether a key says that a secret may stand under it."""
        return self._has_uncased(encoded(key)) is not None

    def spans(self, decoded: Decoded) -> Iterator[Span]:
        """Where secrets stand."""
        if self.is_clear(decoded):
            return
        for variant in decoded.variants:
            for start, end, label, rank in self._shaped(variant.text):
                yield Span(*variant.span(start, end), label, rank)
        for run in decoded.runs:
            for span in self.spans(run.inside):
                yield span._replace(start=run.start, end=run.end)

    def named(self, key: str, text: str) -> Iterator[Span]:
        """Where the secret stands that the text's key says it is: `{"password": "…"}`."""
        if not self.may_name(key):
            return
        begin, length = len(key) + 2, len(text)
        if not _SPACE.search(text) and not is_placeholder(text):
            text = _ENDING.sub("_", text)  # a sign that would end it in a program is part of it here
        for start, end, label, rank in self._shaped(f'{key}="{text}"'):
            if start >= begin:
                yield Span(start - begin, min(end - begin, length), label, rank)

    def across(self, texts: Sequence[str]) -> Iterator[Piece]:
        """The pieces of secrets that begin in one text and go on in the next."""
        for number, text in enumerate(texts[:-1]):
            last = _last_word(text)
            if last and self._has_prefix(encoded(last)) is not None:
                for word, shape in self._prefixes:
                    if word in last:
                        following = texts[number : number + _MOST_PIECES]
                        yield from _chained(shape, following, number, text.rfind(word))

    def _shaped(self, text: str) -> Iterator[Span]:
        data = encoded(text)
        if len(data) < _SHORTEST or self._has_keyword(data) is None:
            return
        cased = _places(self._cased, data)
        uncased = _places(self._uncased, encoded(_lowered(text)))
        ranks = {rank for word in cased for rank in self._cased_rows[word]}
        ranks |= {rank for word in uncased for rank in self._uncased_rows[word]}
        for rank in sorted(ranks):
            shape = self._table[rank]
            pattern = shape.pattern
            places = cased if shape.is_cased else uncased
            matches = _anchored(shape, text, places) if shape.begins else pattern.finditer(text)
            group = "secret" if pattern.groupindex else 0
            for match in matches:
                if shape.accepts(match[group]):
                    yield Span(*match.span(group), shape.name, rank)


def _any_of(cased: Iterable[str], uncased: Iterable[str]) -> bytes:
    """An expression for any of the words: some as they are written, some in either case."""
    words = [re.escape(word) for word in sorted(set(cased))]
    words += [f"(?i:{re.escape(word)})" for word in sorted(set(uncased))]
    return "|".join(words or [_NEVER]).encode()


def _places(keywords: Literals, text: bytes) -> dict[str, list[int]]:
    """Where each of the keywords stands."""
    places: dict[str, list[int]] = {}
    for place, word in keywords.found(text):
        places.setdefault(word, []).append(place)
    return places


def _anchored(shape: Shape, text: str, places: Mapping[str, Sequence[int]]) -> Iterator[re.Match[str]]:
    """The pattern is tried where one of its keywords stands, and nowhere else."""
    end = 0
    for place in sorted(place for word in shape.keywords for place in places.get(word, ())):
        if place >= end and (match := shape.pattern.match(text, place)):
            end = max(match.end(), place + 1)
            yield match


def _lowered(text: str) -> str:
    """In lower case, every character still at its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_TO_LOWER)


def _last_word(text: str) -> str:
    """What stands at the very end, without white space in it."""
    return "" if not text or text[-1].isspace() else text.rsplit(None, 1)[-1]


def _chained(shape: Shape, texts: Sequence[str], number: int, start: int) -> list[Piece]:
    """The pieces of one secret that begins at `start` of the first text and ends in a later one."""
    first = texts[0][start:]
    if len(first) > _LONGEST_PIECE:
        return []
    before = texts[0][max(start - 1, 0) : start]  # whether it stands apart
    for count in range(len(texts), 1, -1):
        parts = [first, *(text[:_LONGEST_PIECE] for text in texts[1:count])]
        match = shape.pattern.match(before + "".join(parts), len(before))
        last = match.end() - len(before) - sum(map(len, parts[:-1])) if match else 0
        if match is None or last <= 0 or not shape.accepts(match[0]):
            continue
        rest = [*parts[1:-1], parts[-1][:last]]
        if all(_GOES_ON.search(part) for part in rest):
            ends = [start + len(first), *map(len, rest)]
            return [
                Piece(number + place, 0 if place else start, end, shape.name)
                for place, end in enumerate(ends)
            ]
    return []
