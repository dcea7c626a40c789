"""The memory adapter of OpenWOP: list, get, put and delete by memoryRef.

1. A read that names a run sees the position that the run saw when it began, whatever was written since, by itself too.
   Expiry and erasure alone reach into it.
2. A read that names no run sees what is there now.
3. A write is a write like any other, and goes through the one pipeline.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError, Fault, InvalidError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.forget import Forget
from quipu.memory.model import ForgetRequest, RememberRequest, RememberResponse
from quipu.memory.pipeline import PASSING, Pipeline, Plan, Planning, naming
from quipu.memory.read_log import ReadLog, RecallBudget
from quipu.memory.remember import Remember
from quipu.memory.scope import Scopes, in_scope
from quipu.memory.snapshots import Snapshots
from quipu.memory.views import is_secret
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.search import Scope, Snapshot
from quipu.operation import Context, invalid
from quipu.runs import messages as m
from quipu.runs.attribution import MEMORY_REF
from quipu.runs.lookup import RunLookup, entry_view
from quipu.runs.model import MEMORY_REFS, MemoryRef, Run
from quipu.runs.rules import (
    ENTRY_BYTES,
    RunOverError,
    foreign_ref,
    is_minted,
    is_reserved,
    is_wellformed,
    malformed_ref,
    minted_ref,
    reserved,
)
from quipu.runs.steps import first_answer, once_for

_DEFAULT, _MOST = 100, 500


@dataclass(frozen=True, slots=True)
class Place:
    """What a ref stands for: an agent's memory, perhaps in one store only."""

    ref: str
    agent_id: str
    store_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Entries by ref."""

    ledger: Ledger
    lookup: RunLookup
    pipeline: Pipeline
    remember: Remember
    forget: Forget
    scopes: Scopes
    snapshots: Snapshots
    read_log: ReadLog
    budget: RecallBudget

    # -- refs ---------------------------------------------------------------------------------------------------------

    async def mint(self, ctx: Context, request: m.MintMemoryRefRequest) -> m.MemoryRefView:
        """Always the same one for an agent and a store, so that it does not matter who asks first."""
        once = once_for(ctx.principal, "mint_memory_ref", request)
        while True:
            if (
                first := await first_answer(self.ledger, ctx, once)
            ) is not None and first.replayed is not None:
                return m.MemoryRefView(memory_ref=str(first.replayed["memory_ref"]), replayed=True)
            guard = await self.pipeline.redactor.guard(ctx.tenant, None)
            guard.clean(request)
            store = await self.scopes.store(ctx.principal, request.store)
            ref, now = minted_ref(ctx.tenant, request.agent, store.id), ctx.clock()
            is_there = await self.ledger.get(MEMORY_REFS, ctx.tenant, ref) is not None
            if is_there and once is None:
                return m.MemoryRefView(memory_ref=ref)
            kept = MemoryRef(ref=ref, agent_id=request.agent, store_id=store.id, created_at=now)
            commit = Commit(
                tenant=ctx.tenant,
                draft=Draft(
                    op="mint_memory_ref",
                    actor=ctx.principal.name,
                    at=now,
                    store=store.id,
                    agent=request.agent,
                ),
                changes=() if is_there else (Keep(MEMORY_REFS, kept, 0),),
                once=once and replace(once, answer={"memory_ref": ref}),
            )
            try:
                (done,) = await self.ledger.commit(commit, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason not in PASSING:
                    raise
            else:
                return m.MemoryRefView(memory_ref=ref, replayed=done.replayed is not None)

    async def _place(self, ctx: Context, ref: str) -> Place | None:
        """What a ref stands for; None where it is no ref at all."""
        if not is_wellformed(ref):
            return None
        place: Place | None = Place(ref, ref)
        if is_minted(ref):
            minted = await self.ledger.get(MEMORY_REFS, ctx.tenant, ref)
            stores = await self.scopes.stores(ctx.tenant)
            store = None if minted is None else stores.get(minted.store_id)
            is_reached = store is not None and ctx.principal.reaches_store(store.name)
            place = (
                Place(ref, minted.agent_id, minted.store_id) if minted is not None and is_reached else None
            )
        if place is None or not ctx.principal.may_act_for(place.agent_id):
            raise foreign_ref()
        return place

    async def scope(self, ctx: Context, place: Place, run: Run | None) -> Scope:
        user_id = ctx.principal.user_id or (None if run is None else run.user_id)
        scope = await self.scopes.of(ctx.principal, place.agent_id, user_id)
        return replace(scope, store_id=place.store_id)

    async def _run(self, ctx: Context, run_id: str | None) -> Run | None:
        return None if run_id is None else await self.lookup.found(ctx, run_id)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def list_entries(self, ctx: Context, request: m.ListEntriesRequest) -> m.ListEntriesResponse:
        run = await self._run(ctx, request.run_id)
        place = await self._place(ctx, request.memory_ref)
        below, tag = None if request.cursor is None else _read_cursor(request.cursor), request.options.tag
        if place is None:
            return m.ListEntriesResponse(entries=())
        limit = min(request.options.limit or _DEFAULT, _MOST)
        scope, snapshot = await self.scope(ctx, place, run), await self.snapshots.of(ctx, request.run_id)
        async with self.budget.reserved(ctx, place.agent_id, limit) as allowed:
            page: list[Record] = []
            last: Record | None = None
            async for record in self.ledger.newest(scope, snapshot, below):
                if (tag is None or tag in record.tags) and may_see(ctx, record):
                    if len(page) == allowed.count:
                        last = page[-1] if page else None
                        break
                    page.append(record)
            allowed.spend(len(page))
        if page:
            self.read_log.read(ctx, place.agent_id, page)
        return m.ListEntriesResponse(
            entries=tuple(entry_view(record) for record in page),
            next_cursor=None if last is None else f"{last.created_at}.{last.born}.{last.id}",
        )

    async def get_entry(self, ctx: Context, request: m.GetEntryRequest) -> m.GetEntryResponse:
        run = await self._run(ctx, request.run_id)
        place = await self._place(ctx, request.memory_ref)
        if place is None:
            return m.GetEntryResponse(entry=None)
        record = await self._found(ctx, place, request.id, run, await self.snapshots.of(ctx, request.run_id))
        if record is None:
            return m.GetEntryResponse(entry=None)
        async with self.budget.reserved(ctx, place.agent_id, 1) as allowed:
            allowed.spend(1)
        self.read_log.read(ctx, place.agent_id, [record])
        return m.GetEntryResponse(entry=entry_view(record))

    async def _found(
        self, ctx: Context, place: Place, entry_id: str, run: Run | None, snapshot: Snapshot
    ) -> Record | None:
        """An entry, if a list would have it."""
        scope = await self.scope(ctx, place, run)
        record = (await self.ledger.records(ctx.tenant, [entry_id], snapshot.seq)).get(entry_id)
        return record if record is not None and is_entry(ctx, record, scope, snapshot.now) else None

    # -- writing ------------------------------------------------------------------------------------------------------

    async def put_entry(self, ctx: Context, request: m.PutEntryRequest) -> m.PutEntryResponse:
        once = once_for(ctx.principal, "put_entry", request)
        run = await self._run(ctx, request.run_id)
        place = await self._place(ctx, request.memory_ref)
        if place is None:
            raise malformed_ref()
        if is_reserved(place.agent_id):
            raise reserved()
        if once is not None and (first := await self.pipeline.first_answer(ctx, self.remember.write, once)):
            return await self._as_first(ctx, first)
        _check_going_on(run)
        asked = _remembered(ctx, place, run, request)
        kept: list[Record] = []

        async def plan(planning: Planning, request: RememberRequest) -> Plan[RememberResponse]:
            planned = await self.remember.plan(planning, request)
            kept[:] = planned.after[:1]
            if place.ref == place.agent_id:
                return planned
            return replace(planned, commits=naming(planned.commits, MEMORY_REF, place.ref))

        try:
            answer = await self.pipeline.write(ctx, replace(self.remember.write, plan=plan), asked, once=once)
        except InvalidError as error:
            raise _in_entry(error) from error
        if answer.replayed:
            return await self._as_first(ctx, answer)
        return _held_or(answer, None if answer.pending_approval else kept[0])

    async def _as_first(self, ctx: Context, first: RememberResponse) -> m.PutEntryResponse:
        """What an equal request wrote, as it was then."""
        ids = () if first.pending_approval else (first.id,)
        record = (await self.ledger.records(ctx.tenant, ids, first.seq)).get(first.id)
        shown = None if record is None or record.is_emptied else record
        return _held_or(first, shown).model_copy(update={"replayed": True})

    async def delete_entry(self, ctx: Context, request: m.DeleteEntryRequest) -> m.DeleteEntryResponse:
        once = once_for(ctx.principal, "delete_entry", request)
        run = await self._run(ctx, request.run_id)
        place = await self._place(ctx, request.memory_ref)
        if place is None:
            return m.DeleteEntryResponse(deleted=False)
        if is_reserved(place.agent_id):
            raise reserved()
        if once is not None and (first := await self.pipeline.first_answer(ctx, self.forget.write, once)):
            return _deletion(first).model_copy(update={"replayed": True})
        _check_going_on(run)
        record = await self._found(ctx, place, request.id, run, Snapshot(None, ctx.clock()))
        if record is None:
            return m.DeleteEntryResponse(deleted=False)
        asked = ForgetRequest(
            agent_id=place.agent_id,
            user_id=record.user_id,
            ids=(record.id,),
            run_id=request.run_id,
            node_id=request.node_id,
            idempotency_key=request.idempotency_key,
        )
        return _deletion(await self.pipeline.write(ctx, self.forget.write, asked, once=once))


def _check_going_on(run: Run | None) -> None:
    if run is not None and run.is_over:
        raise RunOverError(run)


def _remembered(ctx: Context, place: Place, run: Run | None, request: m.PutEntryRequest) -> RememberRequest:
    """The memory that an entry is."""
    entry, now = request.entry, ctx.clock()
    if len(entry.content.encode("utf-8", "surrogatepass")) > ENTRY_BYTES:
        raise invalid([Fault("/entry/content", "too_large", f"at most {ENTRY_BYTES:,} bytes")])
    if isinstance(entry.expires_at, int) and entry.expires_at <= now:
        raise invalid([Fault("/entry/expires_at", "bad_value", "a moment that has not passed")])
    given: dict[str, Any] = {
        "agent_id": place.agent_id,
        "user_id": ctx.principal.user_id or (None if run is None else run.user_id),
        "content": entry.content,
        "tags": tuple(tag for tag in entry.tags if tag),
        "expires_at": entry.expires_at,
        "run_id": request.run_id,
        "node_id": request.node_id,
        "idempotency_key": request.idempotency_key,  # it is kept, so it is looked at too
    }
    store = {} if place.store_id is None else {"store": place.store_id}
    try:
        return RememberRequest.parse({**{k: v for k, v in given.items() if v is not None}, **store})
    except InvalidError as error:
        raise _in_entry(error) from error


def _in_entry(error: InvalidError) -> InvalidError:
    """The error with the places that the caller knows."""
    names = ("/content", "/tags", "/expires_at")
    error.faults = tuple(
        replace(fault, pointer=f"/entry{fault.pointer}") if fault.pointer.startswith(names) else fault
        for fault in error.faults
    )
    return error


def _held_or(answer: RememberResponse, record: Record | None) -> m.PutEntryResponse:
    if not answer.pending_approval:
        return m.PutEntryResponse(entry=None if record is None else entry_view(record))
    return m.PutEntryResponse(held=_held(answer))


def _deletion(answer: Any) -> m.DeleteEntryResponse:
    if answer.pending_approval:
        return m.DeleteEntryResponse(deleted=False, held=_held(answer))
    return m.DeleteEntryResponse(deleted=bool(answer.forgotten_ids))


def _held(answer: Any) -> m.HeldEntry:
    return m.HeldEntry(proposal_id=answer.proposal_id or "", approval_url=answer.approval_url)


def is_entry(ctx: Context, record: Record, scope: Scope, now: int) -> bool:
    """Whether a list of this scope would have it."""
    is_there = not record.is_emptied and record.state == "live" and not record.is_expired(now)
    return is_there and in_scope(record, scope) and may_see(ctx, record)


def may_see(ctx: Context, record: Record) -> bool:
    return not is_secret(record) or ctx.principal.may(Permission.ADMIN)


def _read_cursor(cursor: str) -> tuple[int, int, str]:
    """Behind which entry a page begins: when that was created, where it was born, and its id."""
    found = re.fullmatch(r"([0-9]{1,18})\.([0-9]{1,18})\.([!-~]+)", cursor)
    if found is None:
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")])
    return int(found[1]), int(found[2]), found[3]
