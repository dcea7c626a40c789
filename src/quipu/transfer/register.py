"""Imports as they are kept: listed, looked at, decided on as a whole, and told that they are undone."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from quipu.access.rules import Ownership, visible
from quipu.errors import ConflictError, NotFoundError, QuipuError
from quipu.governance.model import (
    DecideRequest,
    DecideResponse,
    ListReviewsRequest,
    ProposalView,
)
from quipu.governance.proposals import Proposals
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Ledger
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.operation import Context
from quipu.transfer.imports import Imports
from quipu.transfer.model import (
    IMPORTS,
    DecideImportRequest,
    DecideImportResponse,
    GetImportRequest,
    ImportCounts,
    ImportReport,
    ImportRow,
    ListImportsRequest,
    ListImportsResponse,
)

Decide: TypeAlias = Callable[[Context, DecideRequest], Awaitable[DecideResponse]]
_PAGE, _MOST = 1_000, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRegister:
    """What became of them."""

    ledger: Ledger
    imports: Imports
    proposals: Proposals
    #: Decides on one thing that waits.
    decide_one: Decide

    async def listed(self, ctx: Context, _request: ListImportsRequest) -> ListImportsResponse:
        rows = await self.ledger.page(IMPORTS, ctx.tenant, limit=_MOST)
        shown = [row for row in rows if _sees(ctx.principal, row)]
        shown.sort(key=lambda row: (row.at, row.id), reverse=True)
        waiting: dict[str, int] = {}
        async for name, proposal in self._waiting(ctx, None):
            waiting[name] = waiting.get(name, 0) + _count(proposal)
        return ListImportsResponse(imports=tuple(_report(row, waiting.get(row.id, 0)) for row in shown))

    async def get(self, ctx: Context, request: GetImportRequest) -> ImportReport:
        row = await self.ledger.get(IMPORTS, ctx.tenant, request.id)
        known = await self.imports.report_of(ctx.principal, request.id, request.wait_s)
        if row is not None and not _sees(ctx.principal, row):
            row = None
        if known is None and row is None:
            raise _no_import()
        waiting = 0
        async for _, proposal in self._waiting(ctx, request.id):
            waiting += _count(proposal)
        if known is None:
            assert row is not None
            return _report(row, waiting)
        undone_at = None if row is None else row.undone_at
        return known.model_copy(update={"waiting": waiting, "undone_at": undone_at})

    async def decide(self, ctx: Context, request: DecideImportRequest) -> DecideImportResponse:
        """Say yes or no to everything of an import that waits. What fails goes on waiting."""
        decided = failed = 0
        first: QuipuError | None = None
        async for _, proposal in self._waiting(ctx, request.id):
            count = _count(proposal)
            said = DecideRequest(id=proposal.id, approved=request.approved, reason=request.reason)
            try:
                await self.decide_one(ctx, said)
                decided += count
            except QuipuError as error:
                first, failed = first or error, failed + count
        if first is not None and not decided:
            raise first
        if first is None and not decided:
            raise NotFoundError("Nothing of such an import waits here.", reason="import")
        return DecideImportResponse(
            import_id=request.id,
            approved=request.approved,
            decided=decided,
            failed=failed,
            reason=None if first is None else first.reason or first.code,
        )

    # -- undone -------------------------------------------------------------------------------------------------------

    async def withdraw(self, ctx: Context, import_id: str, *, dry_run: bool) -> int:
        """Stop it, and drop what still waits of it for a person; how many memories that were, or would be."""
        if not dry_run:
            await self.imports.stop(ctx.tenant, import_id)
        count = 0
        async for _, proposal in self._waiting(ctx, import_id):
            count += _count(proposal)
            if dry_run:
                continue
            kept = await self.proposals.found(ctx, proposal.id)
            now, actor = ctx.clock(), ctx.principal.name
            closing = await self.proposals.closing(ctx.tenant, kept, now, actor, closed_by="withdrawn")
            try:
                await self.ledger.commit(closing)
            except ConflictError:  # somebody has decided meanwhile: what came in is found in memory
                count -= _count(proposal)
        return count

    async def note_undone(self, ctx: Context, import_id: str) -> None:
        """All of it is undone: the same file may come in again."""
        kept = await self.ledger.kept(IMPORTS, ctx.tenant, import_id)
        if kept is None:
            return
        row = replace(kept.value, undone_at=ctx.clock(), is_done=True)
        draft = Draft(
            op="undo_import", actor=ctx.principal.name, at=ctx.clock(), detail={"import_id": import_id}
        )
        await self.ledger.commit(
            Commit(tenant=ctx.tenant, draft=draft, changes=(Keep(IMPORTS, row, kept.seq),))
        )

    async def _waiting(self, ctx: Context, import_id: str | None) -> AsyncIterator[tuple[str, ProposalView]]:
        """What waits of imports, as far as the caller may see it."""
        cursor: str | None = None
        while True:
            asked = ListReviewsRequest(import_id=import_id, limit=_PAGE, cursor=cursor)
            page = await self.proposals.listed(ctx, asked)
            for proposal in page.reviews:
                if (name := _import_of(proposal)) is not None:
                    yield name, proposal
            if page.next_cursor is None:
                return
            cursor = page.next_cursor


def _sees(principal: Principal, row: ImportRow) -> bool:
    return visible(principal, Ownership(agent_id=row.agent_id)) or (
        row.actor == principal.name and principal.may_act_for(row.agent_id)
    )


def _import_of(proposal: ProposalView) -> str | None:
    name = (proposal.request or {}).get("import_id")
    return name if isinstance(name, str) else None


def _count(proposal: ProposalView) -> int:
    """How many memories wait with it."""
    request = proposal.request or {}
    waiting: Any = request.get("items") or request.get("ids") or ()
    return len(waiting)


def _report(row: ImportRow, waiting: int) -> ImportReport:
    known = ImportCounts.model_fields
    return ImportReport(
        import_id=row.id,
        status="done" if row.is_done else "running",
        agent_id=row.agent_id,
        format=row.format,
        file_name=row.file_name,
        sha256=row.sha256,
        signature="absent" if row.owner is None else "valid",
        export_id=row.export_id,
        counts=ImportCounts(**{name: count for name, count in row.counts.items() if name in known}),
        waiting=waiting,
        by=row.actor,
        at=row.at,
        undone_at=row.undone_at,
    )


def _no_import() -> NotFoundError:
    return NotFoundError("There is no such import.", reason="import", hint="`quipu import list` shows them.")
