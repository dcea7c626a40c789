"""Forget, erase, restore: taking memories out of use and bringing them back, each as one commit."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from quipu.errors import ConflictError, NotFoundError
from quipu.ledger.commit import Change, Close, Commit, Committed, Erase
from quipu.ledger.ledger import Ledger
from quipu.memory import drafts
from quipu.memory.embedding import Embedding
from quipu.memory.model import (
    BackendResult,
    ErasureReceipt,
    ForgetRequest,
    ForgetResponse,
    RememberResponse,
    RestoreRequest,
)
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write
from quipu.memory.remember import Remember, common_store, held_answer, held_fields, placed, store_view
from quipu.memory.scope import Scopes, in_scope, predicate, reaches, scope_among, warnings_of
from quipu.model import machine
from quipu.model.journal import Draft
from quipu.model.record import Record, State
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.value import JsonObject
from quipu.operation import Context

#: An erasure also reaches what has expired: a clock at the beginning of time sees everything.
_BEGINNING = -(2**62)
_CURRENT: frozenset[State] = frozenset({"live", "archived"})
_ERASABLE: frozenset[State] = frozenset({"live", "archived", "forgotten"})
#: Warnings name so many memories.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Reached:
    """What an erasure takes along outside of the records, and ids that were found there only."""

    changes: tuple[Change, ...] = ()
    ids: tuple[str, ...] = ()


class ErasureReach(Protocol):
    """A capability that keeps words of memories: proposals that wait, and the like."""

    async def reached(
        self, tenant: str, scope: Scope, asked: Sequence[str], erased: Sequence[str]
    ) -> Reached: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Plans and carries out forgetting, erasing and restoring."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    embedding: Embedding
    remember: Remember
    reach: tuple[ErasureReach, ...] = ()

    @property
    def write(self) -> Write[ForgetRequest, ForgetResponse]:
        return Write(
            operation="forget",
            request=ForgetRequest,
            response=ForgetResponse,
            plan=self.plan,
            held=self._held,
        )

    @property
    def restore_write(self) -> Write[RestoreRequest, RememberResponse]:
        return Write(
            operation="restore",
            request=RestoreRequest,
            response=RememberResponse,
            plan=self.plan_restore,
            held=held_answer,
        )

    async def forget(self, ctx: Context, request: ForgetRequest) -> ForgetResponse:
        return await self.pipeline.write(ctx, self.write, request)

    # -- forget and erase -------------------------------------------------------------------------------------------

    async def plan(self, planning: Planning, request: ForgetRequest) -> Plan[ForgetResponse]:
        # Whatever is derived or merged after this position is a conflict, and the erasure is planned again.
        head = await self.ledger.head(planning.tenant) if request.hard_delete else None
        stores = await self.scopes.stores(planning.tenant)
        scope = scope_among(stores, planning, request.agent, request.user_id, request.store)
        records = await self._chosen(scope, request, planning.now)
        ids, changes, warnings = [record.id for record in records], list[Change](), ()
        if request.hard_delete:
            ids = await self.with_derived(planning.tenant, ids)
            for capability in self.reach:
                found = await capability.reached(planning.tenant, scope, request.ids, ids)
                ids = list(dict.fromkeys([*ids, *found.ids]))
                changes.extend(found.changes)
            warnings = await self._left_behind(planning.tenant, ids)
            changes = [*(Erase(id=record_id) for record_id in ids), *changes]
        else:
            changes = [Close(id=one.id, expects=one.version, ending="forgotten") for one in records]
        answer = ForgetResponse(
            forgotten_ids=tuple(ids),
            hard_delete=request.hard_delete,
            stores=(BackendResult(store=self.ledger.name, count=0 if request.dry_run else len(ids)),),
            not_found=tuple(name for name in request.ids if name not in set(ids)),
            warnings=warnings,
            store=common_store(records, stores),
        )
        if not ids:
            unknown = await warnings_of(self.ledger, scope, Snapshot(None, planning.now), request.filter)
            nothing = answer.model_copy(update={"warnings": unknown})
            return Plan(commits=(), answer=lambda _: nothing)
        commit = Commit(
            tenant=planning.tenant,
            draft=Draft(
                op="erase" if request.hard_delete else "forget",
                actor=planning.author,
                at=planning.now,
                store=scope.store_id,
                agent=request.agent,
                run=request.run_id,
                node=request.node_id,
            ),
            changes=tuple(changes),
            # Whatever was said about an erased memory goes with it.
            reason=None if request.hard_delete else request.reason,
            erases_as_of=None if head is None else head.seq,
        )
        return Plan(
            commits=(commit,),
            answer=lambda done: _finished(answer, done),
            before=tuple(records),
            stores=stores,
            erases=request.hard_delete,
        )

    async def _chosen(self, scope: Scope, request: ForgetRequest, now: int) -> list[Record]:
        """The named and the matching records, as far as they are in reach and still there to be removed."""
        wanted = _ERASABLE if request.hard_delete else _CURRENT
        newest = await self.ledger.newest_versions(scope.tenant, request.ids)
        chosen = {
            record.id: record
            for record in newest.values()
            if record.standing in wanted and in_scope(record, scope)
        }
        if request.filter:
            clock = _BEGINNING if request.hard_delete else now
            async for record in self.matching(scope, wanted, clock, filter=request.filter):
                chosen.setdefault(record.id, record)
        return list(chosen.values())

    async def matching(
        self, scope: Scope, states: frozenset[State], now: int, *, filter: JsonObject | None
    ) -> AsyncIterator[Record]:
        """Records of a scope that a filter fits."""
        selection = Selection(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            states=states,
            matches=predicate(filter, await self.scopes.stores(scope.tenant)),
        )
        async for record in self.ledger.scan(selection, Snapshot(None, now)):
            if in_scope(record, scope):
                yield record

    async def with_derived(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """What was made out of something that is erased says what it said, so it goes too."""
        known = dict.fromkeys(ids)
        fresh = list(known)
        while fresh:
            found = await self.ledger.derived(tenant, fresh)
            fresh = [name for name in found if name not in known]
            known.update(dict.fromkeys(fresh))
        return list(known)

    async def _left_behind(self, tenant: str, ids: Sequence[str]) -> tuple[str, ...]:
        """Where words of what is erased stay, for whoever erases it."""
        erased = frozenset(ids)
        versions = await self.ledger.newest_versions(tenant, ids)
        warnings: list[str] = []
        for record in versions.values():
            into = record.merged_into
            if into is not None and into not in erased and await self.took_words(tenant, into, record):
                warnings.append(
                    f"What {into} took from {record.id} when they were merged stays there: erase {into} too, if it is"
                    " to go."
                )
        sources = {record.id: sorted(drafts.sources_of(record) - erased) for record in versions.values()}
        wanted = sorted({name for names in sources.values() for name in names})
        there = {
            name
            for name, one in (await self.ledger.newest_versions(tenant, wanted)).items()
            if not one.is_emptied
        }
        for record_id, names in sources.items():
            if left := [name for name in names if name in there]:
                others = " and others" if len(left) > _MOST_NAMED else ""
                warnings.append(
                    f"{record_id} was made out of {', '.join(left[:_MOST_NAMED])}{others}, and what that says stays:"
                    " erase it too, if it is to go."
                )
        return tuple(warnings)

    async def took_words(self, tenant: str, into: str, duplicate: Record) -> bool:
        """Whether a memory still says what a merge gave it of a duplicate."""
        versions = await self.ledger.versions(tenant, into)
        if not versions or versions[-1].state == "erased":
            return False
        before: Record | None = None
        for version in versions:
            if version.born == duplicate.died:
                if before is not None and (before.is_emptied or version.is_emptied):
                    # Retention has emptied what the merge did: what is left says so.
                    return bool(duplicate.content) and any(
                        duplicate.content in one.content for one in versions
                    )
                return before is None or _said(before) != _said(version)
            before = version
        return False

    def _held(self, request: ForgetRequest, held: Held) -> ForgetResponse:
        return ForgetResponse(
            forgotten_ids=(),
            hard_delete=request.hard_delete,
            **held_fields(held),
        )

    # -- restore ----------------------------------------------------------------------------------------------------

    async def restore(self, ctx: Context, request: RestoreRequest) -> RememberResponse:
        record = await self._forgotten(ctx.tenant, request.id, ctx.clock())
        if not reaches(ctx.principal, record, await self.scopes.stores(ctx.tenant)):
            raise _not_restorable()
        return await self.pipeline.write(ctx, self.restore_write, request)

    async def plan_restore(self, planning: Planning, request: RestoreRequest) -> Plan[RememberResponse]:
        last = await self._forgotten(planning.tenant, request.id, planning.now)
        if last.type == "procedural":
            machine.stored(last.content)  # what would be refused now does not come back
        record = drafts.revived(last, planning)
        put = replace(self.remember.put(planning.tenant, record, None), expects=last.version)
        if last.state == "live":
            put = replace(put, keeps_index=True)
        else:
            (vector,) = await self.embedding.of_records(planning.tenant, [record], [None])
            put = replace(put, vector=vector)
        store = (await self.scopes.stores(planning.tenant)).get(record.store_id)
        answer = RememberResponse(
            id=record.id,
            stored_at=planning.now,
            stores=(self.ledger.name,),
            version=record.version,
            outcome="updated",
            store=None if store is None else store_view(store),
        )
        draft = Draft(
            op="restore", actor=planning.author, at=planning.now, store=record.store_id, agent=record.agent_id
        )
        commit = Commit(tenant=planning.tenant, draft=draft, changes=(put,), reason=request.reason)
        return Plan(
            commits=(commit,), answer=lambda done: placed(answer, done), before=(last,), after=(record,)
        )

    async def _forgotten(self, tenant: str, record_id: str, now: int) -> Record:
        """The last version of something that can come back."""
        last = (await self.ledger.newest_versions(tenant, [record_id])).get(record_id)
        if last is None or last.standing == "erased":
            raise _not_restorable()
        if last.is_expired(now):  # it would come back to be seen by nobody
            raise _not_restorable("Its time is over: it has expired.")
        marks = await self.ledger.marks(tenant, [record_id])
        is_demoted = record_id in marks and marks[record_id].is_demoted
        if last.standing == "live" and not is_demoted:
            raise ConflictError("The memory is live; there is nothing to restore.", reason="not_forgotten")
        return last


def _said(record: Record) -> object:
    return record.content, record.metadata, record.tags, record.details


def _finished(answer: ForgetResponse, done: Sequence[Committed]) -> ForgetResponse:
    if not done:
        return answer
    receipt = ErasureReceipt(seq=done[-1].seq, at=done[-1].at, erased=len(answer.forgotten_ids))
    return answer.model_copy(update={"seq": done[-1].seq, "receipt": receipt if answer.hard_delete else None})


def _not_restorable(hint: str | None = None) -> NotFoundError:
    return NotFoundError("There is no such memory to restore.", reason="record", hint=hint)
