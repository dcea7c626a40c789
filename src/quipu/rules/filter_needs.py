"""What every record that passes a filter has in it, as far as that is told by looking at its row.

A walk through a large memory reads few records this way: the ledger leaves out what cannot pass before it is unpacked,
and the filter itself is still asked about the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from quipu.rules.filter_trees import TAGS, All, Operator, Path, Test, Tree, is_number

_SOURCE: Final = Path("source")
#: A text that stands in JSON as it is, whoever wrote the JSON.
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]+")
#: The name of a member that means the same in every language of paths, and is no place in a list.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
#: Columns of numbers.
_COLUMNS: Final = ("confidence", "importance", "created_at")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from one to another, both with them."""

    low: float = -math.inf
    high: float = math.inf

    def within(self, other: Range) -> Range:
        """What is in both."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def widened(self) -> Range:
        """A little more: who reads a number out of a text may read its last digits otherwise."""
        return Range(self.low - _slack(self.low), self.high + _slack(self.high))


@dataclass(frozen=True, slots=True)
class Needs:
    """The source, what the JSON of the metadata and of the tags holds, and numbers; None where nothing is needed."""

    source: str | None = None
    in_metadata: str | None = None
    in_tags: str | None = None
    confidence: Range | None = None
    importance: Range | None = None
    created_at: Range | None = None
    #: The number at this path of the metadata, such as `$."a"."b"`.
    number_at: str | None = None
    number: Range | None = None


def needs(tree: Tree | None) -> Needs:
    """Of several texts the longest, which is the rarest; of several numbers in the metadata, one."""
    if tree is None:
        return Needs()
    source: str | None = None
    in_metadata: set[str] = set()
    in_tags: set[str] = set()
    ranges: dict[str, Range] = {}
    for test in _all_of(tree):
        match test:
            case Test(path, Operator.EQ, str(operand)) if path == _SOURCE:
                source = operand
            case Test(Path(None, _), Operator.EQ, str(operand)) if _PLAIN.fullmatch(operand):
                in_metadata.add(f'"{operand}"')
            case Test(Path(None, _), Operator.IN, operand) if start := _common_start(operand):
                in_metadata.add(f'"{start}')
            case Test(path, Operator.HAS_ALL, operand) if path == TAGS:
                tags = cast("frozenset[str]", operand)
                in_tags.update(f'"{tag}"' for tag in tags if _PLAIN.fullmatch(tag))
            case Test(path) if (place := _place(path)) is not None and (range := _range(test)) is not None:
                ranges[place] = range.within(ranges.get(place, Range()))
            case _:
                pass
    widened = {place: range.widened() for place, range in ranges.items()}
    columns = {name: widened.pop(name, None) for name in _COLUMNS}
    number_at = min(widened, default=None)
    number = None if number_at is None else widened[number_at]
    return Needs(
        source, _longest(in_metadata), _longest(in_tags), **columns, number_at=number_at, number=number
    )


def _common_start(operand: object) -> str:
    """How each of several texts begins; ids that were made one after the other have much in common."""
    listed = cast("frozenset[object]", operand)
    texts = [one for one in listed if isinstance(one, str) and _PLAIN.fullmatch(one)]
    if len(texts) < len(listed):
        return ""
    first, last = min(texts), max(texts)  # what these two share, those between them share, too
    return next(
        (first[:place] for place, sign in enumerate(first) if not last.startswith(sign, place)), first
    )


def _all_of(tree: Tree) -> Iterator[Test]:
    """Tests that must all hold."""
    match tree:
        case Test():
            yield tree
        case All(parts):
            for part in parts:
                yield from _all_of(part)
        case _:
            pass


def _place(path: Path) -> str | None:
    """A column, or a path of the metadata, that a ledger can look at."""
    if path.field is not None:
        return path.field if path.field in _COLUMNS else None
    if not all(_NAME.fullmatch(segment) for segment in path.segments):
        return None
    return "$" + "".join(f'."{segment}"' for segment in path.segments)


def _range(test: Test) -> Range | None:
    """Where a number must lie to pass; None where something else may pass, too."""
    operand = test.operand
    if test.operator is Operator.IN:
        listed = cast("frozenset[object]", operand)
        if not all(is_number(one) for one in listed):
            return None
        numbers = [float(cast("float", one)) for one in listed]
        return Range(min(numbers), max(numbers))
    if not is_number(operand):
        return None
    number = float(cast("float", operand))
    match test.operator:
        case Operator.EQ:
            return Range(number, number)
        case Operator.GT | Operator.GTE:
            return Range(low=number)
        case Operator.LT | Operator.LTE:
            return Range(high=number)
        case _:
            return None


def _slack(number: float) -> float:
    return 0.0 if math.isinf(number) else abs(number) * 1e-9 + 1e-300


def _longest(texts: set[str]) -> str | None:
    return max(texts, key=lambda text: (len(text), text), default=None)
