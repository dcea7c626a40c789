"""Putting versions, their vectors and the entries of the journal into the file, by as few statements as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from quipu.errors import ConflictError, InvalidError
from quipu.ledger import rows
from quipu.ledger.search.spaces import moved_on
from quipu.ledger.search.terms import Tokenizer
from quipu.ledger.sqlite import statements
from quipu.model.change import Change, Commit, Put

#: So many characters are split into words in less time than a disk takes to keep them.
_SMALL = 4_096


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


class Waiting:
    """New records and entries of one transaction that are not in the file yet: those of many commits go in together."""

    def __init__(self, connection: apsw.Connection, tokenizer: Tokenizer) -> None:
        self._connection, self._tokenizer = connection, tokenizer
        self._puts: list[tuple[int, Space, Put]] = []
        self._entries: list[tuple[rows.Value, ...]] = []

    def put(self, seq: int, space: Space, put: Put) -> None:
        """A new record, which follows nothing and leads nowhere."""
        self._puts.append((seq, space, put))

    def tie(self, entry: tuple[rows.Value, ...]) -> None:
        """The values of `add_entry`."""
        self._entries.append(entry)

    def forget(self) -> None:
        """The transaction that they belonged to was undone."""
        self._puts.clear()
        self._entries.clear()

    def flush(self) -> None:
        """Write them. An id that is taken is a conflict; nobody can tell here whose."""
        if self._puts:
            self._add_all(self._puts)
            self._puts.clear()
        if self._entries:
            statements.insert_many(self._connection, "add_entry", self._entries)
            self._entries.clear()

    def _add_all(self, puts: Sequence[tuple[int, Space, Put]]) -> None:
        searched = [put.search_text for _, _, put in puts if put.search_text is not None]
        terms = iter(self._tokenizer.all_terms(searched))
        versions = [
            rows.record_values(
                put.record, seq, None if put.search_text is None else next(terms), is_terse=True
            )
            for seq, _, put in puts
        ]
        try:
            statements.insert_many(self._connection, "add_version", versions)
        except apsw.ConstraintError as error:
            raise _taken() from error
        # Nobody else writes meanwhile, so SQLite has numbered them one after the other.
        first = self._connection.last_insert_rowid() - len(puts) + 1
        vectors = [space.values(put, row) for row, (_, space, put) in enumerate(puts, first)]
        statements.insert_many(self._connection, "add_vector", [one for one in vectors if one is not None])


def is_small(commits: Sequence[Commit]) -> bool:
    """Whether one record of a few pages at most is written, and nothing else."""
    if len(commits) != 1 or len(commits[0].changes) != 1:
        return False
    change = commits[0].changes[0]
    return isinstance(change, Put) and len(change.record.content) <= _SMALL


def plainly_new(changes: Sequence[Change]) -> Sequence[Put]:
    """New records that a commit begins with, which follow nothing and lead nowhere."""
    new: list[Put] = []
    for change in changes:
        if not isinstance(change, Put) or change.expects or change.record.links:
            break
        new.append(change)
    return new


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


def _taken() -> ConflictError:
    return ConflictError("This id is taken.", reason="version_mismatch")
