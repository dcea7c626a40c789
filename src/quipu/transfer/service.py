"""Every operation of transfer and the function that does it; imports as they are kept."""

from collections import Counter
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
from quipu.operation import AnyBinding, Binding, Context
from quipu.secrets.sealing import Sealing
from quipu.sharing.identity import Documents
from quipu.transfer import operations as ops
from quipu.transfer.imports import Imports, report_of_row
from quipu.transfer.model import (
    IMPORTS,
    DecideImportRequest,
    DecideImportResponse,
    GetImportRequest,
    ImportReport,
    ImportRow,
    ListImportsRequest,
    ListImportsResponse,
)
from quipu.transfer.waiting import WaitingFiles
from quipu.transfer.writes import ImportWrites

Decide: TypeAlias = Callable[[Context, DecideRequest], Awaitable[DecideResponse]]
_PAGE, _MOST = 1_000, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Imports as they are carried out, and as they are kept: listed, decided on as a whole, told that they are undone."""

    ledger: Ledger
    imports: Imports
    proposals: Proposals
    #: Decides on one thing that waits.
    decide_one: Decide

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.IMPORT_FILE, self.imports.import_file),
            Binding(ops.COMMIT_IMPORT, self.imports.commit_import),
            Binding(ops.DECIDE_IMPORT, self.decide),
            Binding(ops.GET_IMPORT, self.get),
            Binding(ops.LIST_IMPORTS, self.listed),
        )

    async def close(self) -> None:
        await self.imports.close()

    async def listed(self, ctx: Context, _request: ListImportsRequest) -> ListImportsResponse:
        rows = await self.ledger.page(IMPORTS, ctx.tenant, limit=_MOST)
        shown = [row for row in rows if _sees(ctx.principal, row)]
        shown.sort(key=lambda row: (row.at, row.id), reverse=True)
        waiting: Counter[str] = Counter()
        async for name, proposal in self._waiting(ctx, None):
            waiting[name] += _count(proposal)
        return ListImportsResponse(imports=tuple(report_of_row(row, waiting[row.id]) for row in shown))

    async def get(self, ctx: Context, request: GetImportRequest) -> ImportReport:
        row = await self.ledger.get(IMPORTS, ctx.tenant, request.id)
        known = await self.imports.report_of(ctx, request.id, request.wait_s)
        if row is not None and not _sees(ctx.principal, row):
            row = None
        if known is None and row is None:
            raise NotFoundError(
                "There is no such import.", reason="import", hint="`list_imports` names them."
            )
        waiting = sum([_count(proposal) async for _, proposal in self._waiting(ctx, request.id)])
        if known is None:
            assert row is not None
            return report_of_row(row, waiting)
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
                if isinstance(name := (proposal.request or {}).get("import_id"), str):
                    yield name, proposal
            if page.next_cursor is None:
                return
            cursor = page.next_cursor


def _sees(principal: Principal, row: ImportRow) -> bool:
    return visible(principal, Ownership(agent_id=row.agent_id)) or (
        row.actor == principal.name and principal.may_act_for(row.agent_id)
    )


def _count(proposal: ProposalView) -> int:
    """How many memories wait with it."""
    request = proposal.request or {}
    waiting: Any = request.get("items") or request.get("ids") or ()
    return len(waiting)


def transfer_service(
    *,
    writes: ImportWrites,
    documents: Documents,
    sealing: Sealing,
    proposals: Proposals,
    decide: Decide,
) -> Transfer:
    """Everything of transfer."""
    files = WaitingFiles(ledger=writes.ledger, sealing=sealing)
    imports = Imports(writes=writes, documents=documents, files=files)
    return Transfer(ledger=writes.ledger, imports=imports, proposals=proposals, decide_one=decide)
