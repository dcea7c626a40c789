"""Erasure on request, everywhere: here, in every index and log, and at everybody who was ever shown it.

1. Here it is one transaction: content, vectors, search terms and salts go, the logs of the items end, and it is noted whom to
   tell. It is done or it is not; a crash leaves nothing half done.
2. Who is to be told is asked in that transaction, in which nobody discloses: an answer that was being made meanwhile stands
   in it already, or finds the items gone.
3. Telling goes on until everybody has answered, whatever server does it; there is one Deletion Receipt. Who has no address
   is told with the answer to their next query.
4. Memories that were erased in another way (a hard forget, a deleted store) are found along the journal, and their grantees
   told all the same.
5. An erasure is noted beside the keys too: where an older ledger is put in place, what it has of it is erased again.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from quipu.errors import ConflictError, NotFoundError
from quipu.ledger.commit import Change, Commit, Drop, Erase, Keep
from quipu.ledger.reader import JournalQuery, Kept, Reader
from quipu.memory.forget import Forget
from quipu.memory.pipeline import PASSING, Pipeline
from quipu.model.journal import Draft
from quipu.model.record import Record, State
from quipu.model.search import Scope, Selection, Snapshot
from quipu.operation import Context, Request
from quipu.sharing import messages as m
from quipu.sharing import receipts
from quipu.sharing.cascade import Cascade
from quipu.sharing.grants import item_log
from quipu.sharing.grants.filters import ItemFilter, admits
from quipu.sharing.host import Host, check_guard, every, kept
from quipu.sharing.items import DEFAULT_SCOPE, item_id, item_of, scope_of
from quipu.sharing.model import (
    CASCADE_STEPS,
    ERASURES,
    GRANTS,
    ITEM_LOG,
    SHARED_ITEMS,
    CascadeStep,
    Erasure,
    SharedItem,
)

#: Who tells of an erasure that nobody asked for here.
_ITSELF = "system"
#: Entries that erase memories.
_ERASING = ("erase", "delete_store")
_ERASABLE: frozenset[State] = frozenset({"live", "archived", "forgotten"})
#: An erasure also reaches what has expired: a clock at the beginning of time sees everything.
_EVER = Snapshot(None, -(2**62))
_MOST_ATTEMPTS = 64
_PAGE = 500


class _ByContent(Request):
    """What memories must be like."""

    filter: ItemFilter | None = None


class HeldWrites(Protocol):
    """Writes that wait for a person, and those that were kept after a decision."""

    async def emptied(
        self, tenant: str, is_meant: Callable[[Mapping[str, Any]], bool], gone: Collection[str]
    ) -> list[Change]: ...


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What goes."""

    ids: list[str]
    #: H of the sorted ids that others know them by.
    digest: str
    #: What goes beside the memories: words of theirs in writes that wait, and in runs.
    changes: Sequence[Change] = ()


