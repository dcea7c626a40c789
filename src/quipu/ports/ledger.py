"""The system of record. One port, split by noun; every implementation passes `quipu.testing.LedgerContract`.

A ledger keeps, finds and never decides: what a change means was settled before it arrives as a `Commit`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quipu.ports.beside import Beside
from quipu.ports.runs import Runs

if TYPE_CHECKING:
    from quipu.model.access import KeptSecret, Tenant, Token
    from quipu.model.change import Commit, Committed, Once, Proposal
    from quipu.model.journal import Checkpoint, Entry, Head, Op
    from quipu.model.notices import KeptWebhook, Webhook
    from quipu.model.outcomes import Fault
    from quipu.model.record import Mark, Record
    from quipu.model.search import (
        Found,
        Neighbours,
        Scope,
        Search,
        Selection,
        SharedWord,
        Snapshot,
        WordShares,
    )
    from quipu.model.store import Store
    from quipu.model.value import JsonObject
    from quipu.ports.grants import Lending
    from quipu.ports.outbox import Outbox


@dataclass(frozen=True, slots=True)
class Space:
    """The vector space a tenant's records live in. Vectors of another space are never mixed in."""

    model: str
    dimensions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A version and what its index entry must say; `search_text` None means it has none."""

    record: Record
    search_text: str | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret as it is kept."""

    secret: KeptSecret
    value: bytes


