"""The file as a source of partitions, on one thread's connection. A partition is read in one read transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import apsw

from quipu.ledger import rows
from quipu.ledger.search.source import Known, News, Owner, Vectors
from quipu.ledger.sqlite import statements
from quipu.model.record import Record
from quipu.model.value import Json

if TYPE_CHECKING:
    from quipu.ledger.search.legs import Floats, Nearness
    from quipu.ledger.search.partition import Partition


class FileSource:
    """Asks one file, for one question."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        #: What was level with the file when it was looked at.
        self._level: Known | None = None

    # -- partitions ---------------------------------------------------------------------------------------------

    def is_level(self, tenant: str, known: Known) -> bool:
        """Whether nothing is new since then. What was level when the question came stays so for the answer."""
        if known is not self._level:
            head = statements.first(self._connection, "head", tenant=tenant)
            self._level = known if known.is_level(head) else None
        return known is self._level

    def news(self, owner: Owner, known: Known) -> News | None:
        connection = self._connection
        if self.is_level(owner.tenant, known):
            return None
        connection.execute("BEGIN")
        try:
            head = statements.first(connection, "head", tenant=owner.tenant)
            if head is None or known.is_level(head):
                return None
            changed, vectors = head[4], Vectors.of(head)
            last_row = statements.scalar(connection, "last_row")
            if known.must_be_read_anew(vectors, last_row) or self._is_emptied(owner, known):
                return News(
                    changed, last_row, vectors, True, self._loaded(owner, vectors), (), self._marks(owner, 0)
                )
            return News(
                changed,
                last_row,
                vectors,
                False,
                self._rows(_FOLLOW[owner.is_store], owner, vectors.space, after=known.last_row),
                [(row, seq) for row, seq in self._died(owner, known.seq)],
                self._marks(owner, known.seq),
            )
        finally:
            connection.execute("COMMIT")

    def _is_emptied(self, owner: Owner, known: Known) -> bool:
        """Whether something has been erased or pruned since; a partition that held it must not any more."""
        found = statements.first(self._connection, "emptied_since", tenant=owner.tenant, after=known.seq)
        return found is not None

    def _loaded(self, owner: Owner, vectors: Vectors) -> list[rows.Row]:
        found = self._rows(_LOAD[owner.is_store], owner, vectors.space)
        found.sort(key=lambda row: row[0])
        return found

    def _rows(self, name: str, owner: Owner, space: int | None, after: int | None = None) -> list[rows.Row]:
        values: dict[str, rows.Value] = {} if after is None else {"after": after}
        parity = (space or 0) % 2
        return statements.select(
            self._connection,
            name,
            tenant=owner.tenant,
            owner=owner.name,
            space=space,
            parity=parity,
            **values,
        )

    def _died(self, owner: Owner, after: int) -> list[rows.Row]:
        return statements.select(
            self._connection, _DIED[owner.is_store], tenant=owner.tenant, owner=owner.name, after=after
        )

    def _marks(self, owner: Owner, after: int) -> list[tuple[str, bool]]:
        marks = statements.select(self._connection, "demoted_since", tenant=owner.tenant, after=after)
        return [(record_id, bool(demoted)) for record_id, demoted in marks]

    # -- rows ---------------------------------------------------------------------------------------------------

    def store_names(self, tenant: str) -> Mapping[str, str]:
        return {row[0]: row[1] for row in statements.select(self._connection, "stores", tenant=tenant)}

    def metadata(self, tenant: str, rows: Sequence[int]) -> Iterator[Mapping[str, Json]]:
        for row in rows:
            text = statements.scalar(self._connection, "metadata_row", row=row, tenant=tenant)
            yield _object(text) if text else {}

    def records(self, tenant: str, rows: Sequence[int]) -> Iterator[Record]:
        for row in rows:
            (found,) = statements.select(self._connection, "record_row", row=row, tenant=tenant)
            yield _record(found)

    def linked(self, tenant: str, ids: Sequence[str], seq: int) -> Mapping[str, set[str]]:
        edges: dict[str, set[str]] = {}
        for record_id in ids:
            pairs = statements.select(self._connection, "links_at", tenant=tenant, id=record_id, seq=seq)
            edges[record_id] = {end for pair in pairs for end in pair}
        return edges

    def nearness(self, tenant: str, partition: Partition, vectors: Vectors, query: Floats) -> Nearness:
        raise NotImplementedError("partitions of a file hold their vectors")


#: By whether the owner is a store.
_LOAD = {False: "load_agent", True: "load_store"}
_FOLLOW = {False: "follow_agent", True: "follow_store"}
_DIED = {False: "died_of_agent", True: "died_of_store"}


def _object(text: str) -> Mapping[str, Json]:
    return rows.decoded(text)


def _record(row: rows.Row) -> Record:
    return rows.record_of(row)
