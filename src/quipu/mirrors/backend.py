"""A place that mirrors records. It keeps and finds; it never decides. Each one passes `quipu.testing.BackendContract`.

The ledger is the truth, and a mirror is an index of it that another product keeps. So an adapter is small:

- It is given *copies*: live records, without anything pending, forgotten, erased, expired or secret.
- It answers with *native ids*. The ledger maps them to records; the text and the score that an adapter reports are never
  shown for a record of ours.
- Each copy carries a *mark* (`adapter.mark`): whose it is, which record, which version. A search hit and whatever is
  read back bring it along, so that a copy is known though the ledger has no note of it.
- Deadlines, retries, the circuit breaker, filters it cannot apply, expiry, merge and approval are not its business.
- A failure of the vendor is `BackendUnavailableError` with the cause kept, in the adapter's own words, never the
  vendor's (`adapter.vendor_errors`). A container that nobody has written into is no failure: it holds nothing.
- Calls may be cancelled at any await, and come from one event loop, several at a time.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from quipu.embed.port import Embedder
from quipu.model.record import MemoryType
from quipu.model.value import Json, JsonObject

#: Promises about behaviour that no signature can make. The contract proves each where it is made.
Capability: TypeAlias = Literal[
    "client_ids",  # The native id follows from tenant and record: the same copy gets the same id again.
    "get_by_id",  # `get` finds a copy by its native id, however much there is.
    "list",  # `scan` tells everything that a container holds.
    "update",  # `put` of a newer version changes the old one in place; the old text is no longer found.
    "nested_metadata",  # Nested objects and lists in metadata come back equal.
    "keyword",  # Finds by words.
    "vector",  # Finds by meaning.
    "delete_reports_absence",  # `delete` of what is not there counts 0, because the vendor says so or the adapter looked.
    "hard_delete",  # After `delete` the text is nowhere in the vendor's files. Without it the adapter is `Erasing`.
    "multi_process",  # Several processes may have the same store open.
    "verbatim",  # Text comes back exactly as it was given, in one piece.
]
#: What a native score means. Scores of different vendors are never compared.
ScoreKind: TypeAlias = Literal[
    "similarity",  # Higher is better.
    "distance",  # Lower is better.
    "rrf",  # A sum of shares of ranks, without an upper bound.
    "rank_only",  # Constant or absent: only the order says something.
]
ALL_TYPES: frozenset[MemoryType] = frozenset(("semantic", "episodic", "procedural", "emotional"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """All that a backend promises."""

    promises: frozenset[Capability]
    score_kind: ScoreKind
    #: The types of memory that it is sent.
    types: frozenset[MemoryType] = ALL_TYPES

    def __contains__(self, promise: Capability) -> bool:
        return promise in self.promises


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Where a record belongs: the smallest unit that a vendor must be able to tell apart.

    A tenant never shares a native container with another. Store, agent and user are native fields where the vendor
    filters on them before the best are chosen, otherwise parts of the native container's name (`adapter.label`,
    `adapter.joined`). None and the empty user are two different users.
    """

    tenant: str
    store_id: str
    agent_id: str
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What stands beside each copy: whose it is, which record, which version."""

    tenant: str
    record_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What a mirror is given of a record."""

    container: Container
    record_id: str
    version: int
    type: MemoryType
    #: The text; for a procedure its machine as JSON text.
    content: str
    metadata: JsonObject = field(default_factory=dict[str, Json])
    tags: tuple[str, ...] = ()
    session_id: str | None = None
    source: str | None = None
    confidence: float = 1.0
    created_at: int
    #: Where an older version, or this one, is kept already, as far as the ledger knows. A crash between `put` and the note
    #: of it leaves None although it is there: the adapter looks for its own mark before it adds.
    native_id: str | None = None

    @property
    def mark(self) -> Mark:
        return Mark(tenant=self.container.tenant, record_id=self.record_id, version=self.version)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record of ours is kept."""

    container: Container
    record_id: str
    native_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the vendor has: read back, or found by a search."""

    native_id: str
    text: str = ""
    #: None where somebody else wrote it.
    mark: Mark | None = None
    #: What was given as metadata, as far as it came back.
    metadata: JsonObject = field(default_factory=dict[str, Json])
    #: Of a search, as the vendor says it; None where it says nothing.
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One search. None in agent, user and store means every one of them; the empty user is a user."""

    tenant: str
    agent_id: str | None
    user_id: str | None = None
    store_id: str | None = None
    text: str
    #: Empty: all types.
    types: frozenset[MemoryType] = frozenset()
    session_id: str | None = None
    created_from: int | None = None
    #: The filter language, in its canonical form; what the backend does not push down is applied in the ledger.
    filter: JsonObject | None = None
    #: Containers in reach that hold something of ours, for vendors that must name each one that they search.
    containers: tuple[Container, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A ranking, best first, and how far it can be relied on."""

    hits: tuple[Kept, ...]
    #: Whether every restriction of the query was applied before the best were chosen.
    is_filtered: bool = False
    #: Whether asking for more could bring more.
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the vendor is. Warnings are fixed phrases of the adapter's, never the vendor's."""

    is_up: bool
    version: str | None = None
    warnings: tuple[str, ...] = ()


class Backend(Protocol):
    """Keeps and finds."""

    @property
    def capabilities(self) -> Capabilities:
        """What it promises. Known without opening it."""
        ...

    async def open(self) -> None:
        """Import the vendor and reach its store. Called again after a failure; does nothing when it is open."""
        ...

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        """Keep all of them, and return the native id of each, in order. Searchable when it returns.

        Idempotent by record id and version: repeated after a crash it leaves one native record. An older version than
        the one that is kept is taken too: the caller sends versions in their order. Without `update` a copy whose record
        is there in another version is never given: the caller deletes that one first.
        """
        ...

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        """Those of them that are there. UnsupportedError without `get_by_id`."""
        ...

    async def search(self, query: Query, limit: int) -> Answer:
        """The best `limit`, in the vendor's order. Tenant, agent, user and store are applied before the cut, always."""
        ...

    def scan(self, container: Container) -> AsyncIterator[Kept]:
        """Everything that the container holds, others' writing too. Never cut at a page. UnsupportedError without `list`."""
        ...

    async def delete(self, places: Sequence[Place]) -> int:
        """Take them away; how many were really there. What is not there is no error."""
        ...

    async def health(self) -> Health:
        """Really touch the vendor."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took. May be called twice. A client that was handed in is left open."""
        ...


#: The live copies that a container should still hold, from the ledger; without native ids, which follow from the records.
Remaining: TypeAlias = Callable[[Container], AsyncIterator[Copy]]


@runtime_checkable
class Erasing(Protocol):
    """A backend whose `delete` leaves bytes behind, and that knows how to get rid of them."""

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """After this no byte of them is left with the vendor. `remaining` is for those that must rebuild a container."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an adapter is made with. Credentials are in `url` and nowhere else: it is never logged or shown."""

    #: What answers call the backend: the scheme as written, `-2` for repeats, or `?name=`.
    name: str
    #: The whole URL without Quipu's own parameters (`name`, `weight`, `deadline_ms`, `contents`, `python`).
    url: str = field(repr=False)
    scheme: str
    #: The parameters that are left, for the adapter; it refuses those that it does not know.
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    #: Quipu's own, so that vendor and ledger share one model. None: there is none.
    embedder: Embedder | None = None
    #: A folder of the backend's own that outlives the process.
    folder: Path
    #: The interpreter for vendors that run in an environment of their own; None: this one.
    python: str | None = None


#: What an adapter's module offers as `make`, or an entry point of the group `quipu.backends` names.
MakeBackend: TypeAlias = Callable[[Setup], Backend]
