"""What every record that passes a filter has in it, as far as that is told by looking at its text.

A walk through a large memory reads few records this way: the ledger leaves out what cannot pass before it is unpacked,
and the filter itself is still asked about the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from quipu.rules.filter_trees import TAGS, All, Operator, Path, Test, Tree

_SOURCE: Final = Path("source")
#: A text that stands in JSON as it is, whoever wrote the JSON.
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Needs:
    """The source, and what the JSON of the metadata and of the tags holds; None where nothing is needed."""

    source: str | None = None
    in_metadata: str | None = None
    in_tags: str | None = None


def needs(tree: Tree | None) -> Needs:
    """Of several texts the longest, which is the rarest."""
    if tree is None:
        return Needs()
    source: str | None = None
    in_metadata: set[str] = set()
    in_tags: set[str] = set()
    for test in _all_of(tree):
        match test:
            case Test(path, Operator.EQ, str(operand)) if path == _SOURCE:
                source = operand
            case Test(Path(None, _), Operator.EQ, str(operand)) if _PLAIN.fullmatch(operand):
                in_metadata.add(f'"{operand}"')
            case Test(path, Operator.HAS_ALL, operand) if path == TAGS:
                tags = cast("frozenset[str]", operand)
                in_tags.update(f'"{tag}"' for tag in tags if _PLAIN.fullmatch(tag))
            case _:
                pass
    return Needs(source, _longest(in_metadata), _longest(in_tags))


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


def _longest(texts: set[str]) -> str | None:
    return max(texts, key=lambda text: (len(text), text), default=None)
