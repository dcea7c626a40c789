"""Whoever does what a `Memory` asks: a service in this process, or a client of one on a server.

Every call says who asks. A client leaves that aside: the server knows it by the credential.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Protocol

from quipu.errors import QuipuError
from quipu.model.access import IssuedToken, KeptSecret, Role, Tenant, Token
from quipu.model.change import Proposal
from quipu.model.consolidation import ConsolidateRequest, Consolidation, Undone
from quipu.model.feed import FeedEvent, FeedRequest
from quipu.model.governance import Edit, Replayed, Review, Rule
from quipu.model.graph import Graph, GraphRequest
from quipu.model.journal import Checkpoint, Entry
from quipu.model.learning import Suggestion
from quipu.model.mirrors import MirrorReport, MirrorStatus
from quipu.model.moving import (
    ExportedFile,
    FileExport,
    FileImport,
    ImportDecided,
    ImportReport,
    ImportState,
    RolledBack,
)
from quipu.model.notices import Event, IssuedWebhook, Webhook
from quipu.model.operations import (
    CreateStoreRequest,
    ExpireRequest,
    ForgetRequest,
    Line,
    ListRequest,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    RememberRequest,
    StepRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ImportSummary,
    MergeResponse,
    Page,
    RecallResponse,
    RememberResponse,
    StepResponse,
    Verification,
    Version,
)
from quipu.model.principal import Permission, Principal
from quipu.model.procedure import Procedure
from quipu.model.record import Record
from quipu.model.recovery import RecoverRequest, RecoverResponse
from quipu.model.store import Store
from quipu.model.value import Json


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


class Governance(Protocol):
    """Writes that wait for a person."""

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]: ...


class Reviewing(Protocol):
    """What a reviewer sees of one."""

    async def review(self, principal: Principal, proposal_id: str) -> Review: ...


class Policies(Protocol):
    """The rules that decide on writes."""

    async def list(self, principal: Principal) -> tuple[Rule, ...]: ...
    async def own(self, principal: Principal) -> tuple[Rule, ...]: ...
    async def set(self, principal: Principal, document: object) -> tuple[Rule, ...]: ...

    async def tried(
        self, principal: Principal, document: object | None = None, last: int = 1_000
    ) -> tuple[Replayed, ...]: ...


class Learning(Protocol):
    """Rules that decisions suggest."""

    async def suggested(self, principal: Principal) -> tuple[Suggestion, ...]: ...
    async def accept(self, principal: Principal, suggestion_id: str) -> tuple[Rule, ...]: ...
    async def dismiss(self, principal: Principal, suggestion_id: str) -> None: ...


class Recovery(Protocol):
    """Undoing what a cause has done."""

    async def recover(self, principal: Principal, request: RecoverRequest) -> RecoverResponse: ...


class Notices(Protocol):
    """Other machines that are told of held writes and decisions."""

    async def add(
        self,
        principal: Principal,
        *,
        url: str,
        events: Sequence[Event] = tuple(Event),
        agents: Sequence[str] = ("*",),
        with_content: bool = False,
    ) -> IssuedWebhook: ...

    async def list(self, principal: Principal) -> tuple[Webhook, ...]: ...
    async def remove(self, principal: Principal, webhook_id: str) -> None: ...
    async def ping(self, principal: Principal, webhook_id: str) -> None: ...


class Exchange(Protocol):
    """Many memories in and out."""

    async def import_lines(
        self,
        principal: Principal,
        lines: AsyncIterable[Line | QuipuError],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary: ...

    def export(self, principal: Principal, request: ListRequest) -> AsyncGenerator[Record]: ...


class Importing(Protocol):
    """Whole files of memories, tried and then carried out."""

    async def tried(
        self,
        principal: Principal,
        pieces: AsyncIterable[bytes],
        request: FileImport,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport: ...

    async def committed(
        self, principal: Principal, import_id: str, progress: Callable[[int], None] | None = None
    ) -> ImportReport: ...


class Imports(Protocol):
    """What became of imports."""

    async def list(self, principal: Principal) -> tuple[ImportState, ...]: ...

    async def decide(
        self, principal: Principal, import_id: str, *, approved: bool, reason: str | None = None
    ) -> ImportDecided: ...

    async def roll_back(
        self, principal: Principal, import_id: str, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack: ...


class Exporting(Protocol):
    """Memories as a file."""

    async def made(self, principal: Principal, request: FileExport) -> ExportedFile: ...


class Audit(Protocol):
    """The journal and its proof."""

    async def verify(
        self, principal: Principal, progress: Callable[[int, int], None] | None = None
    ) -> Verification: ...

    async def checkpoint(self, principal: Principal) -> Checkpoint: ...

    async def entries(self, principal: Principal, after: int = 0, limit: int = 100) -> Sequence[Entry]: ...

    async def keys(self, principal: Principal) -> Mapping[str, str]:
        """Public keys of the signatures, by id."""
        ...

    def exported(self, principal: Principal) -> AsyncIterator[tuple[str, str]]:
        """File names and lines of what can be verified anywhere."""
        ...


class Upkeep(Protocol):
    """What an operator does to the ledger as a whole."""

    async def backup(
        self, principal: Principal, target: Path, progress: Callable[[int, int], None] | None = None
    ) -> None: ...

    async def vacuum(self, principal: Principal, keep_history_days: int | None = None) -> int: ...

    async def statistics(self, principal: Principal) -> Mapping[str, int]: ...


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


class MirrorChecks(Protocol):
    """Copies in other stores, and how they stand."""

    async def status(self, principal: Principal) -> tuple[MirrorStatus, ...]: ...

    async def verify(self, principal: Principal, name: str) -> MirrorReport: ...

    async def resync(self, principal: Principal, name: str) -> MirrorReport: ...


class Tenancy(Protocol):
    """Who has a memory here."""

    async def create(self, principal: Principal, tenant_id: str) -> Tenant: ...
    async def list(self, principal: Principal) -> tuple[Tenant, ...]: ...
    async def suspend(self, principal: Principal, tenant_id: str) -> Tenant: ...
    async def resume(self, principal: Principal, tenant_id: str) -> Tenant: ...


class Tokens(Protocol):
    """Who may come in."""

    async def issue(
        self,
        principal: Principal,
        *,
        name: str,
        roles: Iterable[Role] = (),
        permissions: Iterable[Permission] | None = None,
        agents: Sequence[str] = ("*",),
        user_id: str | None = None,
        expires_at: int | None = None,
        rate: int | None = None,
        recall_budget: int | None = None,
        review_stores: Sequence[str] = ("*",),
        review_operations: Sequence[str] = ("*",),
        tenant: str | None = None,
    ) -> IssuedToken: ...

    async def list(self, principal: Principal, tenant: str | None = None) -> tuple[Token, ...]: ...
    async def revoke(self, principal: Principal, token_id: str, tenant: str | None = None) -> Token: ...

    async def rotate(
        self, principal: Principal, token_id: str, *, grace_ms: int = 0, tenant: str | None = None
    ) -> IssuedToken: ...


class Secrets(Protocol):
    """What must never be remembered."""

    async def register(
        self, principal: Principal, *, label: str, value: str, run_id: str | None = None
    ) -> KeptSecret: ...

    async def list(self, principal: Principal) -> tuple[KeptSecret, ...]: ...
    async def remove(self, principal: Principal, secret_id: str) -> None: ...


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
        """How many versions were embedded each time."""
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
