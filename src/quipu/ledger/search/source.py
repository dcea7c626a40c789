"""Where partitions come from: what search asks of a ledger, in rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from quipu.model.record import Record
from quipu.model.search import Scope
from quipu.model.value import Json

if TYPE_CHECKING:
    from quipu.ledger.search.legs import Floats, Nearness
    from quipu.ledger.search.partition import Partition

#: A partition further behind than this many versions is read anew, by its index.
_FOLLOW_AT_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose partition: an agent's, or (shared) a store's."""

    tenant: str
    name: str
    is_store: bool

    @classmethod
    def of(cls, scope: Scope) -> Owner:
        if scope.agent_id is not None:
            return cls(scope.tenant, scope.agent_id, is_store=False)
        if scope.store_id is None:
            raise ValueError("a scope has an agent or a shared store")
        return cls(scope.tenant, scope.store_id, is_store=True)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Which vectors a partition holds: of which space, how wide, and how often the space was filled up by then."""

    space: int | None = None
    dimensions: int = 0
    refilled: int = 0
    model: str | None = None

    @classmethod
    def of(cls, head: Sequence[Any]) -> Vectors:
        """What a row of `head` says."""
        _seq, _hash, _at, _horizon, _changed, space, dimensions, refilled, model, *_ = head
        return cls(space, dimensions or 0, refilled, model)


@dataclass(frozen=True, slots=True)
class Known:
    """How far a partition has followed its ledger."""

    seq: int = 0
    last_row: int = 0
    vectors: Vectors = Vectors()
    #: How many versions it has.
    size: int = 0
    #: Whether it holds the vectors, or leaves them where they are kept.
    holds_vectors: bool = True

    def is_level(self, head: Sequence[Any] | None) -> bool:
        """Whether it is where the ledger is; nobody needs to know more of a tenant that is not there."""
        if head is None:
            return True
        mine = self.vectors
        return self.seq == head[4] and (mine.space, mine.dimensions, mine.refilled, mine.model) == (
            head[5],
            head[6] or 0,
            head[7],
            head[8],
        )

    def must_be_read_anew(self, vectors: Vectors, last_row: int) -> bool:
        """Unread so far, of other vectors, or far behind. So it is, too, when something in it has been emptied."""
        return not self.seq or self.vectors != vectors or last_row - self.last_row > _FOLLOW_AT_MOST


@dataclass(frozen=True, slots=True)
class News:
    """What a partition has to take in to be level with its ledger."""

    seq: int
    last_row: int
    vectors: Vectors
    #: All there is; what the partition had is to be dropped.
    is_whole: bool
    #: New versions in the order of their rows, as the `load_…` and `follow_…` queries give them.
    rows: Sequence[Sequence[Any]]
    #: Rows that ended, and where.
    deaths: Sequence[tuple[int, int]]
    #: Ids whose demotion changed, and to what.
    marks: Sequence[tuple[str, bool]]
    holds_vectors: bool = True


class Source(Protocol):
    """A ledger, as search sees it. It answers on the thread that asks."""

    def news(self, owner: Owner, known: Known) -> News | None:
        """What is new since then, all of one moment; None when nothing is."""
        ...

    def store_names(self, tenant: str) -> Mapping[str, str]:
        """Names of stores by id."""
        ...

    def metadata(self, tenant: str, rows: Sequence[int]) -> Iterable[Mapping[str, Json]]:
        """The metadata of these rows, in their order."""
        ...

    def records(self, tenant: str, rows: Sequence[int]) -> Iterable[Record]:
        """These rows whole, in their order."""
        ...

    def linked(self, tenant: str, ids: Sequence[str], seq: int) -> Mapping[str, set[str]]:
        """What each record was linked with at a position, both ways."""
        ...

    def nearness(self, tenant: str, partition: Partition, vectors: Vectors, query: Floats) -> Nearness:
        """Cosines for a partition that does not hold its vectors."""
        ...
