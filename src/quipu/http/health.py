"""How the server is, what it can do, and what it does by itself: three operations."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from quipu._version import __version__
from quipu.http.jobs import JobLog
from quipu.ledger.ledger import Ledger
from quipu.memory.memory_store import CAPABILITIES
from quipu.model.principal import Permission
from quipu.operation import SERVER, AnyBinding, Binding, Context, Operation, Request, Response, get


class HealthRequest(Request):
    """Ask how the server is. Who may not read memory, or has no token, is answered the status and nothing else."""


class LedgerHealth(Response):
    """The system of record."""

    kind: str = Field(description="sqlite or postgresql.")
    writable: bool = Field(description="Whether it takes writes now.")
    reason: str | None = Field(default=None, description="Why not, as a stable word.")


class HealthResponse(Response):
    """How the server is."""

    status: str = Field(description="ok, or degraded: the ledger takes no writes.")
    version: str | None = Field(default=None, description="The version of Quipu.")
    ledger: LedgerHealth | None = Field(default=None, description="The system of record.")
    embedder: str | None = Field(default=None, description="The model that makes vectors; none: words alone.")


class CapabilitiesRequest(Request):
    """Ask what this memory can do."""


class CapabilitiesResponse(Response):
    """What this memory can do."""

    wire: str = Field(description="The version of memorywire that is spoken.")
    operations: tuple[str, ...] = Field(description="Names of all operations.")
    types: tuple[str, ...] = Field(description="Kinds of memory.")
    capabilities: tuple[str, ...] = Field(
        description="What a memorywire store may promise, and this one does."
    )
    limits: dict[str, int] = Field(description="How large things may be.")


class ListJobsRequest(Request):
    """List what this server does by itself, and how that goes."""


class JobView(Response):
    """Something that is done every so often."""

    name: str = Field(description="What it is called.")
    every_s: float = Field(description="Seconds from the end of one time to the next.")
    running: bool = Field(description="Whether it is being done now.")
    ended_at: int | None = Field(
        default=None, description="When it last ended, well or not; milliseconds since 1970."
    )
    error: str | None = Field(
        default=None, description="Why it failed the last time, as a stable word; none: it did not."
    )


class ListJobsResponse(Response):
    """The jobs of the server that answers; each server has its own."""

    jobs: tuple[JobView, ...] = Field(description="By name.")


HEALTH = Operation(
    name="health",
    request=HealthRequest,
    response=HealthResponse,
    permission=None,
    limits=SERVER,
    http=get("/v1/health", v0="health", is_public=True),
    repeat="safe",
)
CAPABILITIES_OF = Operation(
    name="capabilities",
    request=CapabilitiesRequest,
    response=CapabilitiesResponse,
    permission=Permission.READ,
    limits=SERVER,
    http=get("/v1/capabilities", v0="capabilities"),
    repeat="safe",
)
LIST_JOBS = Operation(
    name="list_jobs",
    request=ListJobsRequest,
    response=ListJobsResponse,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=get("/v1/jobs"),
    repeat="safe",
)
OPERATIONS = (HEALTH, CAPABILITIES_OF, LIST_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthService:
    """Answers from the ledger."""

    ledger: Ledger
    embedder: str | None
    operations: Callable[[], tuple[str, ...]]
    content_bytes: int
    jobs: JobLog

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(HEALTH, self.health),
            Binding(CAPABILITIES_OF, self.capabilities),
            Binding(LIST_JOBS, self.listed_jobs),
        )

    async def health(self, ctx: Context, request: HealthRequest) -> HealthResponse:
        found = await self.ledger.health()
        status = "ok" if found.writable else "degraded"
        if not ctx.principal.may(Permission.READ):
            return HealthResponse(status=status)
        return HealthResponse(
            status=status,
            version=__version__,
            ledger=LedgerHealth(kind=found.kind, writable=found.writable, reason=found.reason),
            embedder=self.embedder,
        )

    async def capabilities(self, ctx: Context, request: CapabilitiesRequest) -> CapabilitiesResponse:
        return CapabilitiesResponse(
            wire="memorywire/v0",
            operations=self.operations(),
            types=("semantic", "episodic", "procedural", "emotional"),
            capabilities=tuple(sorted(CAPABILITIES)),
            limits={"content_bytes": self.content_bytes, "k": 1000, "batch": 1000, "ids": 1000},
        )

    async def listed_jobs(self, ctx: Context, request: ListJobsRequest) -> ListJobsResponse:
        return ListJobsResponse(
            jobs=tuple(
                JobView(
                    name=one.name,
                    every_s=one.every_s,
                    running=one.is_running,
                    ended_at=one.ended_at,
                    error=None if one.failure is None else str(one.failure),
                )
                for _, one in sorted(self.jobs.states.items())
            )
        )
