"""Undo: find what a cause did to memory, and take it back.

A trial unless it is said otherwise. What is done is done by the ordinary writes: redacted, judged by the rules, journaled,
and to be undone like anything else.
"""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from quipu.audit.model import UNDONE, Outcome, Step, UndoFinding, UndoRequest, UndoResponse
from quipu.audit.remedy import Detect, Remedy, is_caused, remedy, rewritten, suspected
from quipu.errors import QuipuError
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.drafts import sources_of
from quipu.memory.model import ExpireRequest, ForgetRequest, RestoreRequest, WriteResponse
from quipu.memory.scope import reaches
from quipu.memory.service import MemoryService
from quipu.memory.views import is_secret
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.operation import Context

_PAGE, _CHUNK = 1_000, 200
_SHOWN = 200
#: What comes back comes first: what took it in goes when all of it is back.
_ORDER: tuple[Step, ...] = ("restore", "revert", "archive", "quarantine", "forget", "erase", "leave")
#: Most was done already when something fails, so each memory says for itself what became of it.
_Done = tuple[Outcome, str | None]


@dataclass(frozen=True, slots=True)
class _Case:
    last: Record
    remedy: Remedy


class UndoneImports(Protocol):
    """What has to know that an import is undone."""

    async def withdraw(self, ctx: Context, import_id: str, *, dry_run: bool) -> int:
        """Stop it, and drop what still waits of it for a person; how many memories that were, or would be."""
        ...

    async def note_undone(self, ctx: Context, import_id: str) -> None:
        """All of it is undone: the same file may come in again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Looks back, and takes back."""

    ledger: Ledger
    memory: MemoryService
    #: What reads like an instruction to a model, and the like.
    detect: Detect
    imports: UndoneImports

    async def undo(self, ctx: Context, request: UndoRequest) -> UndoResponse:
        """What there is to do; done where it is no trial."""
        scopes = self.memory.read.scopes
        stores = await scopes.stores(ctx.tenant)
        # First what would come in later than it is looked for.
        whole = _whole_import(request) if ctx.principal.is_whole else None
        withdrawn = 0
        if whole is not None:
            withdrawn = await self.imports.withdraw(ctx, whole, dry_run=request.dry_run)
        cases: list[_Case] = []
        walk = self._caused if request.has_cause else self._suspected
        is_cut = False
        async for case in walk(ctx, request, stores):
            is_cut = len(cases) == request.limit
            if is_cut:
                break
            cases.append(case)
        for agent_id in dict.fromkeys(case.last.agent_id for case in cases):
            shown = [case.last for case in cases if case.last.agent_id == agent_id]
            self.memory.read_log.read(ctx, agent_id, shown)
        done = {} if request.dry_run else await self._all_done(ctx, request, cases, stores)
        is_over = not is_cut and all(outcome in ("done", "left") for outcome, _ in done.values())
        if whole is not None and not request.dry_run and is_over:
            await self.imports.note_undone(ctx, whole)
        return UndoResponse(
            dry_run=request.dry_run,
            is_cut=is_cut,
            withdrawn=withdrawn,
            findings=tuple(_finding(case, done.get(case.last.id)) for case in cases),
        )

    # -- finding ------------------------------------------------------------------------------------------------------

    async def _caused(
        self, ctx: Context, request: UndoRequest, stores: Mapping[str, Store]
    ) -> AsyncIterator[_Case]:
        """What a cause touched, the first that was touched first."""
        touched = await self._touched(ctx.tenant, request)
        positions = {seq for seqs in touched.values() for seq in seqs}
        ids = list(touched)
        for start in range(0, len(ids), _CHUNK):
            newest = await self.ledger.newest_versions(ctx.tenant, ids[start : start + _CHUNK])
            for last in newest.values():
                if not _is_meant(last, ctx, request, stores):
                    continue
                if request.has_suspicion and suspected(last, request, self.detect) is None:
                    continue
                # What was never changed has no other version.
                versions = [last] if last.version == 1 else await self.ledger.versions(ctx.tenant, last.id)
                if (found := remedy(versions, positions, request)) is not None:
                    yield _Case(versions[-1], found)

    async def _touched(self, tenant: str, request: UndoRequest) -> dict[str, list[int]]:
        """Positions at which the cause touched each memory, in the journal's order."""
        touched: dict[str, list[int]] = {}
        query = JournalQuery(
            actor=request.principal,
            run=request.run_id,
            since=request.since,
            until=request.until,
            before=(await self.ledger.head(tenant)).seq + 1,
            limit=_PAGE,
        )
        while entries := await self.ledger.entries(tenant, query):
            for entry in entries:
                if is_caused(entry, request):
                    for mention in entry.records:
                        touched.setdefault(mention.id, []).append(entry.seq)
            query = replace(query, after=entries[-1].seq)
        return touched

    async def _suspected(
        self, ctx: Context, request: UndoRequest, stores: Mapping[str, Store]
    ) -> AsyncIterator[_Case]:
        selection = Selection(tenant=ctx.tenant, agent_id=request.agent_id)
        async for record in self.ledger.scan(selection, Snapshot(None, ctx.clock())):
            if not _is_meant(record, ctx, request, stores):
                continue
            if (found := suspected(record, request, self.detect)) is not None:
                yield _Case(record, found)

    # -- doing --------------------------------------------------------------------------------------------------------

    async def _all_done(
        self, ctx: Context, request: UndoRequest, cases: Sequence[_Case], stores: Mapping[str, Store]
    ) -> dict[str, _Done]:
        done: dict[str, _Done] = {}
        for case in sorted(cases, key=lambda case: _ORDER.index(case.remedy.step)):
            if case.last.id in done:
                continue
            if case.remedy.step == "archive":
                alike = [one for one in cases if _archived_together(one, case)]
                outcome = await _became(self._archive(ctx, request, alike))
                done.update((one.last.id, outcome) for one in alike)
            elif case.remedy.step == "leave":
                done[case.last.id] = ("left", None)
            elif _is_still_needed(case, cases, done):
                done[case.last.id] = ("failed", "sources_not_back")
            else:
                done[case.last.id] = await _became(self._carry_out(ctx, request, case, stores))
        return done

    async def _carry_out(
        self, ctx: Context, request: UndoRequest, case: _Case, stores: Mapping[str, Store]
    ) -> WriteResponse:
        last, reason = case.last, _reason(request, case)
        match case.remedy.step:
            case "restore":
                return await self.memory.forget.restore(ctx, RestoreRequest(id=last.id, reason=reason))
            case "revert":
                store, good = stores.get(last.store_id), case.remedy.good or last
                name = last.store_id if store is None else store.name
                return await self.memory.remember.remember(ctx, rewritten(good, last, name, reason))
            case step:
                asked = ForgetRequest(
                    agent_id=last.agent_id, ids=(last.id,), hard_delete=step == "erase", reason=reason
                )
                answer = await self.memory.forget.forget(ctx, asked)
                if step != "quarantine" or answer.is_held:
                    return answer
                # Out of sight, and in the queue: who approves it brings it back, who rejects it leaves it where it is.
                back = RestoreRequest(id=last.id, reason=reason, approval_required=True)
                return await self.memory.forget.restore(ctx, back)

    async def _archive(self, ctx: Context, request: UndoRequest, cases: Sequence[_Case]) -> WriteResponse:
        """In one write, because a policy looks at everything that an agent has."""
        first = cases[0]
        given: dict[str, Any] = {
            "agent_id": first.last.agent_id,
            "policy": {"type": first.last.type},
            "filter": {"id": {"$in": [case.last.id for case in cases]}},
            "action": "archive",
            "reason": _reason(request, first),
        }
        return await self.memory.expire.expire(ctx, ExpireRequest.parse(given))


