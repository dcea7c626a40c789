"""The memory adapter: list, get, put and delete by memoryRef.

1. Bound to a run, a read sees the position that the run saw when it began, whatever has happened since, and whoever
   did it. Expiry and erasure are the only things that reach into it.
2. Bound to the host, it sees what is there now.
3. Writes are what every write is: checked for secrets, governed, and told in the run's log with the entry itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import Commit
from quipu.model.journal import Draft, Mention, Op
from quipu.model.operations import Floor, ForgetRequest, RecallRequest, RememberRequest
from quipu.model.outcomes import ForgetResponse, RecallResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record, State
from quipu.model.runs import KeepRef, MintedRef, Run
from quipu.model.search import Scope, Snapshot
from quipu.model.store import MAIN
from quipu.ports.parts import Parts
from quipu.rules import moments, runs_refs, runs_states, runs_wire
from quipu.rules.reach import in_reach
from quipu.rules.runs_options import ListOptions, NewEntry, size, within_budget
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.notes import ReadNotes
from quipu.service.runs_entering import Entering

Recall: TypeAlias = Callable[[Principal, RecallRequest], Awaitable[RecallResponse]]
Forget: TypeAlias = Callable[[Principal, ForgetRequest], Awaitable[ForgetResponse]]


@dataclass(frozen=True, slots=True)
class Place:
    """What a ref stands for."""

    ref: str
    agent_id: str
    #: None: wherever the agent keeps its memory.
    store_id: str | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """An entry as it was kept, and whether it is the answer to a repeated request."""

    record: Record
    is_replayed: bool = False


class RunMemory:
    """Entries of every tenant, by ref."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        entering: Entering,
        notes: ReadNotes,
        budgets: Budgets,
        recall: Recall,
        forget: Forget,
    ) -> None:
        self._parts, self._access, self._entering = parts, access, entering
        self._notes, self._budgets = notes, budgets
        self._recall, self._forget = recall, forget

    # -- refs ---------------------------------------------------------------------------------------------------

    async def mint(self, principal: Principal, agent_id: str, store: str = MAIN) -> MintedRef:
        """The ref of an agent's memory in a store: always the same one."""
        self._access.authorise(principal, Permission.WRITE, agent_id)
        kept = await self._access.store(principal.tenant, store)
        known = await self._parts.ledger.ref_minted_for(principal.tenant, agent_id, kept.id)
        if known is not None:
            return known
        await self._entering.check_names(principal.tenant, {"/agentId": agent_id})
        now = self._parts.clock()
        minted = MintedRef(
            tenant=principal.tenant,
            ref=self._parts.mint_id("mem"),
            agent_id=agent_id,
            store_id=kept.id,
            created_at=now,
        )
        draft = Draft(op=Op.KEEP_REF, actor=principal.name, at=now, store=kept.id, agent=agent_id)
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(KeepRef(ref=minted),))
        await self._parts.ledger.commit(commit)
        # Of two at once the first one stays.
        return await self._parts.ledger.ref_minted_for(principal.tenant, agent_id, kept.id) or minted

    async def place(self, principal: Principal, ref: object, permission: Permission) -> Place | None:
        """What a ref stands for; None where it is no ref at all."""
        if not runs_refs.is_wellformed(ref):
            self._access.authorise(principal, permission)
            return None
        name = str(ref)
        if not runs_refs.is_minted(name):
            self._access.authorise(principal, permission, name)
            return Place(name, name)
        minted = await self._parts.ledger.minted_ref(principal.tenant, name)
        if minted is None:
            raise runs_refs.foreign()
        self._access.authorise(principal, permission, minted.agent_id)
        return Place(name, minted.agent_id, minted.store_id)

    def _scope(self, principal: Principal, place: Place) -> Scope:
        self._access.authorise_whole(principal)
        return Scope(
            tenant=principal.tenant,
            agent_id=place.agent_id,
            user_id=principal.user_id,
            store_id=place.store_id,
            reader=place.agent_id,
        )

    def _snapshot(self, run: Run | None) -> Snapshot:
        """What a reader sees: a run what it saw at its start, everybody else what is there now."""
        now = self._parts.clock()
        if run is None or run.view is None:
            return Snapshot(None, now)
        return Snapshot(run.view.seq, runs_states.expiry_clock(run, now))

    async def _check_horizon(self, tenant: str, snapshot: Snapshot) -> None:
        """Nothing was found: is that because what was there then has been pruned?"""
        if snapshot.seq is not None:
            moments.checked_position(snapshot.seq, await self._parts.ledger.head(tenant), "/runId")

    # -- reading ------------------------------------------------------------------------------------------------

    async def list(
        self, principal: Principal, ref: object, options: ListOptions, run: Run | None = None
    ) -> list[Record]:
        """Entries, the newest first or the most relevant first, as far as the budget goes."""
        place = await self.place(principal, ref, Permission.READ)
        if place is None:
            return []
        self._budgets.check_recall(principal, place.agent_id)
        snapshot = self._snapshot(run)
        if options.query is None:
            found = await self._parts.ledger.newest_entries(
                self._scope(principal, place),
                snapshot,
                until=None if run is None or run.view is None else run.view.at,
                tag=options.tag,
                limit=options.limit,
            )
            if not found:
                await self._check_horizon(principal.tenant, snapshot)
        else:
            found = await self._relevant(principal, place, options, snapshot, run)
        kept = within_budget(found, [size(record.content) for record in found], options.token_budget)
        self._note(principal, place, kept, run)
        return kept

    async def _relevant(
        self,
        principal: Principal,
        place: Place,
        options: ListOptions,
        snapshot: Snapshot,
        run: Run | None,
    ) -> Sequence[Record]:
        """What is visible is chosen before anything is ranked, by the same recall that everybody uses."""
        request = RecallRequest(
            agent_id=place.agent_id,
            user_id=principal.user_id,
            query=options.query or "",
            k=options.limit,
            store=place.store_id,
            min_relevance=Floor.OFF,
            filter=None if options.tag is None else {"tags": options.tag},
            as_of=None if run is None else run.id,
        )
        answer = await self._recall(principal, request)
        ids = [hit.id for hit in answer.results]
        found = await self._parts.ledger.read(principal.tenant, ids, snapshot.seq)
        seen = [found[name] for name in ids if name in found]
        return [record for record in seen if _is_visible(record, snapshot)]

    async def get(
        self, principal: Principal, ref: object, entry_id: object, run: Run | None = None
    ) -> Record | None:
        """One entry, if a list would have it."""
        place = await self.place(principal, ref, Permission.READ)
        if place is None or not isinstance(entry_id, str):
            return None
        self._budgets.check_recall(principal, place.agent_id)
        snapshot = self._snapshot(run)
        found = await self._entry(principal, place, entry_id, snapshot)
        if found is None:
            await self._check_horizon(principal.tenant, snapshot)
        else:
            self._note(principal, place, [found], run)
        return found

    async def _entry(
        self, principal: Principal, place: Place, entry_id: str, snapshot: Snapshot
    ) -> Record | None:
        if not is_keepable(entry_id):
            return None
        # An entry whose writer chose its id is kept under one that follows from it.
        names = [entry_id, runs_refs.derived_id(place.ref, entry_id)]
        found = await self._parts.ledger.read(principal.tenant, names, snapshot.seq)
        scope = self._scope(principal, place)
        for record in found.values():
            is_it = runs_wire.entry_id(record) == entry_id and in_reach(record, scope)
            if is_it and _is_visible(record, snapshot):
                return record
        return None

    def _note(self, principal: Principal, place: Place, records: Sequence[Record], run: Run | None) -> None:
        draft = Draft(
            op=Op.READ,
            actor=principal.name,
            at=self._parts.clock(),
            agent=place.agent_id,
            run=None if run is None else run.id,
        )
        mentions = [Mention(record.id, record.version, record.digest) for record in records]
        self._notes.add(principal.tenant, draft, mentions, is_recall=False)
        self._budgets.charge_recall(principal, place.agent_id, len(records))

    # -- writing ------------------------------------------------------------------------------------------------

    async def put(
        self,
        principal: Principal,
        ref: object,
        entry: NewEntry,
        *,
        run: Run | None = None,
        node_id: str | None = None,
        record_id: str | None = None,
        replaces: Record | None = None,
    ) -> Record:
        """Keep an entry, or say one anew; what is returned is what was kept."""
        entered = await self.entered(
            principal, ref, entry, run=run, node_id=node_id, record_id=record_id, replaces=replaces
        )
        return entered.record

    async def entered(
        self,
        principal: Principal,
        ref: object,
        entry: NewEntry,
        *,
        run: Run | None = None,
        node_id: str | None = None,
        record_id: str | None = None,
        replaces: Record | None = None,
        key: str | None = None,
    ) -> Entered:
        """The same, for whoever may ask twice: the same key and entry give what was kept first, as it was kept."""
        place = await self.place(principal, ref, Permission.WRITE)
        if place is None:
            raise runs_refs.malformed()
        request = RememberRequest(
            agent_id=place.agent_id,
            type=MemoryType.SEMANTIC,
            content=entry.content,
            tags=entry.tags,
            expires_at=entry.expires_at,
            store=place.store_id or MAIN,
            run_id=None if run is None else run.id,
            node_id=node_id,
            memory_ref=place.ref,
            id=None if replaces is None else replaces.id,
            if_version=None if replaces is None else replaces.version,
            idempotency_key=key,
        )
        answer = await self._entering.put(principal, request, record_id=record_id)
        if answer.pending_approval:
            raise ConflictError(
                "The entry waits for approval.",
                reason="pending_approval",
                hint="It is written once somebody approves it.",
            )
        seq = answer.extensions["seq"] if answer.is_replayed else None
        found = await self._parts.ledger.read(
            principal.tenant, [answer.id], seq if isinstance(seq, int) else None
        )
        if answer.id not in found:  # written with this key, deleted since, and pruned
            raise NotFoundError("The entry that was written with this key is gone.", reason="record")
        return Entered(found[answer.id], answer.is_replayed)

    async def delete(self, principal: Principal, ref: object, entry_id: object) -> bool:
        """Whether there was such an entry, and it is deleted now: for everybody but runs that began before."""
        place = await self.place(principal, ref, Permission.DELETE)
        if place is None or not isinstance(entry_id, str):
            return False
        record = await self._entry(principal, place, entry_id, Snapshot(None, self._parts.clock()))
        if record is None:
            return False
        request = ForgetRequest(agent_id=place.agent_id, ids=(record.id,), store=place.store_id)
        answer = await self._forget(principal, request)
        if answer.pending_approval:
            raise ConflictError("The deletion waits for approval.", reason="pending_approval")
        return record.id in answer.forgotten_ids


def _is_visible(record: Record, snapshot: Snapshot) -> bool:
    """Live then, not expired now, and not erased since."""
    state = record.standing if snapshot.seq is None or record.is_emptied else record.state
    return state is State.LIVE and not record.expired(snapshot.now)
