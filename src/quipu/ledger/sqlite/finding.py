"""Search, word shares and neighbours: from a scope to its partition to an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw
import numpy as np

from quipu.ledger.sqlite import rows, statements
from quipu.ledger.sqlite.cache import Loaded, PartitionCache
from quipu.ledger.sqlite.partition import Partition
from quipu.ledger.sqlite.postings import Mask
from quipu.ledger.sqlite.search import Reach, found
from quipu.ledger.sqlite.spaces import moved_on
from quipu.ledger.sqlite.terms import Tokenizer
from quipu.model.search import Found, Neighbours, Scope, Search, Snapshot, WordShares
from quipu.model.value import Json
from quipu.rules import filters
from quipu.rules.filters import Missing
from quipu.rules.texts import named

#: A subject that everything shares must not make a clique of everything.
_SAME_SUBJECT = 64


class Finder:
    """Answers from partitions."""

    def __init__(self, cache: PartitionCache) -> None:
        self._cache = cache

    def search(self, connection: apsw.Connection, tokenizer: Tokenizer, search: Search) -> Found:
        with self._cache.partition(connection, search.scope) as loaded:
            if search.vector is not None and search.model not in (None, loaded.vectors.model):
                raise moved_on(loaded.vectors.model)
            partition = loaded.partition
            scope = partition.in_reach(search.scope, search.snapshot)
            visible = partition.narrowed(scope, search.restriction)
            if search.restriction.filter is not None:
                tree = filters.compiled(search.restriction.filter)
                visible = visible & self._filtered(connection, search.scope.tenant, loaded, tree)
            return found(partition, search, Reach(scope, visible), tokenizer)

    def _filtered(self, connection: apsw.Connection, tenant: str, loaded: Loaded, tree: filters.Tree) -> Mask:
        names: dict[str, str] = {
            row[0]: row[1] for row in statements.select(connection, "stores", tenant=tenant)
        }

        def values(wanted: Sequence[int], paths: Sequence[filters.Path]) -> Iterator[list[Json | Missing]]:
            """What stands at each path, row by row; the whole version is read only where a path needs it."""
            if all(path.field is None for path in paths):
                for row in wanted:
                    text = statements.scalar(connection, "metadata_row", row=row, tenant=tenant)
                    metadata: dict[str, Json] = rows.decoded(text) if text else {}
                    yield [filters.metadata_at(metadata, path) for path in paths]
                return
            for row in wanted:
                (found,) = statements.select(connection, "record_row", row=row, tenant=tenant)
                record = rows.record_of(found)
                yield [filters.value_at(record, path, names.get(record.store_id, "")) for path in paths]

        return loaded.columns.mask(tree, loaded.partition["row"], values)

    def word_shares(
        self, connection: apsw.Connection, tokenizer: Tokenizer, scope: Scope, snapshot: Snapshot, text: str
    ) -> WordShares:
        with self._cache.partition(connection, scope) as loaded:
            partition = loaded.partition
            mask = partition.in_reach(scope, snapshot)
            in_reach = int(np.count_nonzero(mask))
            words = tuple(
                (word, max((_share(partition, term, mask, in_reach) for term in terms), default=0.0))
                for word, terms in tokenizer.words(text)
            )
            seq = partition.seq if snapshot.seq is None else snapshot.seq
            return WordShares(words, in_reach, _named_subjects(partition, mask, text), seq)

    def neighbours(
        self, connection: apsw.Connection, scope: Scope, snapshot: Snapshot, ids: Sequence[str]
    ) -> Neighbours:
        with self._cache.partition(connection, scope) as loaded:
            partition = loaded.partition
            mask = partition.in_reach(scope, snapshot)
            seq = partition.seq if snapshot.seq is None else snapshot.seq
            edges: dict[str, frozenset[str]] = {}
            for record_id in ids:
                row = _seen(partition, record_id, mask)
                if row is None:
                    edges[record_id] = frozenset()
                    continue
                linked = _linked(connection, scope.tenant, record_id, seq)
                near = {other for other in linked if _seen(partition, other, mask) is not None}
                edges[record_id] = frozenset((near | _around(partition, row, mask)) - {record_id})
            return edges


def _seen(partition: Partition, record_id: str, mask: Mask) -> int | None:
    """The row of a record's version in reach, if there is one."""
    return next((row for row in partition.rows_of(record_id) if mask[row]), None)


def _named_subjects(partition: Partition, mask: Mask, text: str) -> frozenset[str]:
    """The subjects of records in reach that a text names."""
    mentioned = named(text, partition.subjects.names)
    if not mentioned:
        return mentioned
    subjects = partition["subject"]
    return frozenset(
        name for name in mentioned if bool((mask & (subjects == partition.subjects.find(name))).any())
    )


def _share(partition: Partition, term: int, mask: Mask, in_reach: int) -> float:
    rows_with = partition.postings.of(term).rows
    return float(np.count_nonzero(mask[rows_with])) / in_reach if in_reach else 0.0


def _linked(connection: apsw.Connection, tenant: str, record_id: str, seq: int) -> set[str]:
    pairs = statements.select(connection, "links_at", tenant=tenant, id=record_id, seq=seq)
    return {end for pair in pairs for end in pair}


def _around(partition: Partition, row: int, mask: Mask) -> set[str]:
    """Turns beside it in its session, and records of its subject."""
    turns, here = partition.turns.seen(partition["record"], mask), np.array([row])
    beside: list[int] = [*turns.before(here).tolist(), *turns.after(here).tolist()]
    near = {partition.ids[other] for other in beside if other >= 0}
    subject = partition["subject"][row]
    if subject >= 0:
        same = np.flatnonzero((partition["subject"] == subject) & mask)[:_SAME_SUBJECT]
        near |= {partition.ids[other] for other in same.tolist()}
    return near
