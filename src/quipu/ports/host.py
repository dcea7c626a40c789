"""Whoever does what a `Memory` asks: a service in this process, or a client of one on a server.

Every call says who asks. A client leaves that aside: the server knows it by the credential.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Protocol

from quipu.model.operations import (
    CreateStoreRequest,
    ExpireRequest,
    ForgetRequest,
    ListRequest,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    RememberRequest,
    StepRequest,
)

if TYPE_CHECKING:
    from quipu.errors import QuipuError
    from quipu.model.consolidation import ConsolidateRequest, Consolidation, Undone
    from quipu.model.feed import FeedEvent, FeedRequest
    from quipu.model.governance import Edit
    from quipu.model.graph import Graph, GraphRequest
    from quipu.model.outcomes import (
        ExpireResponse,
        ForgetResponse,
        MergeResponse,
        Page,
        RecallResponse,
        RememberResponse,
        StepResponse,
        Version,
    )
    from quipu.model.principal import Principal
    from quipu.model.procedure import Procedure
    from quipu.model.record import Record
    from quipu.model.store import Store
    from quipu.model.value import Json
    from quipu.ports.host_moving import Exchange, Exporting, Importing, Imports
    from quipu.ports.host_operating import Audit, MirrorChecks, Secrets, Tenancy, Tokens, Upkeep
    from quipu.ports.host_reviewing import Governance, Learning, Notices, Policies, Recovery, Reviewing


class Operations(Protocol):
    """memorywire's five, many remembers at once, and undoing."""

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse: ...
    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse: ...
    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse: ...
    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse: ...
    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse: ...

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]: ...

    async def restore(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None = None
    ) -> RememberResponse: ...

    async def decide(
        self,
        principal: Principal,
        proposal_id: str,
        *,
        approved: bool,
        reason: str | None = None,
        etag: str | None = None,
        edit: Edit | None = None,
        merge_into: str | None = None,
        strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL,
        supersedes: Sequence[str] = (),
    ) -> Any:
        """What the write that was let through answered; None when it was rejected."""
        ...


class Reading(Protocol):
    """Reads that do not rank."""

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record: ...

    async def list(self, principal: Principal, request: ListRequest) -> Page: ...

    async def history(
        self, principal: Principal, agent_id: str | None, record_id: str
    ) -> tuple[Version, ...]: ...


class Stores(Protocol):
    """The containers of a tenant."""

    async def create(self, principal: Principal, request: CreateStoreRequest) -> Store: ...
    async def list(self, principal: Principal) -> tuple[Store, ...]: ...
    async def delete(self, principal: Principal, name: str, confirm: str, *, hard_delete: bool) -> int: ...


class Changes(Protocol):
    """The journal as it grows."""

    async def follow(
        self,
        principal: Principal,
        request: FeedRequest,
        renewed: Callable[[], Awaitable[Principal]],
        *,
        idle_s: float = 15.0,
    ) -> AsyncGenerator[tuple[FeedEvent, ...]]:
        """Events in order, a few at a time; an empty tuple says that nothing happened for a while."""
        ...


class Procedures(Protocol):
    """Machines that step."""

    async def step(self, principal: Principal, request: StepRequest) -> StepResponse: ...

    async def shown(self, principal: Principal, record_id: str, agent_id: str | None = None) -> Procedure: ...


class Consolidating(Protocol):
    """Short-term memory that settles."""

    async def consolidate(
        self,
        principal: Principal,
        request: ConsolidateRequest,
        progress: Callable[[int, int], None] | None = None,
    ) -> Consolidation: ...

    async def undo(self, principal: Principal, pass_id: str) -> Undone: ...


class Graphs(Protocol):
    """What holds memories together."""

    async def around(self, principal: Principal, request: GraphRequest) -> Graph: ...


class Host(Operations, Protocol):
    """All of it."""

    @property
    def reading(self) -> Reading: ...
    @property
    def stores(self) -> Stores: ...
    @property
    def governance(self) -> Governance: ...
    @property
    def reviewing(self) -> Reviewing: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def learning(self) -> Learning: ...
    @property
    def recovery(self) -> Recovery: ...
    @property
    def notices(self) -> Notices: ...
    @property
    def exchange(self) -> Exchange: ...
    @property
    def importing(self) -> Importing: ...
    @property
    def imports(self) -> Imports: ...
    @property
    def exporting(self) -> Exporting: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def changes(self) -> Changes: ...
    @property
    def procedures(self) -> Procedures: ...
    @property
    def consolidating(self) -> Consolidating: ...
    @property
    def graphs(self) -> Graphs: ...
    @property
    def mirror_checks(self) -> MirrorChecks: ...
    @property
    def tenancy(self) -> Tenancy: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def secrets(self) -> Secrets: ...

    async def whoami(self, principal: Principal) -> Principal:
        """Whom the credential stands for."""
        ...

    async def described(self, principal: Principal) -> Mapping[str, Json]:
        """What this memory promises: capabilities, types, operations, limits, embedder."""
        ...

    async def sweep(self, principal: Principal) -> int: ...

    def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """How many versions got terms or a vector each time."""
        ...

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        ...

    async def health(self, principal: Principal) -> Mapping[str, Json]: ...


class Connection(Protocol):
    """The way to a host: nothing is opened before it is needed."""

    async def open(self) -> Host: ...

    async def close(self) -> None:
        """Let go of what was opened. Only called after `open`."""
        ...
