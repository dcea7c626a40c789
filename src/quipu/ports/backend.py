"""A place that mirrors records. It keeps and finds; it never decides. Every one passes `quipu.testing.BackendContract`.

The ledger is the truth and a mirror is an index of it, kept by a vendor. So an adapter is small:

- It is given *copies*: live records, without anything pending, forgotten, erased or secret.
- It answers with *native ids*. The ledger maps them to records; what an adapter says about a record beyond that
  (text, metadata, score) is never shown for a record of ours.
- Deadlines, retries, the circuit breaker, filters it cannot apply, expiry, merge and approval are not its business.
- A failure of the vendor is `BackendUnavailableError` with the cause kept (`raise ... from error`), and its message is
  the adapter's own, never the vendor's. A container nobody has written into is not a failure: it holds nothing.
- Calls may be cancelled at any await, and come from one event loop, several at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from quipu.model.record import MemoryType
from quipu.model.value import Json, JsonObject
from quipu.ports.embedder import Embedder
from quipu.rules.fusion import Foreign


class Capability(StrEnum):
    """Promises about behaviour that no signature can make. Each is proved by the suite where it is declared."""

    #: The native id is the record's own (as it is, or turned into what the vendor wants).
    CLIENT_IDS = "client_ids"
    #: `get` finds a record by its native id, however much there is.
    GET_BY_ID = "get_by_id"
    #: `scan` tells everything a container holds.
    LIST = "list"
    #: `put` of a newer version changes the old one in place, and the old text is no longer found.
    UPDATE = "update"
    #: Tags are filtered before the best are chosen.
    TAGS = "tags"
    #: Nested objects and lists in metadata come back equal.
    NESTED_METADATA = "nested_metadata"
    #: The vendor deletes what has expired, to the second.
    TTL = "ttl"
    #: Search as of a moment.
    TEMPORAL = "temporal"
    KEYWORD = "keyword"
    VECTOR = "vector"
    GRAPH = "graph"
    #: `delete` of something unknown counts 0 because the vendor says so, or the adapter looked.
    DELETE_REPORTS_ABSENCE = "delete_reports_absence"
    #: After `delete` the text is nowhere in the vendor's files. Without it the adapter is `Erasing`.
    HARD_DELETE = "hard_delete"
    #: Several processes may have the same store open.
    MULTI_PROCESS = "multi_process"
    #: Writing calls a language model. No adapter that ships with Quipu may say so.
    NEEDS_LLM = "needs_llm"
    #: Text comes back exactly as it was given, in one piece.
    VERBATIM = "verbatim"


class ScoreKind(StrEnum):
    """What a native score means. Scores of different vendors are never compared."""

    #: Higher is better.
    SIMILARITY = "similarity"
    #: Lower is better.
    DISTANCE = "distance"
    #: A sum of shares of ranks, without an upper bound.
    RRF = "rrf"
    #: Constant or absent: only the order says something.
    RANK_ONLY = "rank_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """All a backend promises."""

    flags: frozenset[Capability]
    score_kind: ScoreKind
    #: Operators of the filter language (`$eq`, `$in`, …) that are applied before the best are chosen.
    filter_operators: frozenset[str] = frozenset()
    #: The types of memory it is sent.
    types: frozenset[MemoryType] = frozenset(MemoryType)

    def __contains__(self, capability: Capability) -> bool:
        return capability in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Where a record belongs: the smallest unit a vendor must be able to tell apart.

    A tenant never shares a native container with another tenant. Store, agent and user are native fields where the
    vendor filters on them before the best are chosen, otherwise parts of the native container's name. None and the
    empty user are two different users. `quipu.rules.containers` escapes what a vendor does not allow in a name.
    """

    tenant: str
    store_id: str
    agent_id: str
    user_id: str | None = None


