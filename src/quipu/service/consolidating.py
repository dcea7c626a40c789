"""Consolidation: the short-term window settled into long-term memory, by ordinary writes (memorywire contract 8).

Each promotion is one transaction: the long-term memory is written and its sources are forgotten, or neither. A source
is closed at the very version that was looked at, so of two passes, in this process or another, one settles it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from quipu.errors import QuipuError
from quipu.model.change import Commit
from quipu.model.consolidation import ConsolidateRequest, Consolidation, Settlement, Undone
from quipu.model.governance import Effect
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.outcomes import ForgetResponse, RememberResponse
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import Record, State, Tier
from quipu.model.search import Scope, Snapshot
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import derivations, links, settling
from quipu.rules.settling import Decision
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out
from quipu.service.consolidating_overflow import Overflowing
from quipu.service.consolidating_tally import Tally
from quipu.service.consolidating_undone import PASS, Forget, Restore, undone
from quipu.service.consolidating_windows import Window, Windows
from quipu.service.embedding import Vectors
from quipu.service.extracting import Extracting
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.observing import Observing, Removed
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing

Progress = Callable[[int, int], None]


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
        self._parts, self._access, self._secrets = parts, access, secrets
        self._gate, self._governance, self._notes = gate, governance, notes
        self._writing, self._removing = writing, removing
        self._resembling, self._extracting = resembling, extracting
        self._forget, self._restore, self._observing = forget, restore, observing
        self._windows = Windows(parts, access, vectors)
        self.overflowing = Overflowing(parts, self._windows, self._overflowed)
        self._turns: dict[str, asyncio.Lock] = {}

    async def consolidate(
        self, principal: Principal, request: ConsolidateRequest, progress: Progress | None = None
    ) -> Consolidation:
        """One pass over the windows that are meant. A second one right behind it finds nothing to do."""
        self._authorise(principal, request.agent_id)
        return await self._pass(principal, request, progress)

    async def _overflowed(self, window: Window) -> Consolidation:
        """A pass over one window, made by the system itself."""
        tenant, agent, user = window
        principal = replace(local(tenant), name="system")
        return await self._pass(principal, ConsolidateRequest(agent_id=agent, user_id=user), only=window)

    async def _pass(
        self,
        principal: Principal,
        request: ConsolidateRequest,
        progress: Progress | None = None,
        only: Window | None = None,
    ) -> Consolidation:
        async with self._turns.setdefault(principal.tenant, asyncio.Lock()):
            await self._notes.flush()  # weight counts recalls that were made just now
            head = await self._parts.ledger.head(principal.tenant)
            windows = await self._windows.wanted(principal, request, only)
            tally = Tally(
                f"{self._parts.mint_id('pass')}.{head.seq}",
                await self._windows.waiting(principal.tenant),
                await self._windows.refusals(principal.tenant, windows),
            )
            with self._observing.settling([record.id for window in windows for record in window]):
                for done, window in enumerate(windows):
                    if progress is not None:
                        progress(done, len(windows))
                    await self._settle(principal, window, tally, dry_run=request.dry_run)
            if progress is not None:
                progress(len(windows), len(windows))
        return tally.told(len(windows), dry_run=request.dry_run)

    def _authorise(self, principal: Principal, agent_id: str | None) -> None:
        """A pass writes and forgets; over every agent it is an administrator's matter."""
        if agent_id is None:
            self._access.authorise(principal, Permission.ADMIN)
        for permission in (Permission.WRITE, Permission.DELETE):
            self._access.authorise(principal, permission, agent_id)

    # -- settling -----------------------------------------------------------------------------------------------

    async def _settle(
        self, principal: Principal, records: Sequence[Record], tally: Tally, *, dry_run: bool
    ) -> None:
        """One window. What goes wrong with one settlement leaves its sources where they are, and the others go on."""
        items, similar = await self._windows.weighed(records)
        tally.similar.extend(similar)
        evicted: list[Decision] = []
        for decision in settling.planned(items, self._parts.clock(), self._parts.settling, tally.refusals):
            if not tally.waiting.isdisjoint(decision.ids):
                tally.add(decision, Settlement.HELD)
            elif decision.outcome is Settlement.KEPT:
                tally.stays(decision)
            elif decision.outcome is Settlement.EVICTED:
                if dry_run:
                    tally.add(decision, decision.outcome)
                else:
                    evicted.append(decision)
            else:
                with tally.failing([decision]):
                    await self._promote(principal, decision, tally, dry_run=dry_run)
        if evicted:
            with tally.failing(evicted):
                said = f"{tally.pass_id}: of little weight"
                await self._remove(principal, evicted, Settlement.EVICTED, said, tally)

    async def _promote(
        self, principal: Principal, decision: Decision, tally: Tally, *, dry_run: bool
    ) -> None:
        source = decision.records[0]
        near = await self._near(source)
        if (known := await self._known(decision.records, near)) is not None:
            if not tally.refusals.removal.isdisjoint(decision.ids):
                tally.stays(replace(decision, is_refused=True))
                return
            if dry_run:
                tally.add(decision, Settlement.KNOWN, known)
                return
            said = f"{tally.pass_id}: says the same as {known}"
            await self._remove(principal, [decision], Settlement.KNOWN, said, tally, into=known)
            return
        if dry_run:
            tally.add(decision, decision.outcome)
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
                held = await self._governance.hold(
                    who, kept, verdict, told, guard=checked.position, more=_about(decision.records)
                )
                return Settlement.HELD, _proposal(held)
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
                checked = await self._secrets.checked(principal.tenant)
                shown = replace(source, content=checked.shown(source.content))
                tally.proposed += await self._extracting.proposed(principal, shown, into)
            except QuipuError:  # it is promoted all the same
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
        tally: Tally,
        into: str | None = None,
    ) -> None:
        """An ordinary forgetting of the sources, all at once, which rules may hold."""
        records = [record for decision in decisions for record in decision.records]
        request = self._removing.accepted_forget(
            principal,
            ForgetRequest(agent_id=records[0].agent_id, ids=tuple(record.id for record in records)),
        )

        async def work(checked: Checked) -> Removed:
            verdict = await self._gate.judged(principal, request, checked.position)
            if verdict.effect is Effect.HOLD:
                held = replace(request, idempotency_key=settling.key_of("evict", records))
                told = partial(answers.pending_forget, held, ledger=self._parts.ledger.name)
                answer = await self._governance.hold(
                    principal, held, verdict, told, guard=checked.position, more=_about(records)
                )
                return dict.fromkeys(request.ids, Settlement.HELD), _proposal(answer)
            return await carried_out(
                self._parts.ledger,
                lambda: self._removal(principal, replace(request, reason=said), decisions, outcome, tally),
                guard=checked.position,
            )

        settled, proposal = await self._observing.evict(
            principal, request, lambda: self._secrets.checking(principal.tenant, work)
        )
        for decision in decisions:
            became = settled.get(decision.ids[0], Settlement.KEPT)
            tally.add(decision, became, into if became is outcome else proposal)

    async def _removal(
        self,
        principal: Principal,
        request: ForgetRequest,
        decisions: Sequence[Decision],
        outcome: Settlement,
        tally: Tally,
    ) -> Plan[Removed]:
        """How those go that are still what was weighed; the others stay."""
        ids = tuple(name for decision in await self._unchanged(decisions) for name in decision.ids)
        plan = await self._removing.forgetting(principal, replace(request, ids=ids)) if ids else None
        if plan is None or plan.commit is None:
            return Plan(None, lambda _: (dict[str, Settlement](), None))
        return Plan(_marked(plan.commit, tally.pass_id), lambda _: (dict.fromkeys(ids, outcome), None))

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

    async def _known(self, records: Sequence[Record], near: Sequence[tuple[Record, float]]) -> str | None:
        """A long-term memory that says exactly what each of them says, or that they became already."""
        record, ids = records[0], {one.id for one in records}
        scope = Scope(tenant=record.tenant, agent_id=record.agent_id, user_id=record.user_id)
        now = Snapshot(None, self._parts.clock())
        beside = (await self._parts.ledger.neighbours(scope, now, [record.id]))[record.id]
        for other in (await self._parts.ledger.read(record.tenant, sorted(beside))).values():
            sources = {link.to for link in other.links if link.rel == derivations.DERIVED_FROM}
            if other.tier is Tier.LONG_TERM and other.source == derivations.CONSOLIDATION and ids <= sources:
                return other.id
        said = (other.id for other, _ in near if all(settling.is_known(one, other) for one in records))
        return next(said, None)

    # -- undoing ------------------------------------------------------------------------------------------------

    async def undo(self, principal: Principal, pass_id: str) -> Undone:
        """Take a pass back: its promotions are forgotten and their sources restored. Both are ordinary operations."""
        self._authorise(principal, None)
        return await undone(self._parts.ledger, principal, pass_id, self._forget, self._restore)


def _about(records: Sequence[Record]) -> JsonObject:
    """Noted with a proposal: a no holds for these versions, and outlives the proposal's text."""
    return {settling.SETTLES: [settling.version_mark(record) for record in records]}


def _proposal(answer: RememberResponse | ForgetResponse) -> str | None:
    found = answer.extensions.get("proposal_id")
    return found if isinstance(found, str) else None


def _marked(commit: Commit, pass_id: str) -> Commit:
    """The journal tells which pass it was."""
    return replace(commit, draft=replace(commit.draft, detail={**commit.draft.detail, PASS: pass_id}))
