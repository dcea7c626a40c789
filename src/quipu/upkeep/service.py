"""The capability put together: every operation of upkeep and the function that does it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from quipu.errors import BackendUnavailableError, Fault, InvalidError, NotFoundError, UnverifiableError
from quipu.fields import DAY_MS
from quipu.ledger.commit import Commit
from quipu.ledger.ledger import Ledger
from quipu.memory.embedding import Embedding
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.operation import AnyBinding, Binding, Context
from quipu.upkeep import operations as ops
from quipu.upkeep.model import (
    EVERYBODY,
    BackupRequest,
    BackupResponse,
    StatisticsRequest,
    StatisticsResponse,
    VacuumRequest,
    VacuumResponse,
)
from quipu.upkeep.reindex import Reindex

_TENANTS = 1_000


class Upkeep:
    """Index, size and copies of a memory. `open_file` opens an empty ledger in a new file."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        embedding: Embedding,
        redactor: Redactor,
        detectors: Guard,
        open_file: Callable[[Path], Ledger],
    ) -> None:
        self._ledger, self._redactor, self._detectors = ledger, redactor, detectors
        self._open_file = open_file
        self._reindex = Reindex(ledger=ledger, embedding=embedding)

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.REINDEX, self._reindex.run),
            Binding(ops.STATISTICS, self.statistics),
            Binding(ops.VACUUM, self.vacuum),
            Binding(ops.BACKUP, self.backup),
        )

    async def statistics(self, ctx: Context, request: StatisticsRequest) -> StatisticsResponse:
        return StatisticsResponse(**await self._ledger.statistics(ctx.tenant))

    async def vacuum(self, ctx: Context, request: VacuumRequest) -> VacuumResponse:
        """An admin empties old versions of the tenant; giving back room is for who runs the server."""
        emptied = 0
        if request.keep_history_days is not None:
            now = ctx.clock()
            horizon = await self._ledger.position_at(ctx.tenant, now - request.keep_history_days * DAY_MS)
            emptied = await self._ledger.prune(ctx.tenant, horizon, ctx.principal.name, now)
        may_compact = ctx.principal.may(Permission.OPERATE)
        if may_compact:
            await self._ledger.compact()
        return VacuumResponse(emptied=emptied, compacted=may_compact)

    async def backup(self, ctx: Context, request: BackupRequest) -> BackupResponse:
        """Journaled in every tenant before it is copied, so that no copy is made in silence."""
        await self._check(ctx.tenant, request)
        tenants = await self._tenants(ctx, request.tenant)
        target = _new_file(request.target)
        scope = "all" if request.tenant == EVERYBODY else "tenant"
        for tenant in tenants:
            draft = Draft(op="backup", actor=ctx.principal.name, at=ctx.clock(), detail={"of": scope})
            await self._ledger.commit(Commit(tenant=tenant, draft=draft))
        try:
            copy = self._open_file(target)
            try:
                await self._ledger.copy_to(copy, tenants)
            finally:
                await copy.close()
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return BackupResponse(path=str(target), tenants=tuple(tenants), bytes=target.stat().st_size)

    async def _tenants(self, ctx: Context, named: str | None) -> Sequence[str]:
        if named == EVERYBODY:
            found = list[str]()
            while page := await self._ledger.tenants(found[-1] if found else "", _TENANTS):
                found.extend(one.tenant for one in page)
            return found
        tenant = ctx.tenant if named is None else named
        if await self._ledger.tenant(tenant) is None:
            raise NotFoundError(
                "There is no such tenant.", reason="tenant", hint="`quipu tenant list` shows them."
            )
        return [tenant]

    async def _check(self, tenant: str, request: BackupRequest) -> None:
        """The name of a file is shown in answers and on the disk: it holds no secret."""
        guard = self._detectors
        with suppress(UnverifiableError):  # a missing key is no reason to have no backup
            guard = await self._redactor.guard(tenant, None)
        guard.clean(request)


def _new_file(name: str) -> Path:
    """Made here, for its owner alone: of two who come at once one makes it."""
    try:
        path = Path(name).expanduser().absolute()
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise BackendUnavailableError(
            "The target of a backup must not exist yet.", reason="target_exists", hint="Name another file."
        ) from None
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidError(
            "The backup cannot be written there.",
            faults=[Fault("/target", "bad_value", "a file in a folder that is there and may be written to")],
        ) from error
    return path