class Sent(StrEnum):
    """What the ledger knows of an earlier sending of a copy; an adapter that finds its own mark slowly need not look."""

    #: It was not there when this process took the mirror up, and nobody has begun to send it since: it is not there.
    NEVER = "never"
    #: Nothing is noted. It is there all the same where a mirror was taken up again, or the ledger is an older copy.
    UNKNOWN = "unknown"
    #: Somebody began to.
    BEGUN = "begun"


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
    updated_at: int
    expires_at: int | None = None
    #: Where an older version, or this one, is kept already, as far as the id map knows. A crash between `put` and the
    #: note of it leaves None although it is there: the adapter looks for its own mark before it adds.
    native_id: str | None = None
    sent: Sent = Sent.BEGUN


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record of ours is kept."""

    container: Container
    record_id: str
    native_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the vendor has, read back."""

    native_id: str
    text: str
    #: The record and version the adapter wrote beside it; None where somebody else wrote it.
    record_id: str | None = None
    version: int | None = None
    #: What was given as metadata, as far as it came back.
    metadata: JsonObject = field(default_factory=dict[str, Json])


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
    #: The filter language; what the backend does not push down is applied in the ledger.
    filter: JsonObject | None = None
    #: Containers in reach that hold something of ours, for vendors that must name each one they search.
    containers: tuple[Container, ...] = ()
    #: What a signed hit must repeat, and whom it must be made out to.
    nonce: str | None = None
    audience: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeHit:
    """One place in the vendor's ranking."""

    native_id: str
    #: As the vendor says it; None where it says nothing.
    score: float | None = None
    text: str = ""
    metadata: JsonObject = field(default_factory=dict[str, Json])
    #: A compact JWS over the hit, from backends that sign.
    signature: str | None = None
    #: Its place, from 0, in the answer that was signed, where an adapter put several answers together.
    signed_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A ranking, best first, and how far it can be relied on."""

    hits: tuple[NativeHit, ...]
    #: Whether every restriction of the query was applied before the best were chosen.
    is_filtered: bool = False
    #: Whether asking for more could bring more.
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the vendor is. Phrases are fixed ones of the adapter's, never the vendor's."""

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
        """Keep all of them and tell the native id of each, in order. Searchable when it returns.

        Idempotent by record id and version: repeated after a crash it leaves one native record. An older version than
        the one kept is still taken: the caller sends versions in their order. Without `UPDATE` a copy whose record is
        there already in another version is never given: the caller deletes that first.
        """
        ...

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        """Those of them that are there. UnsupportedError without `GET_BY_ID`."""
        ...

    async def search(self, query: Query, limit: int) -> Answer:
        """The best `limit`, in the vendor's order. Tenant, agent, user and store are always applied, before the cut."""
        ...

    def scan(self, container: Container) -> AsyncIterator[Kept]:
        """Everything the container holds, others' writing too; UnsupportedError without `LIST`. Never cut at a page."""
        ...

    async def delete(self, places: Sequence[Place]) -> int:
        """Take them away and tell how many were really there. What is not there is no error."""
        ...

    async def health(self) -> Health:
        """Really touch the vendor."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took. A client that was handed in is left open."""
        ...


#: The live copies a container should still hold, from the ledger.
Remaining: TypeAlias = Callable[[Container], AsyncIterator[Copy]]


@runtime_checkable
class Erasing(Protocol):
    """A backend whose `delete` leaves bytes behind, and that knows how to get rid of them."""

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """After this no byte of them is left with the vendor. `remaining` is for those that must rebuild a container."""
        ...


@runtime_checkable
class Breaking(Protocol):
    """A backend that is left alone while it keeps failing."""

    @property
    def breaker(self) -> str:
        """`closed`, `open` or `half_open`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A backend as it is configured."""

    name: str
    backend: Backend
    #: What its votes count under the fusion `weighted`.
    weight: float = 1.0
    #: Its public key by key id: hits that it did not sign are dropped. Empty: nothing is asked of it.
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Where it is, as anybody may see it.
    shown: str = ""
    #: Whether it holds memories that did not come from this ledger. Otherwise it is a copy, and knows nothing else.
    has_own_contents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How mirrors take part in writes and in recalls."""

    #: Mirrors are written to (`all`), or only read (`primary_only`).
    is_written: bool = True
    #: How long an answer waits for mirrors to confirm a write.
    write_deadline_ms: int = 250
    #: How long a recall takes at most when mirrors are asked.
    deadline_ms: int = 2000
    foreign: Foreign = Foreign.OWN
    #: Whether `rrf` leaves votes out, so that no mirror moves what the ledger found. Without it: the plain sum.
    trim_votes: bool = True
    #: Whom signed hits must be made out to.
    audience: str = "quipu"
    #: Whether hits are signed for those who ask for it.
    sign_hits: bool = False
    #: Whether the ledger's own search has a vote. Without it only what mirrors found is returned, to test them.
    ledger_votes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an adapter is made with. Credentials are in `url` and nowhere else: it is never logged or shown."""

    #: What answers call the backend: the scheme as written, `-2` for repeats, or `?name=`.
    name: str
    #: The whole URL without Quipu's own parameters (`name`, `weight`, `deadline_ms`, `require_signed`, `contents`).
    url: str
    scheme: str
    #: The parameters that are left, for the adapter; it refuses those it does not know.
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Quipu's own, so that vendor and ledger share one model. None: keyword search only.
    embedder: Embedder | None = None
    #: A folder of the backend's own that outlives the process.
    folder: Path
    #: The interpreter for vendors that run in an environment of their own; None: this one.
    python: str | None = None


#: What an adapter module, or an entry point of the group `quipu.backends`, offers.
MakeBackend: TypeAlias = Callable[[Setup], Backend]
