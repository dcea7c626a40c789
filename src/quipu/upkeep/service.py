"""The capability put together: every operation of upkeep and the function that does it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from quipu.errors import BackendUnavailableError, Fault, InvalidError, NotFoundError, UnverifiableError
from quipu.fields import DAY_MS
from quipu.ledger.commit import Commit
from quipu.ledger.index import VersionKey
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.records import StoredVersion
from quipu.memory.embedding import Embedding
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.operation import AnyBinding, Binding, Context
from quipu.search.terms import index_terms
from quipu.upkeep import operations as ops
from quipu.upkeep.model import (
    EVERYBODY,
    BackupRequest,
    BackupResponse,
    ReindexRequest,
    ReindexStep,
    StatisticsRequest,
    StatisticsResponse,
    VacuumRequest,
    VacuumResponse,
)

_TENANTS = 1_000
_PAGE = 500
#: So many texts are embedded between two steps.
_TEXTS = 64


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
        self._ledger, self._embedding = ledger, embedding
        self._redactor, self._detectors = redactor, detectors
        self._open_file = open_file

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.REINDEX, self.reindex),
            Binding(ops.STATISTICS, self.statistics),
            Binding(ops.VACUUM, self.vacuum),
            Binding(ops.BACKUP, self.backup),
        )

    # -- the index: words by today's rules and vectors by today's embedder, for versions that have others or none ------

    async def reindex(self, ctx: Context, request: ReindexRequest) -> AsyncIterator[ReindexStep]:
        """Goes on where it stopped: what is right already is left as it is."""
        for tenant in await self._tenants(ctx, EVERYBODY):
            terms = vectors = 0
            async for count in self._terms(tenant):
                terms += count
                yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=False)
            async for count in self._vectors(tenant):
                vectors += count
                yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=False)
            if terms or vectors:
                detail = {"terms": terms, "vectors": vectors}
                draft = Draft(op="reindex", actor=ctx.principal.name, at=ctx.clock(), detail=detail)
                await self._ledger.commit(Commit(tenant=tenant, draft=draft))
            yield ReindexStep(tenant=tenant, terms=terms, vectors=vectors, done=True)

    async def _terms(self, tenant: str) -> AsyncIterator[int]:
        """How many versions had other words, page by page."""
        after: VersionKey = ("", 0)
        while True:
            start = after

            def work(reader: Reader, start: VersionKey = start) -> list[StoredVersion]:
                return reader.stored_versions(start, _PAGE)

            page = await self._ledger.read(tenant, work)
            renewed = [
                ((one.id, one.version), terms)
                for one in page
                if one.record is not None and one.emptied is None and one.record.state == "live"
                if (terms := index_terms(one.record)) != one.terms
            ]
            if renewed:
                await self._ledger.set_terms(tenant, renewed)
                yield len(renewed)
            if len(page) < _PAGE:
                return
            after = (page[-1].id, page[-1].version)

    async def _vectors(self, tenant: str) -> AsyncIterator[int]:
        """How many versions got a vector. Recall goes on in the former space until all of them have one."""
        space = self._embedding.own
        if space is None:
            return
        if await self._ledger.space(tenant) is None:
            await self._ledger.settle_space(tenant, space)
        while True:
            while missing := await self._ledger.without_vector(tenant, space, _TEXTS):
                vectors = await self._embedding.embed(missing)
                keys = [(record.id, record.version) for record in missing]
                await self._ledger.add_vectors(tenant, space, list(zip(keys, vectors, strict=True)))
                yield len(keys)
            is_there = await self._ledger.space(tenant) == space
            # A move elsewhere that somebody has begun is given up.
            await self._ledger.adopt_space(tenant, space)
            if is_there:
                return
            self._embedding.forget_space(tenant)  # and once more: something may have been written meanwhile

    # -- size and copies ------------------------------------------------------------------------------------------------

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
