"""What the index of a version must say, and how one that says something else is told. Alike for every ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quipu.ledger.search.terms import RULES, Tokenizer
from quipu.model.outcomes import Fault
from quipu.model.record import Record
from quipu.ports.ledger import Indexed

_MENDED = "`quipu reembed` makes {} anew"


@dataclass(frozen=True, slots=True)
class Entry:
    """The index of one version as it was found: its terms, and how long its vector is in the space in use."""

    terms: bytes | None
    dimensions: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """What a tenant's entries are held against."""

    #: How long a vector is in the space in use.
    dimensions: int | None
    #: Which rules its terms were cut by.
    rules: int | None

    def faults(self, tokenizer: Tokenizer, item: Indexed, found: Entry) -> Iterator[Fault]:
        """What is wrong with an entry, and what mends it."""
        if found.terms != due_terms(tokenizer, item):
            said = "not those of the text" if self.rules == RULES else "those of another build's rules"
            yield _fault(item.record, f"the search terms are {said}; {_MENDED.format('them')}")
        if found.dimensions is not None and found.dimensions != self.dimensions:
            yield _fault(item.record, f"the vector has the wrong dimensions; {_MENDED.format('it')}")


def due_terms(tokenizer: Tokenizer, item: Indexed) -> bytes | None:
    """The terms of a version's text by today's rules."""
    return None if item.search_text is None else tokenizer.terms(item.search_text)


def _fault(record: Record, detail: str) -> Fault:
    return Fault(kind="index_differs", seq=record.born, id=record.id, detail=detail)
