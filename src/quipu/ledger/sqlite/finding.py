"""Search, word shares and neighbours: from a scope to its partition to an answer."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import numpy as np

from quipu.ledger.sqlite import rows, statements
from quipu.ledger.sqlite.cache import Loaded, PartitionCache
from quipu.ledger.sqlite.partition import Partition
from quipu.ledger.sqlite.postings import Mask
from quipu.ledger.sqlite.search import Reach, adjacent, found
from quipu.ledger.sqlite.terms import Tokenizer
from quipu.model.record import Record
from quipu.model.search import Found, Neighbours, Scope, Search, Snapshot, WordShares
from quipu.rules import filters
from quipu.rules.texts import named

#: A subject that everything shares must not make a clique of everything.
_SAME_SUBJECT = 64


class Finder:
    """Answers from partitions."""

    def __init__(self, cache: PartitionCache) -> None:
        self._cache = cache

    def search(self, connection: apsw.Connection, tokenizer: Tokenizer, search: Search) -> Found:
        with self._cache.partition(connection, search.scope) as loaded:
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

        def fetch(wanted: Sequence[int]) -> list[tuple[Record, str]]:
            versions: list[tuple[Record, str]] = []
            for row in wanted:
                record = rows.record_of(
                    statements.select(connection, "record_row", row=row, tenant=tenant)[0]
                )
                versions.append((record, names.get(record.store_id, "")))
            return versions

        return loaded.columns.mask(tree, loaded.partition["row"], fetch)

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
            return WordShares(words, in_reach, named(text, partition.subjects.names))

    def neighbours(
        self, connection: apsw.Connection, scope: Scope, snapshot: Snapshot, ids: Sequence[str]
    ) -> Neighbours:
        with self._cache.partition(connection, scope) as loaded:
            partition = loaded.partition
            mask = partition.in_reach(scope, snapshot)
            seq = partition.seq if snapshot.seq is None else snapshot.seq
            edges: dict[str, frozenset[str]] = {}
            for record_id in ids:
                row = next((row for row in partition.rows_of(record_id) if mask[row]), None)
                linked = _linked(connection, scope.tenant, record_id, seq)
                around = set[str]() if row is None else _around(partition, row, mask)
                edges[record_id] = frozenset((linked | around) - {record_id})
            return edges


def _share(partition: Partition, term: int, mask: Mask, in_reach: int) -> float:
    rows_with = partition.postings.of(term).rows
    return float(np.count_nonzero(mask[rows_with])) / in_reach if in_reach else 0.0


def _linked(connection: apsw.Connection, tenant: str, record_id: str, seq: int) -> set[str]:
    pairs = statements.select(connection, "links_at", tenant=tenant, id=record_id, seq=seq)
    return {end for pair in pairs for end in pair}


def _around(partition: Partition, row: int, mask: Mask) -> set[str]:
    """Turns beside it in its session, and records of its subject."""
    near = {partition.ids[other] for other in adjacent(partition, row, mask) if other is not None}
    subject = partition["subject"][row]
    if subject >= 0:
        same = np.flatnonzero((partition["subject"] == subject) & mask)[:_SAME_SUBJECT]
        near |= {partition.ids[other] for other in same.tolist()}
    return near