@dataclass(slots=True, kw_only=True)
class Erasures:
    """Erases for good, tells of it, and proves it."""

    host: Host
    pipeline: Pipeline
    forget: Forget
    held: HeldWrites
    cascade: Cascade
    #: Erasures whose grantees are being notified right now: the background job leaves these alone.
    _at_work: set[str] = field(default_factory=set[str], init=False)
    #: Up to where in an owner's journal erasures were followed.
    _followed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    #: Owners whose notes of erasures were held against the ledger.
    _looked_at: set[str] = field(default_factory=set[str], init=False)

    async def erase(self, ctx: Context, request: m.EraseRequest) -> m.EraseResponse:
        """Erase what is chosen; it returns when it is gone here, and everybody who can be reached was told."""
        if request.dry_run:
            chosen = await self._chosen(ctx.tenant, request)
            return m.EraseResponse(ids=tuple(chosen.ids), erased=0, dry_run=True)
        erasure = await self._erased(ctx.tenant, ctx.principal.name, request, self.host.new_id("era"))
        ids = tuple(str(name) for name in erasure.request["ids"])
        ctx.facts.record_ids = ids
        erasure = await self._propagated(ctx.tenant, erasure)
        view = await self._view(ctx.tenant, erasure)
        return m.EraseResponse(ids=ids, erased=len(ids), dry_run=False, erasure=view)

    async def listed(self, ctx: Context, request: m.ListErasuresRequest) -> m.ListErasuresResponse:
        after = None if request.cursor is None else (request.cursor,)
        rows = await self.host.ledger.page(
            ERASURES, ctx.tenant, after=after, limit=request.limit + 1, newest_first=True
        )
        page = rows[: request.limit]
        return m.ListErasuresResponse(
            erasures=tuple([await self._view(ctx.tenant, row) for row in page]),
            next_cursor=page[-1].id if len(rows) > len(page) else None,
        )

    async def _view(self, tenant: str, erasure: Erasure) -> m.ErasureView:
        steps = await self._steps(tenant, erasure)
        return m.ErasureView(
            id=erasure.id,
            step=erasure.step,
            reason=erasure.request["reason"],
            erased=len(erasure.request["ids"]),
            requested_at=erasure.requested_at,
            completed_at=erasure.completed_at,
            receipt=None if erasure.receipt is None else dict(erasure.receipt),
            report=self.cascade.report(erasure, steps),
            grantees=tuple(_told(step) for step in steps),
        )

    async def _steps(self, tenant: str, erasure: Erasure) -> list[CascadeStep]:
        rows = await self.host.ledger.read(tenant, lambda reader: _steps(reader, erasure.id))
        return [row.value for row in rows]

    # -- what goes ----------------------------------------------------------------------------------------------------

    async def _chosen(self, tenant: str, wanted: m.EraseRequest) -> _Chosen:
        """Everything that an erasure takes along, as things stand: what is asked for, what was made out of it, and what
        waits with its words."""
        ids = await self._with_made_of(tenant, await self._meant(tenant, wanted))
        scope = Scope(tenant=tenant, agent_id=None)
        changes: list[Change] = []
        for capability in self.forget.reach:
            found = await capability.reached(tenant, scope, wanted.ids or (), ids)
            ids = list(dict.fromkeys([*ids, *found.ids]))
            changes += found.changes
        newest_versions = self.host.ledger.newest_versions
        if wanted.ids is not None and not ids and not await newest_versions(tenant, wanted.ids):
            raise NotFoundError("There are no such memories.", reason="record")
        if wanted.all or (wanted.scope_id is not None and wanted.filter is None):
            changes += await self.held.emptied(tenant, _of_scope(wanted.scope_id), frozenset(ids))
        newest = await newest_versions(tenant, ids)
        names = [item_id(newest[name]) if name in newest else name for name in ids]
        return _Chosen(ids, receipts.hashed(sorted(names)), _once(changes))

    async def _meant(self, tenant: str, wanted: m.EraseRequest) -> list[str]:
        """The memories that are asked for."""
        if wanted.ids is not None:
            return await self._named(tenant, wanted.ids)
        if wanted.grant_id is not None:
            return await self._shown_under(tenant, wanted.grant_id)
        owner, by = self.host.keyring.did(tenant), _ByContent.parse({"filter": wanted.filter}).filter
        return [
            record.id
            async for record in self._everything(tenant)
            if (wanted.scope_id is None or scope_of(record) == wanted.scope_id)
            and (by is None or admits(by, item_of(record, owner)))
        ]

    async def _named(self, tenant: str, names: Sequence[str]) -> list[str]:
        """By their own ids, and by those that they came with from elsewhere."""
        newest = await self.host.ledger.newest_versions(tenant, names)
        ids = [name for name in names if name in newest and newest[name].standing in _ERASABLE]
        foreign = frozenset(name for name in names if name not in newest)
        if foreign:

            def is_one(record: Record) -> bool:
                return record.metadata.get("item_id") in foreign

            ids += [record.id async for record in self._everything(tenant, is_one)]
        return list(dict.fromkeys(ids))

    async def _shown_under(self, tenant: str, grant_id: str) -> list[str]:
        ledger = self.host.ledger
        if await ledger.get(GRANTS, tenant, grant_id) is None:
            raise NotFoundError("There is no such grant.", reason="grant")
        shown = await ledger.read(
            tenant,
            lambda reader: [
                row.value.record_id for row in every(reader, SHARED_ITEMS, {"grant_id": grant_id})
            ],
        )
        found: list[str] = []
        for names in _pages(shown):
            newest = await ledger.newest_versions(tenant, names)
            found += [record.id for record in newest.values() if record.standing in _ERASABLE]
        return found

    def _everything(
        self, tenant: str, is_one: Callable[[Record], bool] | None = None
    ) -> AsyncIterator[Record]:
        return self.host.ledger.scan(Selection(tenant=tenant, states=_ERASABLE, matches=is_one), _EVER)

    async def _with_made_of(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """These, what says that it was made out of them, and what took words of theirs in a merge."""
        known = dict.fromkeys(ids)
        fresh = list(known)
        while fresh:
            made = list(await self.host.ledger.made_of(tenant, fresh))
            for gone in (await self.host.ledger.newest_versions(tenant, fresh)).values():
                into = gone.merged_into
                if into is not None and await self.forget.took_words(tenant, into, gone):
                    made.append(into)
            fresh = [name for name in dict.fromkeys(made) if name not in known]
            known.update(dict.fromkeys(fresh))
        return list(known)

    # -- here ---------------------------------------------------------------------------------------------------------

    async def _erased(self, tenant: str, actor: str, request: m.EraseRequest, name: str) -> Erasure:
        """The erasure of this id as it is noted, with everything gone."""
        host = self.host
        for _ in range(_MOST_ATTEMPTS):
            guard = await host.redactor.guard(tenant, None)
            clean = guard.clean(request)
            # Whatever is derived or merged after this position is a conflict, and it is looked for again.
            head = await host.ledger.head(tenant)
            chosen = await self._chosen(tenant, clean)
            erasure = self._erasure(name, chosen, clean)
            draft = Draft(op="erase", actor=actor, at=erasure.requested_at, detail={"erasure": name})
            erases = (Erase(id=name) for name in chosen.ids)
            commit = Commit(
                tenant=tenant, draft=draft, changes=(*erases, *chosen.changes), erases_as_of=head.seq
            )
            (commit,) = await self.pipeline.with_mirrors(tenant, [commit])

            def work(reader: Reader) -> tuple[Erasure, Sequence[Commit]]:
                check_guard(reader, guard)  # noqa: B023  used in this turn only
                noted = self._noted(reader, erasure)  # noqa: B023
                return erasure, [replace(commit, changes=(*commit.changes, *noted))]  # noqa: B023

            try:
                done = await host.ledger.locked(tenant, work)
            except ConflictError as conflict:
                if conflict.reason not in PASSING:
                    raise
                continue
            finally:
                self.pipeline.forget_texts()  # also when the caller has gone: what was handed over is done
            host.keyring.note_erased(tenant, name, chosen.ids)
            await host.ledger.scrub()
            return done
        raise ConflictError("What is to be erased keeps being changed by others.", reason="row_changed")

    def _erasure(self, name: str, chosen: _Chosen, request: m.EraseRequest) -> Erasure:
        return Erasure(
            id=name,
            step="propagating",
            requested_at=self.host.clock(),
            request={
                "ids": chosen.ids,
                "digest": chosen.digest,
                "reason": request.reason,
                "scope_id": request.scope_id,
                "cascade": request.cascade,
            },
        )

    def _noted(self, reader: Reader, erasure: Erasure) -> list[Change]:
        """What ends the logs of what was shared, and says whom to tell."""
        actor = self.host.keyring.did(reader.tenant)
        changes: list[Change] = [Keep(ERASURES, erasure, 0)]
        shown: dict[str, list[str]] = {}
        for names in _pages(erasure.request["ids"]):
            shared, logs = _not_ended(reader, names)
            for record_id in dict.fromkeys(one.record_id for one in shared):
                if entries := logs.get(record_id):
                    last = item_log.deleted(entries, at=erasure.requested_at, actor=actor)
                    changes.append(Keep(ITEM_LOG, last, 0))
            for one in shared:
                shown.setdefault(one.grant_id, []).append(one.item_id)
        for grant_id, item_ids in sorted(shown.items()) if erasure.request["cascade"] else ():
            grant = reader.get(GRANTS, grant_id)
            if grant is not None:
                step = self.cascade.step(erasure, grant, item_ids)
                changes.append(Keep(CASCADE_STEPS, step, 0))
        return changes

    # -- everywhere else ----------------------------------------------------------------------------------------------

    async def _propagated(self, tenant: str, erasure: Erasure) -> Erasure:
        """Tell those who are due, and note how far it has come: with the first round comes the receipt."""
        if erasure.id in self._at_work:
            return erasure
        self._at_work.add(erasure.id)
        try:
            due = [step for step in await self._steps(tenant, erasure) if self.cascade.is_due(step)]
            told = await self.cascade.told(tenant, erasure, due)
            return await self.host.ledger.locked(
                tenant, lambda reader: self._advanced(reader, erasure.id, told)
            )
        finally:
            self._at_work.discard(erasure.id)

    def _advanced(
        self, reader: Reader, erasure_id: str, told: Sequence[CascadeStep]
    ) -> tuple[Erasure, Sequence[Commit]]:
        """Where another server was faster its answers stay, and so does its receipt."""
        known = reader.kept(ERASURES, erasure_id)
        assert known is not None  # erasures are never taken away
        fresh = {(step.grantee, step.grant_id): step for step in told}
        changes: list[Change] = []
        steps: list[CascadeStep] = []
        for row in _steps(reader, erasure_id):
            step = fresh.get((row.value.grantee, row.value.grant_id), row.value)
            if row.value.is_finished or step == row.value:
                step = row.value
            else:
                changes.append(Keep(CASCADE_STEPS, step, row.seq))
            steps.append(step)
        erasure = known.value
        if erasure.receipt is None:
            erasure, receipt = self._on_receipt(reader, erasure, steps)
            changes.append(receipt)
        if all(step.is_finished for step in steps):
            erasure = replace(erasure, step="done")
        if erasure != known.value:
            changes.append(Keep(ERASURES, erasure, known.seq))
        if not changes:
            return erasure, ()
        at = self.host.clock()
        draft = Draft(op="cascade", actor=_ITSELF, at=at, detail={"erasure": erasure.id})
        return erasure, [Commit(tenant=reader.tenant, draft=draft, changes=tuple(changes))]

    def _on_receipt(
        self, reader: Reader, erasure: Erasure, steps: Sequence[CascadeStep]
    ) -> tuple[Erasure, Change]:
        """The erasure with its Deletion Receipt, and that in the owner's chain."""
        host, now, request = self.host, self.host.clock(), erasure.request
        owner = host.keyring.did(reader.tenant)
        deletion = receipts.deletion_receipt(
            id=erasure.id.partition("_")[2],
            principal=owner,
            scope_id=request["scope_id"],
            requested_at=erasure.requested_at,
            completed_at=now,
            digest=request["digest"],
            count=len(request["ids"]),
            reason=request["reason"],
            grants=sorted({step.grant_id for step in steps}),
            told=sorted({step.grantee for step in steps if step.status == "done"}),
            by=host.keyring.signatory(None),
        )
        receipt = host.receipt(
            reader,
            "deletion",
            at=now,
            agent=owner,
            action_id="memory_delete",
            action_version=receipts.ACTION_VERSION,
            output_hash=receipts.hashed(deletion),
            policy_decisions=[host.decision("allow", "principal.is_owner")],
        )
        return replace(erasure, completed_at=now, receipt=deletion), kept(receipt)

    # -- in the background --------------------------------------------------------------------------------------------

    async def work(self, tenant: str) -> None:
        """Follow what was erased in another way, and go on with what an absent grantee or a crash left undone."""
        if tenant not in self._looked_at:
            await self._erase_again(tenant)
            self._looked_at.add(tenant)
        if await self.host.ledger.page(GRANTS, tenant, limit=1):
            await self._follow(tenant)
        unfinished = await self.host.ledger.read(
            tenant, lambda reader: [row.value for row in every(reader, ERASURES, {"step": "propagating"})]
        )
        for erasure in unfinished:
            await self._propagated(tenant, erasure)

    async def _erase_again(self, tenant: str) -> None:
        """Erase what an older ledger has of erasures that it does not know."""
        ledger = self.host.ledger
        for name, ids in self.host.keyring.erased(tenant).items():
            if await ledger.get(ERASURES, tenant, name) is not None:
                continue
            newest = await ledger.newest_versions(tenant, ids)
            left = [one for one in ids if one in newest and newest[one].standing != "erased"]
            for number, some in enumerate(_pages(left)):
                request = m.EraseRequest(ids=tuple(some), reason="erased")
                await self._erased(tenant, _ITSELF, request, self.host.new_id("era") if number else name)

    async def _follow(self, tenant: str) -> None:
        """Whoever was shown something is told that it is erased, whoever erased it."""
        ledger, end = self.host.ledger, (await self.host.ledger.head(tenant)).seq
        names = await self._erased_since(tenant, self._followed.get(tenant), end)
        for some in _pages(names):
            gone = await ledger.newest_versions(tenant, some)
            ids = [name for name in some if name in gone and gone[name].standing == "erased"]
            if ids:
                await ledger.locked(tenant, lambda reader, ids=ids: self._made_up_for(reader, ids))
        self._followed[tenant] = end

    async def _erased_since(self, tenant: str, since: int | None, end: int) -> list[str]:
        """What was erased up to a position. At first everything that was ever shown is looked at."""
        ledger = self.host.ledger
        if since is None:
            return await ledger.read(
                tenant,
                lambda reader: list(
                    dict.fromkeys(row.value.record_id for row in every(reader, SHARED_ITEMS))
                ),
            )
        names: dict[str, None] = {}
        for op in _ERASING:
            at = since
            while at < end and (
                entries := await ledger.entries(
                    tenant, JournalQuery(op=op, after=at, before=end + 1, limit=_PAGE)
                )
            ):
                names |= dict.fromkeys(mention.id for entry in entries for mention in entry.records)
                at = entries[-1].seq
        return list(names)

    def _made_up_for(self, reader: Reader, ids: Sequence[str]) -> tuple[None, Sequence[Commit]]:
        """The erasure of those whose logs have not ended yet."""
        left, _ = _not_ended(reader, ids)
        if not left:
            return None, ()
        names = list(dict.fromkeys(one.record_id for one in left))
        chosen = _Chosen(names, receipts.hashed(sorted({one.item_id for one in left})))
        request = m.EraseRequest(ids=tuple(names), reason="erased")
        erasure = self._erasure(self.host.new_id("era"), chosen, request)
        detail: dict[str, Any] = {"erasure": erasure.id}
        draft = Draft(op="erase", actor=_ITSELF, at=erasure.requested_at, detail=detail)
        return None, [Commit(tenant=reader.tenant, draft=draft, changes=tuple(self._noted(reader, erasure)))]


def _of_scope(scope_id: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether what a held write would write is of a scope; None: of any."""

    def is_meant(body: Mapping[str, Any]) -> bool:
        metadata = body.get("metadata")
        given = cast("Mapping[str, Any]", metadata).get("scope_id") if isinstance(metadata, Mapping) else None
        return scope_id is None or (given or DEFAULT_SCOPE) == scope_id

    return is_meant


def _once(changes: Iterable[Change]) -> list[Change]:
    """One change for each row: several reasons may lead to the same."""
    found: dict[object, Change] = {}
    for change in changes:
        match change:
            case Keep():
                found[change.table.name, change.table.key_of(change.value)] = change
            case Drop():
                found[change.table.name, change.key] = change
            case _:
                found[id(change)] = change
    return list(found.values())


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _PAGE] for start in range(0, len(names), _PAGE))


def _not_ended(
    reader: Reader, record_ids: Sequence[str]
) -> tuple[list[SharedItem], Mapping[str, list[item_log.ItemLogEntry]]]:
    """What grants have shown of these memories, where the log has not ended yet; and the logs."""
    shared = [row.value for row in reader.matching(SHARED_ITEMS, "record_id", record_ids)]
    logs = item_log.entries_of(reader, sorted({one.record_id for one in shared}))
    return [one for one in shared if not item_log.is_deleted(logs.get(one.record_id, ()))], logs


def _steps(reader: Reader, erasure_id: str) -> list[Kept[CascadeStep]]:
    """Everybody whom an erasure has to reach."""
    return list(every(reader, CASCADE_STEPS, {"erasure_id": erasure_id}))


def _told(step: CascadeStep) -> m.GranteeTold:
    is_told_again = step.status in ("waiting", "unreachable")
    return m.GranteeTold(
        grantee=step.grantee,
        grant_id=step.grant_id,
        items=len(step.item_ids),
        status=step.status,
        attempts=step.attempts,
        next_at=step.next_at if is_told_again else None,
    )