@dataclass(frozen=True, slots=True)
class Guard:
    """What must not be remembered, and the position at which that last changed."""

    position: int
    secrets: Sequence[Sealed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Which held writes are wanted, and from where on; None asks for nothing."""

    operation: str | None = None
    agent_id: str | None = None
    writer: str | None = None
    #: One of those that it is held by.
    rule: str | None = None
    #: Only what an import has put before a person.
    is_of_imports: bool = False
    #: When the last one that is known was made, and its id.
    after: tuple[int, str] | None = None
    limit: int | None = None
    is_newest_first: bool = False


EVERY = Proposals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Which entries of the journal are wanted; None asks for nothing."""

    ops: frozenset[Op] | None = None
    agent: str | None = None
    actor: str | None = None
    run: str | None = None
    #: The id of a record that they mention.
    record: str | None = None
    #: What their detail says under any name, such as the id of an import.
    told: str | None = None
    #: Behind one position, up to another.
    after: int = 0
    last: int | None = None
    limit: int = 1000
    is_newest_first: bool = False


class Records(Protocol):
    """Versions of records, and stores to keep them in."""

    async def commit(self, *commits: Commit, guard: int | None = None) -> Sequence[Committed]:
        """Apply all commits or none, in order, durably. A version other than expected raises ConflictError.

        `guard` is the position of the list of secrets that the texts were checked against; if it has changed since,
        ConflictError with reason `secrets_changed` is raised.
        """
        ...

    async def answered(self, tenant: str, once: Once, now: int) -> Committed | None:
        """What was answered under this key before, if it was; ConflictError when it was another request."""
        ...

    async def read(self, tenant: str, ids: Sequence[str], seq: int | None = None) -> Mapping[str, Record]:
        """The version of each id current at `seq`; without `seq` the newest one, whatever became of it."""
        ...

    async def versions(self, tenant: str, record_id: str) -> Sequence[Record]:
        """All versions, oldest first; of an erased record only content-free tombstones are left."""
        ...

    def scan(self, selection: Selection, snapshot: Snapshot) -> AsyncIterator[Record]:
        """Walk through records, newest id first, one per id: the version current at the snapshot."""
        ...

    def every_version(self, tenant: str) -> AsyncIterator[Record]:
        """Walk through all versions of all records, in the order they were born."""
        ...

    async def marks(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mark]: ...

    async def reasons(self, tenant: str, record_id: str) -> Mapping[int, str]:
        """Why the record was changed, by position, where a reason was given."""
        ...

    async def due(self, tenant: str, now: int, limit: int = 1000) -> Sequence[Record]:
        """Current records whose expiry has passed and that nobody has closed yet."""
        ...

    async def stores(self, tenant: str) -> Sequence[Store]:
        """The tenant's memory stores; opening the tenant made `main`."""
        ...

    async def proposals(
        self, tenant: str, status: str | None = None, wanted: Proposals = EVERY
    ) -> Sequence[Proposal]:
        """Held writes, oldest first unless the newest are wanted first."""
        ...

    async def proposal(self, tenant: str, proposal_id: str) -> Proposal | None: ...

    async def let_go(self, tenant: str, before: int, *, keeps_rejected: bool) -> int:
        """Staged content that was kept for taking a decision back goes, of decisions before a moment; how many."""
        ...

    async def let_go_of(self, tenant: str, proposal_id: str) -> bool:
        """The same of one, whenever it was decided; False where it has gone already."""
        ...


class Journal(Protocol):
    """The chain, and the signed statements about it."""

    async def head(self, tenant: str) -> Head: ...

    async def entries(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]: ...

    async def entries_with(self, tenant: str, wanted: Entries) -> Sequence[Entry]:
        """Those that are wanted, in the chain's order unless the newest are wanted first."""
        ...

    async def position_at(self, tenant: str, moment: int) -> int:
        """The last position whose entry was written at or before the moment; 0 before the first."""
        ...

    async def checkpoints(self, tenant: str) -> Sequence[Checkpoint]: ...

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None: ...


class Registry(Protocol):
    """Who may come in, and what must stay out."""

    async def tenants(self) -> Sequence[Tenant]: ...

    async def tenant(self, tenant: str) -> Tenant | None: ...

    async def token(self, tenant: str, digest: str) -> tuple[Token, Tenant] | None:
        """The token whose text has this hash, whatever became of it, and its tenant: every request asks for both."""
        ...

    async def tokens(self, tenant: str) -> Sequence[Token]:
        """All of the tenant's, oldest first."""
        ...

    async def guard(self, tenant: str) -> Guard:
        """The secrets that are registered now."""
        ...

    async def webhooks(self, tenant: str) -> Sequence[KeptWebhook]:
        """Where notices are sent, oldest first."""
        ...

    async def move_webhook(self, was: Webhook, now: Webhook) -> bool:
        """Note how far it has been told; False when somebody else has noted something since `was` was read."""
        ...

    async def dismissals(self, tenant: str) -> frozenset[str]:
        """Suggested rules that are not wanted."""
        ...

    async def rules(self, tenant: str) -> Sequence[JsonObject]:
        """The tenant's own rules, in their order. A change of them moves the guard's position."""
        ...


class Finding(Protocol):
    """Search. Every restriction holds before the best are chosen."""

    async def search(self, search: Search) -> Found: ...

    async def word_shares(self, scope: Scope, snapshot: Snapshot, text: str) -> WordShares: ...

    async def neighbours(self, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        """One hop along explicit links (both ways), shared subjects and adjacent turns of a session."""
        ...

    async def shared_words(
        self, scope: Scope, snapshot: Snapshot, leaders: Sequence[str], members: Sequence[str], text: str
    ) -> Sequence[SharedWord]:
        """The rare words of the leaders that `text` has not, each with the members that have it too.

        Rare is a word that more than one record in reach has, and no more than `rules.hops.RARE` of them.
        """
        ...


class Upkeep(Protocol):
    """What an operator does to the ledger as a whole."""

    async def space(self, tenant: str) -> Space | None: ...

    async def settle_space(self, tenant: str, space: Space) -> Space:
        """Make `space` the tenant's unless it has one; returns the one it has. Of two who come at once one settles it."""
        ...

    async def adopt_space(self, tenant: str, space: Space) -> None:
        """Make `space` the tenant's. Vectors of the former one are dropped."""
        ...

    async def without_vector(self, tenant: str, space: Space, limit: int) -> Sequence[Record]:
        """Versions, not erased, that have no vector in `space` yet."""
        ...

    async def add_vectors(self, tenant: str, space: Space, vectors: Sequence[tuple[Record, bytes]]) -> int:
        """Add vectors to versions that still are what they were; returns how many were added."""
        ...

    async def vectors(self, tenant: str, records: Sequence[Record]) -> Mapping[str, bytes]:
        """The vectors of these versions in the space in use, by record id; those that have none are left out."""
        ...

    async def index_faults(self, tenant: str, expected: Sequence[Indexed]) -> Sequence[Fault]:
        """Compare index rows with what they should be."""
        ...

    async def has_other_terms(self, tenant: str) -> bool:
        """Whether the terms may have been cut by other rules than this program's."""
        ...

    async def renew_terms(self, tenant: str, expected: Sequence[Indexed]) -> int:
        """Give versions the terms of their text where the index says something else; returns how many got them."""
        ...

    async def settle_terms(self, tenant: str) -> None:
        """Note that the terms of every version are those of this program's rules."""
        ...

    async def integrity_faults(self) -> Sequence[Fault]:
        """The engine's own check of its files."""
        ...

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a consistent copy while others go on writing."""
        ...

    async def prune(self, tenant: str, horizon: int) -> int:
        """Empty versions that died at or before `horizon`; reads as of earlier positions end. Returns how many."""
        ...

    async def compact(self) -> None:
        """Give unused space back to the file system, and drop vectors that belong to no version."""
        ...

    async def statistics(self, tenant: str) -> Mapping[str, int]:
        """Counts and sizes, by name."""
        ...


class Ledger(Records, Journal, Registry, Finding, Upkeep, Beside, Runs, Protocol):
    """All of it."""

    @property
    def name(self) -> str:
        """What `stores` in answers calls it: the URL's scheme, or the name it was given."""
        ...

    @property
    def outbox(self) -> Outbox:
        """What it knows of its mirrors."""
        ...

    @property
    def lending(self) -> Lending:
        """What it keeps about lending memory to others."""
        ...

    async def open(self, tenant: str) -> None:
        """Make the tenant exist, with its first journal entry and the store `main`."""
        ...

    async def close(self) -> None: ...
