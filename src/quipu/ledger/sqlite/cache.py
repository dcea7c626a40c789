"""Partitions in memory: loaded when first searched, followed by position, dropped when memory is short."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import apsw

from quipu.ledger.sqlite import statements
from quipu.ledger.sqlite.columns import FilterColumns
from quipu.ledger.sqlite.partition import Partition
from quipu.ledger.sqlite.rows import Row, Value
from quipu.model.search import Scope

#: A partition further behind than this many versions is read anew, by its index.
_FOLLOW_AT_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose partition: an agent's, or (shared) a store's."""

    tenant: str
    name: str
    is_store: bool


@dataclass(frozen=True, slots=True)
class Vectors:
    """Which vectors a partition holds: of which space, how wide, and how often the space was filled up by then."""

    space: int | None = None
    dimensions: int = 0
    refilled: int = 0
    model: str | None = None


@dataclass(slots=True)
class Loaded:
    """A partition and what belongs to it. Hold the lock while reading."""

    partition: Partition
    vectors: Vectors = field(default_factory=Vectors)
    columns: FilterColumns = field(default_factory=FilterColumns)
    nbytes: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class PartitionCache:
    """The partitions of a process."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._loaded: OrderedDict[Owner, Loaded] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def partition(self, connection: apsw.Connection, scope: Scope) -> Generator[Loaded]:
        """The partition of a scope, level with the ledger, held for as long as the caller reads."""
        if scope.agent_id is None and scope.store_id is None:
            raise ValueError("a scope has an agent or a shared store")
        owner = (
            Owner(scope.tenant, scope.agent_id, is_store=False)
            if scope.agent_id is not None
            else Owner(scope.tenant, scope.store_id or "", is_store=True)
        )
        with self._lock:
            loaded = self._loaded.get(owner)
            if loaded is None:
                loaded = self._loaded[owner] = Loaded(Partition(0))
            self._loaded.move_to_end(owner)
        with loaded.lock:
            if self._level(connection, owner, loaded):
                loaded.nbytes = loaded.partition.nbytes
                self._shrink(owner)
            yield loaded

    def clear(self) -> None:
        with self._lock:
            self._loaded.clear()

    def _level(self, connection: apsw.Connection, owner: Owner, loaded: Loaded) -> bool:
        """Bring the partition to the ledger's position, in one read transaction. True when something changed."""
        connection.execute("BEGIN")
        try:
            head = statements.first(connection, "head", tenant=owner.tenant)
            if head is None:
                return False
            _seq, _hash, _at, _horizon, changed, space, dimensions, refilled, model = head
            vectors = Vectors(space, dimensions or 0, refilled, model)
            if loaded.partition.seq == changed and loaded.vectors == vectors:
                return False
            last_row = statements.scalar(connection, "last_row")
            if self._must_reload(connection, owner, loaded, vectors, last_row):
                self._load(connection, owner, loaded, vectors)
            else:
                self._follow(connection, owner, loaded)
            loaded.partition.seq, loaded.partition.last_row = changed, last_row
            return True
        finally:
            connection.execute("COMMIT")

    def _must_reload(
        self, connection: apsw.Connection, owner: Owner, loaded: Loaded, vectors: Vectors, last_row: int
    ) -> bool:
        """Unread so far, of other vectors, far behind, or holding something that has since been emptied."""
        partition = loaded.partition
        if not partition.seq or loaded.vectors != vectors:
            return True
        if last_row - partition.last_row > _FOLLOW_AT_MOST:
            return True
        return (
            statements.first(connection, "emptied_since", tenant=owner.tenant, after=partition.seq)
            is not None
        )

    def _load(self, connection: apsw.Connection, owner: Owner, loaded: Loaded, vectors: Vectors) -> None:
        loaded.partition, loaded.columns = Partition(vectors.dimensions), FilterColumns()
        loaded.vectors = vectors
        name = "load_store" if owner.is_store else "load_agent"
        rows = self._rows(connection, name, owner, vectors.space)
        rows.sort(key=lambda row: row[0])
        loaded.partition.extend(rows)
        self._note_demotions(connection, owner, loaded.partition, after=0)

    def _follow(self, connection: apsw.Connection, owner: Owner, loaded: Loaded) -> None:
        partition = loaded.partition
        follow, died = (
            ("follow_store", "died_of_store") if owner.is_store else ("follow_agent", "died_of_agent")
        )
        partition.extend(
            self._rows(connection, follow, owner, loaded.vectors.space, after=partition.last_row)
        )
        deaths = statements.select(
            connection, died, tenant=owner.tenant, owner=owner.name, after=partition.seq
        )
        partition.close((row, seq) for row, seq in deaths)
        self._note_demotions(connection, owner, partition, after=partition.seq)

    @staticmethod
    def _rows(
        connection: apsw.Connection, name: str, owner: Owner, space: int | None, after: int | None = None
    ) -> list[Row]:
        values: dict[str, Value] = {} if after is None else {"after": after}
        parity = (space or 0) % 2
        return statements.select(
            connection, name, tenant=owner.tenant, owner=owner.name, space=space, parity=parity, **values
        )

    @staticmethod
    def _note_demotions(connection: apsw.Connection, owner: Owner, partition: Partition, after: int) -> None:
        marks = statements.select(connection, "demoted_since", tenant=owner.tenant, after=after)
        partition.set_demoted((record_id, demoted) for record_id, demoted in marks)

    def _shrink(self, keep: Owner) -> None:
        """Drop what was used longest ago, until the rest fits."""
        with self._lock:
            total = sum(loaded.nbytes for loaded in self._loaded.values())
            for owner in list(self._loaded):
                if total <= self._limit:
                    return
                if owner != keep:
                    total -= self._loaded.pop(owner).nbytes
