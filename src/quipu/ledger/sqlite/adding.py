"""Putting versions and their vectors into the file: many new ones by as few statements as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from quipu.errors import ConflictError, InvalidError
from quipu.ledger import rows
from quipu.ledger.search.spaces import moved_on
from quipu.ledger.search.terms import Tokenizer
from quipu.ledger.sqlite import statements
from quipu.model.change import Change, Put


class Space(NamedTuple):
    """Where the tenant's vectors lie; without a number nowhere yet, and none is kept."""

    number: int | None
    dimensions: int | None
    model: str | None

    def values(self, put: Put, row: int) -> tuple[rows.Value, ...] | None:
        """The values of `add_vector`, in its order; raises where the vector is of another space."""
        if put.vector is None or self.number is None:
            return None
        if put.model is not None and put.model != self.model:
            raise moved_on(self.model)
        if len(put.vector) != 4 * (self.dimensions or 0):
            raise InvalidError.at("/embedding", "embedding_mismatch", "A vector has the wrong dimensions.")
        return 2 * row + self.number % 2, self.number, put.vector


def plainly_new(changes: Sequence[Change]) -> Sequence[Put]:
    """Several new records that a commit begins with, which follow nothing and lead nowhere; none where it is one."""
    new: list[Put] = []
    for change in changes if len(changes) > 1 else ():
        if not isinstance(change, Put) or change.expects or change.record.links:
            break
        new.append(change)
    return new if len(new) > 1 else ()


def add(connection: apsw.Connection, tokenizer: Tokenizer, seq: int, put: Put) -> int:
    """A version with its search terms. Returns the row."""
    terms = None if put.search_text is None else tokenizer.terms(put.search_text)
    try:
        statements.insert(
            connection, "add_version", rows.record_values(put.record, seq, terms, is_terse=True)
        )
    except apsw.ConstraintError as error:
        raise _taken() from error
    return connection.last_insert_rowid()


def add_vector(connection: apsw.Connection, space: Space, put: Put, row: int) -> None:
    """The vector of a version, if it has one."""
    if (values := space.values(put, row)) is not None:
        statements.insert(connection, "add_vector", values)


def add_all(
    connection: apsw.Connection, tokenizer: Tokenizer, seq: int, space: Space, puts: Sequence[Put]
) -> None:
    """New versions, each with its search terms and its vector."""
    terms = iter(tokenizer.all_terms([put.search_text for put in puts if put.search_text is not None]))
    versions = [
        rows.record_values(put.record, seq, None if put.search_text is None else next(terms), is_terse=True)
        for put in puts
    ]
    try:
        statements.insert_many(connection, "add_version", versions)
    except apsw.ConstraintError as error:
        raise _taken() from error
    # Nobody else writes meanwhile, so SQLite has numbered them one after the other.
    first = connection.last_insert_rowid() - len(puts) + 1
    vectors = [space.values(put, row) for row, put in enumerate(puts, first)]
    statements.insert_many(connection, "add_vector", [values for values in vectors if values is not None])


def _taken() -> ConflictError:
    return ConflictError("This id is taken.", reason="version_mismatch")
