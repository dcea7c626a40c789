"""Consolidation: the short-term window settled into long-term memory, by ordinary writes (memorywire contract 8).

Each promotion is one transaction: the long-term memory is written and its sources are forgotten, or neither. A source
is closed at the very version that was looked at, so of two passes, in this process or another, one settles it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.model.change import Commit
from quipu.model.consolidation import (
    ConsolidateRequest,
    Consolidation,
    NearlySame,
    Settled,
    Settlement,
    Undone,
)
from quipu.model.governance import Effect
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State, Tier
from quipu.model.search import Scope, Selection, Snapshot
from quipu.ports.parts import Parts
from quipu.rules import links, settling, staging
from quipu.rules.settling import Decision, Item
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out
from quipu.service.consolidating_undone import PASS, Forget, Restore, undone
from quipu.service.embedding import Vectors
from quipu.service.extracting import Extracting
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.observing import Observing
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing

Progress = Callable[[int, int], None]
_TOLD = 1_000


@dataclass(slots=True)
class _Tally:
    """What a pass has done so far."""

    pass_id: str
    #: Memories that a person has been asked about.
    waiting: frozenset[str] = frozenset()
    counts: Counter[str] = field(default_factory=Counter[str])
    settled: list[Settled] = field(default_factory=list[Settled])
    similar: list[NearlySame] = field(default_factory=list[NearlySame])
    proposed: int = 0
    unread: int = 0

    def add(
        self, decision: Decision, outcome: Settlement, into: str | None = None, reason: str | None = None
    ) -> None:
        self.counts[outcome.value] += len(decision.items)
        if outcome is Settlement.KEPT or len(self.settled) >= _TOLD:
            return
        first = decision.records[0]
        self.settled.append(
            Settled(
                ids=decision.ids,
                agent_id=first.agent_id,
                user_id=first.user_id,
                outcome=outcome,
                score=round(decision.score, 4),
                into=into,
                reason=reason,
            )
        )


class Consolidating:
    """Makes passes."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        vectors: Vectors,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        writing: Writing,
        removing: Removing,
        resembling: Resembling,
        notes: ReadNotes,
        extracting: Extracting,
        forget: Forget,
        restore: Restore,
        observing: Observing,
    ) -> None:
        self._parts, self._access, self._vectors, self._secrets = parts, access, vectors, secrets
        self._gate, self._governance, self._notes = gate, governance, notes
        self._writing, self._removing = writing, removing
        self._resembling, self._extracting = resembling, extracting
        self._forget, self._restore, self._observing = forget, restore, observing
        self._turns: dict[str, asyncio.Lock] = {}

    async def consolidate(
        self, principal: Principal, request: ConsolidateRequest, progress: Progress | None = None
    ) -> Consolidation:
        """One pass over the windows that are meant. A second one right behind it finds nothing to do."""
        self._authorise(principal, request.agent_id)
        async with self._turns.setdefault(principal.tenant, asyncio.Lock()):
            await self._notes.flush()  # weight counts recalls that were made just now
            head = await self._parts.ledger.head(principal.tenant)
            tally = _Tally(f"{self._parts.mint_id('pass')}.{head.seq}")
            tally.waiting = await self._waiting(principal.tenant)
            windows = await self._windows(principal, request)
            with self._observing.settling([record.id for window in windows for record in window]):
                for done, window in enumerate(windows):
                    if progress is not None:
                        progress(done, len(windows))
                    await self._settle(principal, window, tally, dry_run=request.dry_run)
            if progress is not None:
                progress(len(windows), len(windows))
        return Consolidation(
            pass_id=tally.pass_id,
            dry_run=request.dry_run,
            windows=len(windows),
            counts=dict(sorted(tally.counts.items())),
            proposed=tally.proposed,
            unread=tally.unread,
            settled=tuple(tally.settled),
            similar=tuple(tally.similar[:_TOLD]),
        )

    def _authorise(self, principal: Principal, agent_id: str | None) -> None:
        """A pass writes and forgets; over every agent it is an administrator's matter."""
        if agent_id is None:
            self._access.authorise(principal, Permission.ADMIN)
        for permission in (Permission.WRITE, Permission.DELETE):
            self._access.authorise(principal, permission, agent_id)

    # -- looking ------------------------------------------------------------------------------------------------

    async def _windows(self, principal: Principal, request: ConsolidateRequest) -> list[list[Record]]:
        """The live short-term memories of each agent and user, as far as they are in reach."""
        wanted = principal.user_id if request.user_id is None else request.user_id
        if request.agent_id is not None:
            await self._access.scope(principal, request.agent_id, request.user_id)  # refuses another's user
        windows: dict[tuple[str, str | None], list[Record]] = {}
        for store in {
            store.id: store for store in (await self._access.stores(principal.tenant)).values()
        }.values():
            if store.tier is not Tier.SHORT_TERM:
                continue
            selection = Selection(
                tenant=principal.tenant, agent_id=request.agent_id, user_id=wanted, store_id=store.id
            )
            async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
                if record.tier is Tier.SHORT_TERM and principal.may_act_for(record.agent_id):
                    windows.setdefault((record.agent_id, record.user_id), []).append(record)
        return [windows[key] for key in sorted(windows, key=lambda key: (key[0], key[1] or ""))]

    async def _waiting(self, tenant: str) -> frozenset[str]:
        """Memories whose promotion or eviction waits for a person: they stay, and nobody is asked again."""
        found: set[str] = set()
        for proposal in await self._parts.ledger.proposals(tenant, "pending"):
            request = staging.request_of(proposal.operation, proposal.request)
            if isinstance(request, ForgetRequest):
                found.update(request.ids)
            elif isinstance(request, RememberRequest):
                named = request.links or ()
                found.update(link.to for link in named if link.rel == settling.DERIVED_FROM)
        return frozenset(found)

    async def _weighed(self, tenant: str, records: Sequence[Record], tally: _Tally) -> list[Item]:
        marks = await self._parts.ledger.marks(tenant, [record.id for record in records])
        items = [Item(one, marks[one.id].recall_count if one.id in marks else 0) for one in records]
        items = settling.newest_first(items)
        weighed: list[Item] = []
        # What was pushed out of the window is weighed among its own.
        for start in range(0, len(items), self._parts.settling.window):
            part = items[start : start + self._parts.settling.window]
            texts = [item.record for item in part]
            vectors = await self._vectors.of_records(tenant, texts, [None] * len(texts))
            pairs = settling.nearly_same(texts, vectors, self._parts.settling.similar)
            tally.similar.extend(pairs)
            weighed.extend(settling.with_mentions(part, pairs))
        return weighed

    # -- settling -----------------------------------------------------------------------------------------------

    async def _settle(
        self, principal: Principal, records: Sequence[Record], tally: _Tally, *, dry_run: bool
    ) -> None:
        """One window. What goes wrong with one settlement leaves its sources where they are, and the others go on."""
        items = await self._weighed(principal.tenant, records, tally)
        evicted: list[Decision] = []
        for decision in settling.planned(items, self._parts.clock(), self._parts.settling):
            if not tally.waiting.isdisjoint(decision.ids):
                tally.add(decision, Settlement.HELD)
            elif dry_run or decision.outcome is Settlement.KEPT:
                tally.add(decision, decision.outcome)
            elif decision.outcome is Settlement.EVICTED:
                evicted.append(decision)
            else:
                with _failing(tally, [decision]):
                    await self._promote(principal, decision, tally)
        if evicted:
            with _failing(tally, evicted):
                said = f"{tally.pass_id}: of little weight"
                await self._remove(principal, evicted, Settlement.EVICTED, said, tally)

    async def _promote(self, principal: Principal, decision: Decision, tally: _Tally) -> None:
        source = decision.records[0]
        near = await self._near(source)
        if (known := await self._known(source, near)) is not None:
            said = f"{tally.pass_id}: says the same as {known}"
            await self._remove(principal, [decision], Settlement.KNOWN, said, tally, into=known)
            return
        who = replace(principal, trust=settling.trust_of(decision.records))
        asked = replace(
            settling.promotion(decision.records, self._parts.settling.store, links.found(source, near)),
            idempotency_key=settling.key_of("promote", decision.records),
        )
        accepted = self._writing.accepted(who, asked)
        new_id = self._parts.mint_id("mem")

        async def work(checked: Checked) -> tuple[Settlement, str | None]:
            kept = checked.kept(accepted)
            verdict = await self._gate.judged(who, kept, checked.position, has_secret=kept is not accepted)
            if verdict.effect is Effect.HOLD:
                told = partial(answers.pending_remember, kept)
                await self._governance.hold(who, kept, verdict, told, guard=checked.position)
                return Settlement.HELD, None
            # The sources are closed in the same transaction, at these versions: no key makes it happen once better.
            plain = replace(kept, idempotency_key=None)
            return await carried_out(
                self._parts.ledger,
                lambda: self._promotion(who, plain, new_id, decision, tally.pass_id),
                guard=checked.position,
            )

        outcome, into = await self._observing.promote(
            who, accepted, lambda: self._secrets.checking(who.tenant, work)
        )
        tally.add(decision, outcome, into)
        if outcome is Settlement.PROMOTED and into is not None and self._extracting.is_there:
            try:
                tally.proposed += await self._extracting.proposed(principal, source, into)
            except BackendUnavailableError:
                tally.unread += 1

    async def _promotion(
        self, who: Principal, request: RememberRequest, new_id: str, decision: Decision, pass_id: str
    ) -> Plan[tuple[Settlement, str | None]]:
        """The new memory and the end of its sources, as things stand; nothing where somebody was faster."""
        if not await self._unchanged([decision]):
            return Plan(None, lambda _: (Settlement.KEPT, None))
        created = await self._writing.creation(who, request, new_id)
        said = f"{pass_id}: became {new_id}"
        gone = await self._removing.forgetting(
            who, ForgetRequest(agent_id=request.agent_id, ids=decision.ids, reason=said)
        )
        if created.commit is None or gone.commit is None or len(gone.commit.changes) != len(decision.items):
            return Plan(None, lambda _: (Settlement.KEPT, None))
        ahead = (_marked(created.commit, pass_id),)
        return Plan(_marked(gone.commit, pass_id), lambda _: (Settlement.PROMOTED, new_id), ahead)

    async def _remove(
        self,
        principal: Principal,
        decisions: Sequence[Decision],
        outcome: Settlement,
        said: str,
        tally: _Tally,
        into: str | None = None,
    ) -> None:
        """An ordinary forgetting of the sources, all at once, which rules may hold."""
        records = [record for decision in decisions for record in decision.records]
        request = self._removing.accepted_forget(
            principal,
            ForgetRequest(agent_id=records[0].agent_id, ids=tuple(record.id for record in records)),
        )

        async def work(checked: Checked) -> dict[str, Settlement]:
            verdict = await self._gate.judged(principal, request, checked.position)
            if verdict.effect is Effect.HOLD:
                held = replace(request, idempotency_key=settling.key_of("evict", records))
                told = partial(answers.pending_forget, held, ledger=self._parts.ledger.name)
                await self._governance.hold(principal, held, verdict, told, guard=checked.position)
                return dict.fromkeys(request.ids, Settlement.HELD)
            return await carried_out(
                self._parts.ledger,
                lambda: self._removal(principal, replace(request, reason=said), decisions, outcome, tally),
                guard=checked.position,
            )

        settled = await self._observing.evict(
            principal, request, lambda: self._secrets.checking(principal.tenant, work)
        )
        for decision in decisions:
            became = settled.get(decision.ids[0], Settlement.KEPT)
            tally.add(decision, became, into if became is outcome else None)

    async def _removal(
        self,
        principal: Principal,
        request: ForgetRequest,
        decisions: Sequence[Decision],
        outcome: Settlement,
        tally: _Tally,
    ) -> Plan[dict[str, Settlement]]:
        """How those go that are still what was weighed; the others stay."""
        ids = tuple(name for decision in await self._unchanged(decisions) for name in decision.ids)
        plan = await self._removing.forgetting(principal, replace(request, ids=ids)) if ids else None
        if plan is None or plan.commit is None:
            return Plan(None, lambda _: dict[str, Settlement]())
        return Plan(_marked(plan.commit, tally.pass_id), lambda _: dict.fromkeys(ids, outcome))

    async def _unchanged(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Those of which every source is still the live version that was weighed."""
        tenant, now = decisions[0].records[0].tenant, self._parts.clock()
        ids = [name for decision in decisions for name in decision.ids]
        found = await self._parts.ledger.read(tenant, ids)

        def stays(record: Record) -> bool:
            newest = found.get(record.id)
            return (
                newest is not None
                and newest.version == record.version
                and newest.standing is State.LIVE
                and not newest.expired(now)
            )

        return [one for one in decisions if all(stays(record) for record in one.records)]

    async def _near(self, record: Record) -> list[tuple[Record, float]]:
        """Long-term memories of the same owner that are like it, nearest first."""
        draft = replace(record, id="", type=settling.settled_type(record.type))
        return [
            (other, share)
            for other, share in await self._resembling.to(draft)
            if other.tier is Tier.LONG_TERM and other.user_id == record.user_id
        ]

    async def _known(self, record: Record, near: Sequence[tuple[Record, float]]) -> str | None:
        """A long-term memory that says exactly this, or that this became already."""
        scope = Scope(tenant=record.tenant, agent_id=record.agent_id, user_id=record.user_id)
        now = Snapshot(None, self._parts.clock())
        beside = (await self._parts.ledger.neighbours(scope, now, [record.id]))[record.id]
        for other in (await self._parts.ledger.read(record.tenant, sorted(beside))).values():
            sources = [link.to for link in other.links if link.rel == settling.DERIVED_FROM]
            if other.tier is Tier.LONG_TERM and other.source == settling.SOURCE and record.id in sources:
                return other.id
        return next((other.id for other, _ in near if settling.is_known(record, other)), None)

    # -- undoing ------------------------------------------------------------------------------------------------

    async def undo(self, principal: Principal, pass_id: str) -> Undone:
        """Take a pass back: its promotions are forgotten and their sources restored. Both are ordinary operations."""
        self._authorise(principal, None)
        return await undone(self._parts.ledger, principal, pass_id, self._forget, self._restore)


@contextmanager
def _failing(tally: _Tally, decisions: Sequence[Decision]) -> Generator[None]:
    """What goes wrong in here leaves these memories where they are."""
    try:
        yield
    except QuipuError as error:
        for decision in decisions:
            tally.add(decision, Settlement.FAILED, reason=error.reason or error.code)


def _marked(commit: Commit, pass_id: str) -> Commit:
    """The journal tells which pass it was."""
    return replace(commit, draft=replace(commit.draft, detail={**commit.draft.detail, PASS: pass_id}))
