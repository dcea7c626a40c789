"""Nearness asked of pgvector, for partitions whose vectors are too many to be held in memory.

The mask is made in memory, where every restriction has one definition, and goes to the database as bits: so it holds
before the nearest are chosen, here too. Without an HNSW index the scan is exact. With one it is approximate, goes on
until enough versions have passed, and is done again exactly when too few came back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from quipu.ledger.postgres import statements
from quipu.ledger.postgres.statements import SQL, Connection
from quipu.ledger.postgres.transaction import transaction
from quipu.ledger.postgres.types import Vector
from quipu.ledger.search.legs import Floats, Indices, best
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.postings import Mask

Ask: TypeAlias = "Callable[[Callable[[Connection], Any]], Any]"

#: So many are fetched and compared here; up to so many are named one by one, if they are few among all.
_FETCHED = 1_000
_NAMED = 20_000
#: An index that spans all tenants is only used where at least one vector in so many may be seen.
_SHARE = 10
#: More than wanted, because the database rounds differently and knows nothing of our order among equals.
_MORE = 16
#: How wide an index is searched, at least and at most.
_WIDTH = (200, 1000)


def index_name(dimensions: int) -> str:
    return f"embedding_near_{dimensions}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Statements about the vectors of one tenant in one space."""

    ask: Ask
    tenant: str
    space: int
    dimensions: int

    def fetched(self, rows: list[int]) -> dict[int, bytes]:
        """Vectors by row."""

        async def work(connection: Connection) -> dict[int, bytes]:
            found = await statements.select(
                connection, "vectors_of", tenant=self.tenant, space=self.space, rows=rows
            )
            return {row[0]: row[1] for row in found}

        return self.ask(work)

    def of_few(self, query: bytes, rows: list[int], limit: int) -> list[int]:
        return self._rows("nearest_of_few", query, limit, rows=rows)

    def of_many(self, query: bytes, bits: bytes, limit: int) -> list[int]:
        return self._rows("nearest_of_many", query, limit, bits=bits)

    def _rows(self, statement: str, query: bytes, limit: int, **values: Any) -> list[int]:
        async def work(connection: Connection) -> list[int]:
            found = await statements.select(
                connection,
                statement,
                tenant=self.tenant,
                space=self.space,
                query=Vector(query),
                limit=limit,
                **values,
            )
            return [row[0] for row in found]

        return self.ask(work)

    def index(self) -> tuple[bool, int]:
        """Is there an index, and how many vectors does it span?"""
        name = index_name(self.dimensions)

        async def work(connection: Connection) -> tuple[bool, int]:
            has_index, spanned = await statements.first(connection, "near_index", name=name) or (False, 0)
            return has_index, spanned

        return self.ask(work)

    def by_index(self, query: bytes, bits: bytes, limit: int) -> list[int]:
        """Along the index; perhaps fewer than there are."""
        statement = sql.SQL(SQL["nearest_by_index"]).format(dimensions=sql.Literal(self.dimensions))
        width = str(min(max(_WIDTH[0], 4 * limit), _WIDTH[1]))

        async def work(connection: Connection) -> list[int]:
            async with transaction(connection):
                await statements.run(connection, "scan_by_index", width=width)
                found = await connection.execute(
                    statement,
                    {
                        "tenant": self.tenant,
                        "space": self.space,
                        "query": Vector(query),
                        "bits": bits,
                        "limit": limit,
                    },
                    binary=True,
                )
                return [row[0] for row in await found.fetchall()]

        return self.ask(work)


@dataclass(slots=True)
class ServerNearness:
    """Cosines with one query, for the rows of one partition."""

    _partition: Partition
    _query: Floats
    _lookup: Lookup
    #: Vectors fetched so far, by place.
    _known: dict[int, Floats] = field(default_factory=dict[int, Floats])

    def cosines(self, rows: Indices) -> Floats:
        places = rows.tolist()
        has_vector = self._partition["embedded"]
        missing = sorted({p for p in places if p >= 0 and p not in self._known and has_vector[p]})
        if missing:
            self._fetch(missing)
        blank = np.zeros(self._partition.dimensions, np.float32)
        vectors = np.array([self._known.get(place, blank) for place in places], np.float32)
        return np.vecdot(vectors.reshape(len(places), self._partition.dimensions), self._query)

    def _fetch(self, places: list[int]) -> None:
        numbers = self._partition["row"][places].tolist()
        found = self._lookup.fetched(numbers)
        for place, number in zip(places, numbers, strict=True):
            if number in found:
                self._known[place] = np.frombuffer(found[number], "<f4")

    def nearest(self, mask: Mask, limit: int) -> Indices:
        places = np.flatnonzero(mask)
        if len(places) > _FETCHED:
            places = self._nearest_in_database(places, min(limit, len(places)))
        return places[best(self.cosines(places), limit)] if len(places) else places

    def _nearest_in_database(self, places: Indices, wanted: int) -> Indices:
        """Some more than are wanted, to be compared here."""
        numbers, query = self._partition["row"][places], self._query.tobytes()
        limit = wanted + _MORE
        if len(places) <= _NAMED and len(places) * _SHARE < len(self._partition):
            found = self._lookup.of_few(query, numbers.tolist(), limit)
        else:
            bits = _bits(numbers)
            has_index, spanned = self._lookup.index()
            found = []
            if has_index and len(places) * _SHARE >= spanned:
                found = self._lookup.by_index(query, bits, limit)
            if len(found) < min(limit, len(places)):
                found = self._lookup.of_many(query, bits, limit)
        return np.sort(places[np.searchsorted(numbers, np.array(found, np.int64))])


def _bits(numbers: NDArray[np.int64]) -> bytes:
    """A bit for each row, the lowest first, as `get_bit` counts them."""
    mask = np.zeros(int(numbers[-1]) + 1, np.bool_)
    mask[numbers] = True
    return np.packbits(mask, bitorder="little").tobytes()
