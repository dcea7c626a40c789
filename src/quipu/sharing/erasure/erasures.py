"""Erasure on request, everywhere: here, in every index and log, and at everybody who was ever shown it.

1. Here it is one transaction: content, vectors, search terms and salts go, the logs of the items end, and it is noted whom to
   tell. It is done or it is not; a crash leaves nothing half done.
2. Who is to be told is asked in that transaction, in which nobody discloses: an answer that was being made meanwhile stands
   in it already, or finds the items gone.
3. Telling goes on until everybody has answered, whatever server does it; there is one Deletion Receipt.
4. Memories that were erased in another way (a hard forget, a deleted store) are found along the journal, and their grantees
   told all the same.
5. An erasure is noted beside the keys too: where an older ledger is put in place, what it has of it is erased again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from quipu.errors import ConflictError
from quipu.ledger.commit import Change, Commit, Erase, Keep
from quipu.ledger.ledger import JournalQuery
from quipu.ledger.reader import Kept, Reader
from quipu.memory.pipeline import PASSING, Pipeline
from quipu.model.journal import Draft, Entry
from quipu.operation import Context
from quipu.sharing import receipts
from quipu.sharing.erasure.cascade import Cascade
from quipu.sharing.erasure.choice import Choice, Chosen
from quipu.sharing.grants import item_log
from quipu.sharing.host import Host, kept
from quipu.sharing.host_messages import (
    EraseRequest,
    EraseResponse,
    ErasureView,
    GranteeTold,
    ListErasuresRequest,
    ListErasuresResponse,
)
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
_ACTION_VERSION = "1.0.0"
_MOST_ATTEMPTS = 64
_PAGE = 500


@dataclass(slots=True, kw_only=True)
class Erasures:
    """Erases for good, tells of it, and proves it."""

    host: Host
    pipeline: Pipeline
    choice: Choice
    cascade: Cascade
    #: Erasures whose grantees are being notified right now: the background job leaves these alone.
    _at_work: set[str] = field(default_factory=set[str], init=False)
    #: Up to where in an owner's journal erasures were followed.
    _followed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    #: Owners whose notes of erasures were held against the ledger.
    _looked_at: set[str] = field(default_factory=set[str], init=False)

    async def erase(self, ctx: Context, request: EraseRequest) -> EraseResponse:
        """Erase what is chosen; it returns when it is gone here, and everybody who can be reached was told."""
        if request.dry_run:
            chosen = await self.choice.chosen(ctx.tenant, request)
            return EraseResponse(ids=tuple(chosen.ids), erased=0, dry_run=True)
        erasure = await self._erased(ctx.tenant, ctx.principal.name, request, self.host.new_id("era"))
        ids = tuple(str(name) for name in erasure.request["ids"])
        ctx.facts.record_ids = ids
        erasure = await self._propagated(ctx.tenant, erasure)
        view = await self._view(ctx.tenant, erasure)
        return EraseResponse(ids=ids, erased=len(ids), dry_run=False, erasure=view)

    async def listed(self, ctx: Context, request: ListErasuresRequest) -> ListErasuresResponse:
        after = None if request.cursor is None else (request.cursor,)
        rows = await self.host.ledger.page(
            ERASURES, ctx.tenant, after=after, limit=request.limit + 1, newest_first=True
        )
        page = rows[: request.limit]
        return ListErasuresResponse(
            erasures=tuple([await self._view(ctx.tenant, row) for row in page]),
            next_cursor=page[-1].id if len(rows) > len(page) else None,
        )

    async def _view(self, tenant: str, erasure: Erasure) -> ErasureView:
        steps = [row.value for row in await self.host.ledger.read(tenant, lambda one: _steps(one, erasure))]
        return ErasureView(
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

    # -- here ---------------------------------------------------------------------------------------------------------

    async def _erased(self, tenant: str, actor: str, request: EraseRequest, name: str) -> Erasure:
        """The erasure of this id as it is noted, with everything gone."""
        host = self.host
        for _ in range(_MOST_ATTEMPTS):
            guard = await host.redactor.guard(tenant, None)
            clean = guard.clean(request)
            # Whatever is derived or merged after this position is a conflict, and it is looked for again.
            head = await host.ledger.head(tenant)
            chosen = await self.choice.chosen(tenant, clean)
            erasure = self._erasure(name, chosen, clean)
            draft = Draft(op="erase", actor=actor, at=erasure.requested_at, detail={"erasure": name})
            erases = (Erase(id=name) for name in chosen.ids)
            commit = Commit(
                tenant=tenant, draft=draft, changes=(*erases, *chosen.changes), erases_as_of=head.seq
            )
            (commit,) = await self.pipeline.with_mirrors(tenant, [commit])

            def work(reader: Reader) -> tuple[Erasure, Sequence[Commit]]:
                if reader.head().guarded > guard.checked_at:  # noqa: B023  used in this turn only
                    raise ConflictError("Secrets or rules have changed meanwhile.", reason="secrets_changed")
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

    def _erasure(self, name: str, chosen: Chosen, request: EraseRequest) -> Erasure:
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
        shown: dict[str, list[SharedItem]] = {}
        for names in _pages(erasure.request["ids"]):
            shared = [row.value for row in reader.matching(SHARED_ITEMS, "record_id", names)]
            logs = item_log.entries_of(reader, sorted({one.record_id for one in shared}))
            for entries in logs.values():
                if not item_log.is_deleted(entries):
                    last = item_log.deleted(entries, at=erasure.requested_at, actor=actor)
                    changes.append(Keep(ITEM_LOG, last, 0))
            for one in shared:
                if not item_log.is_deleted(logs.get(one.record_id, ())):
                    shown.setdefault(one.grant_id, []).append(one)
        if erasure.request["cascade"]:
            changes += [Keep(CASCADE_STEPS, step, 0) for step in _steps_of(reader, erasure, shown)]
        return changes

    # -- everywhere else ----------------------------------------------------------------------------------------------

    async def _propagated(self, tenant: str, erasure: Erasure) -> Erasure:
        """Tell those who are due, and note how far it has come: with the first round comes the receipt."""
        if erasure.id in self._at_work:
            return erasure
        self._at_work.add(erasure.id)
        try:
            steps = [
                row.value for row in await self.host.ledger.read(tenant, lambda one: _steps(one, erasure))
            ]
            due = [step for step in steps if self.cascade.is_due(step)]
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
        for row in _steps(reader, known.value):
            step = fresh.get((row.value.grantee, row.value.grant_id), row.value)
            if row.value.status != "done" and step != row.value:
                changes.append(Keep(CASCADE_STEPS, step, row.seq))
                steps.append(step)
            else:
                steps.append(row.value)
        erasure = known.value
        if erasure.receipt is None:
            erasure, receipt = self._on_receipt(reader, erasure, steps)
            changes.append(receipt)
        if all(step.status == "done" for step in steps):
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
            action_version=_ACTION_VERSION,
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
        for erasure in await self._unfinished(tenant):
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
                request = EraseRequest(ids=tuple(some), reason="erased")
                await self._erased(tenant, _ITSELF, request, self.host.new_id("era") if number else name)

    async def _unfinished(self, tenant: str) -> list[Erasure]:
        found: list[Erasure] = []
        after: tuple[str] | None = None
        while rows := await self.host.ledger.page(
            ERASURES, tenant, {"step": "propagating"}, after=after, limit=_PAGE
        ):
            found += rows
            after = (rows[-1].id,)
        return found

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
        names: dict[str, None] = {}
        if since is None:
            after: tuple[str, str] | None = None
            while rows := await self.host.ledger.page(SHARED_ITEMS, tenant, after=after, limit=_PAGE):
                names |= dict.fromkeys(row.record_id for row in rows)
                after = (rows[-1].grant_id, rows[-1].record_id)
            return list(names)
        for op in _ERASING:
            at = since
            while entries := await self._entries(tenant, op, at, end):
                for entry in entries:
                    names |= dict.fromkeys(mention.id for mention in entry.records)
                at = entries[-1].seq
        return list(names)

    async def _entries(self, tenant: str, op: str, after: int, end: int) -> Sequence[Entry]:
        if after >= end:
            return ()
        query = JournalQuery(op=op, after=after, before=end + 1, limit=_PAGE)
        return await self.host.ledger.entries(tenant, query)

    def _made_up_for(self, reader: Reader, ids: Sequence[str]) -> tuple[None, Sequence[Commit]]:
        """The erasure of those whose logs have not ended yet."""
        shared = [row.value for row in reader.matching(SHARED_ITEMS, "record_id", ids)]
        logs = item_log.entries_of(reader, sorted({one.record_id for one in shared}))
        left = [one for one in shared if not item_log.is_deleted(logs.get(one.record_id, ()))]
        if not left:
            return None, ()
        names = dict.fromkeys(one.record_id for one in left)
        chosen = Chosen([*names], receipts.hashed(sorted({one.item_id for one in left})))
        erasure = self._erasure(
            self.host.new_id("era"), chosen, EraseRequest(ids=tuple(names), reason="erased")
        )
        detail = {"erasure": erasure.id}
        draft = Draft(op="erase", actor=_ITSELF, at=erasure.requested_at, detail={**detail})
        return None, [Commit(tenant=reader.tenant, draft=draft, changes=tuple(self._noted(reader, erasure)))]


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _PAGE] for start in range(0, len(names), _PAGE))


def _steps(reader: Reader, erasure: Erasure) -> list[Kept[CascadeStep]]:
    """Everybody whom an erasure has to reach."""
    found: list[Kept[CascadeStep]] = []
    after: tuple[str, str, str] | None = None
    while rows := reader.rows(CASCADE_STEPS, {"erasure_id": erasure.id}, after=after, limit=_PAGE):
        found += rows
        last = rows[-1].value
        after = (last.erasure_id, last.grantee, last.grant_id)
    return found


def _steps_of(reader: Reader, erasure: Erasure, shown: dict[str, list[SharedItem]]) -> Iterable[CascadeStep]:
    for grant_id, items in sorted(shown.items()):
        grant = reader.get(GRANTS, grant_id)
        if grant is not None:
            yield CascadeStep(
                erasure_id=erasure.id,
                grantee=grant.grantee,
                grant_id=grant_id,
                item_ids=tuple(sorted({one.item_id for one in items})),
            )


def _told(step: CascadeStep) -> GranteeTold:
    return GranteeTold(
        grantee=step.grantee,
        grant_id=step.grant_id,
        items=len(step.item_ids),
        status=step.status,
        attempts=step.attempts,
        next_at=None if step.status == "done" else step.next_at,
    )