def _whole_import(request: UndoRequest) -> str | None:
    """The import that is undone as a whole: nothing else narrows the request."""
    said = request.model_dump(exclude_defaults=True, exclude={"dry_run", "reason", "limit", "hard_delete"})
    return request.import_id if set(said) == {"import_id"} else None


def _is_meant(record: Record, ctx: Context, request: UndoRequest, stores: Mapping[str, Store]) -> bool:
    """What is beyond a credential's limits is as if it were not there."""
    return request.agent_id in (None, record.agent_id) and reaches(ctx.principal, record, stores)


def _archived_together(one: _Case, other: _Case) -> bool:
    return one.remedy.step == "archive" and (one.last.agent_id, one.last.type) == (
        other.last.agent_id,
        other.last.type,
    )


def _is_still_needed(case: _Case, cases: Sequence[_Case], done: Mapping[str, _Done]) -> bool:
    """Whether what it was made of was to come back and has not: then only it still says what that said."""
    if case.remedy.step not in ("forget", "erase"):
        return False
    sources = sources_of(case.last)
    return any(
        one.remedy.step == "restore" and done.get(one.last.id, ("failed", None))[0] != "done"
        for one in cases
        if one.last.merged_into == case.last.id or one.last.id in sources
    )


async def _became(work: Awaitable[WriteResponse]) -> _Done:
    """What became of it, and the proposal that it waits as or the reason why not."""
    try:
        answer = await work
    except QuipuError as error:
        return "failed", error.reason or error.code
    return ("held", answer.proposal_id) if answer.is_held else ("done", None)


def _reason(request: UndoRequest, case: _Case) -> str:
    return UNDONE + (request.reason or case.remedy.why)


def _finding(case: _Case, done: _Done | None) -> UndoFinding:
    last, found = case.last, case.remedy
    return UndoFinding(
        id=last.id,
        version=last.version,
        type=last.type,
        content="" if is_secret(last) else last.content[:_SHOWN],
        source=last.source,
        written_by=last.provenance.written_by,
        step=found.step,
        why=found.why,
        back_to=None if found.good is None else found.good.version,
        outcome=None if done is None else done[0],
        detail=None if done is None else done[1],
    )
