"""Recovery: find what a source, a run, an import, a token or a stretch of time did to memory, and undo it.

A dry run unless it is said otherwise. What is done is done by ordinary operations: judged by the rules, journaled, and
itself to be undone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from quipu.errors import InvalidError, QuipuError
from quipu.model.change import Close, Commit, Put
from quipu.model.governance import Effect, Verdict
from quipu.model.journal import Draft, Op
from quipu.model.operations import (
    ForgetRequest,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.outcomes import ForgetResponse, RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Record, State
from quipu.model.recovery import Finding, RecoverRequest, RecoverResponse, Step
from quipu.model.search import Selection, Snapshot
from quipu.ports.ledger import Entries
from quipu.ports.parts import Parts
from quipu.rules import moments, recovery
from quipu.rules.drafting import revived, sealed
from quipu.rules.recovery import Remedy
from quipu.service.access import Access
from quipu.service.answers import pending_remember
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.secrets import Checked, Secrets

_PAGE, _CHUNK = 1_000, 200
_SHOWN = 200
_RULE = "recovery"


@dataclass(frozen=True, slots=True)
class Ways:
    """The ordinary operations that recovery uses."""

    remember: Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]
    forget: Callable[[Principal, ForgetRequest], Awaitable[ForgetResponse]]
    restore: Callable[[Principal, str, str, str | None], Awaitable[RememberResponse]]


@dataclass(frozen=True, slots=True)
class _Case:
    last: Record
    remedy: Remedy


class Recovery:
    """Looks back, and takes back."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        ways: Ways,
    ) -> None:
        self._parts, self._access, self._secrets = parts, access, secrets
        self._gate, self._governance, self._ways = gate, governance, ways

    async def recover(self, principal: Principal, request: RecoverRequest) -> RecoverResponse:
        """What there is to do, oldest cause first; done where it is no dry run."""
        needs = Permission.REVIEW if request.dry_run else Permission.ADMIN
        self._access.authorise(principal, needs, request.agent_id)
        if not 1 <= request.limit <= self._parts.limits.page:
            raise InvalidError.at(
                "/limit",
                "bad_value",
                "So many at once are too many.",
                accepted=[f"1 to {self._parts.limits.page}"],
            )
        asked = recovery.checked(request)
        if asked.proposal_id is not None:
            await self._governance.found(
                principal, asked.proposal_id
            )  # a foreign one is as if it were not there
        cases: list[_Case] = []
        walk = (
            self._caused(principal, asked) if recovery.has_cause(asked) else self._suspected(principal, asked)
        )
        async for case in walk:
            if len(cases) == request.limit:
                return await self._answer(principal, asked, cases, is_cut=True)
            cases.append(case)
        return await self._answer(principal, asked, cases, is_cut=False)

    async def _answer(
        self, principal: Principal, request: RecoverRequest, cases: list[_Case], *, is_cut: bool
    ) -> RecoverResponse:
        findings = [_finding(case) for case in cases]
        if not request.dry_run:
            findings = [
                await self._done(principal, request, case, finding)
                for case, finding in zip(cases, findings, strict=True)
            ]
        return RecoverResponse(dry_run=request.dry_run, findings=tuple(findings), is_cut=is_cut)

    # -- finding ------------------------------------------------------------------------------------------------

    async def _caused(self, principal: Principal, request: RecoverRequest) -> AsyncIterator[_Case]:
        is_mine = await self._access.reach(principal, request.agent_id)
        touched = await self._touched(principal, request)
        positions = {seq for seqs in touched.values() for seq in seqs}
        ids = list(touched)
        for start in range(0, len(ids), _CHUNK):
            newest = await self._parts.ledger.read(principal.tenant, ids[start : start + _CHUNK])
            for record_id in ids[start : start + _CHUNK]:
                last = newest.get(record_id)
                if last is None or not is_mine(last):
                    continue
                # What was never changed has no other version.
                versions = [last] if last.version == 1 else await self._versions(last)
                if (found := recovery.remedy(versions, positions, request)) is not None:
                    yield _Case(versions[-1], found)

    async def _versions(self, last: Record) -> Sequence[Record]:
        return await self._parts.ledger.versions(last.tenant, last.id) or [last]

    async def _touched(self, principal: Principal, request: RecoverRequest) -> dict[str, list[int]]:
        """Positions at which the cause touched each record, in the journal's order."""
        ledger, tenant = self._parts.ledger, principal.tenant
        after, last = 0, (await ledger.head(tenant)).seq
        if request.since is not None:
            after = await ledger.position_at(tenant, moments.moment(request.since, "/since") - 1)
        if request.until is not None:
            last = await ledger.position_at(tenant, moments.moment(request.until, "/until"))
        wanted = Entries(
            ops=recovery.CHANGES,
            agent=request.agent_id,
            actor=request.principal,
            run=request.run_id,
            told=request.import_id or request.proposal_id,
            last=last,
            limit=_PAGE,
        )
        touched: dict[str, list[int]] = {}
        while after < last:
            page = await ledger.entries_with(tenant, replace(wanted, after=after))
            for entry in page:
                if recovery.is_caused(entry, request):
                    for mention in entry.records:
                        touched.setdefault(mention.id, []).append(entry.seq)
            if len(page) < _PAGE:
                break
            after = page[-1].seq
        return touched

    async def _suspected(self, principal: Principal, request: RecoverRequest) -> AsyncIterator[_Case]:
        is_mine = await self._access.reach(principal, request.agent_id)
        selection = Selection(
            tenant=principal.tenant, agent_id=request.agent_id, states=frozenset({State.LIVE})
        )
        async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
            if is_mine(record) and (found := recovery.suspected(record, request)) is not None:
                yield _Case(record, found)

    # -- doing --------------------------------------------------------------------------------------------------

    async def _done(
        self, principal: Principal, request: RecoverRequest, case: _Case, finding: Finding
    ) -> Finding:
        try:
            held = await self._carried_out(principal, request, case)
        except QuipuError as error:
            return replace(finding, outcome="failed", detail=error.reason or error.code)
        if finding.step is Step.LEAVE:
            return replace(finding, outcome="left")
        return replace(finding, outcome="done" if held is None else "held", detail=held)

    async def _carried_out(self, principal: Principal, request: RecoverRequest, case: _Case) -> str | None:
        """The proposal that it waits as, if it does."""
        last, reason = case.last, request.reason or f"recovery: {case.remedy.why}"
        match case.remedy.step:
            case Step.FORGET | Step.ERASE:
                asked = ForgetRequest(
                    agent_id=last.agent_id,
                    ids=(last.id,),
                    hard_delete=case.remedy.step is Step.ERASE,
                    reason=reason,
                )
                return _proposal(await self._ways.forget(principal, asked))
            case Step.RESTORE:
                return _proposal(await self._ways.restore(principal, last.agent_id, last.id, reason))
            case Step.REVERT:
                names = await self._access.store_names(principal.tenant, {last.store_id})
                good = case.remedy.good or last
                asked_back = recovery.rewritten(good, last, names[last.store_id], reason)
                return _proposal(await self._ways.remember(principal, asked_back))
            case Step.QUARANTINE:
                return await self._quarantined(principal, last, reason)
            case Step.ARCHIVE:
                await self._archived(principal, last, reason)
                return None
            case Step.LEAVE:
                return None

    async def _quarantined(self, principal: Principal, record: Record, reason: str) -> str | None:
        """Out of sight, and in the queue: who approves it brings it back, who rejects it leaves it where it is."""

        async def work(checked: Checked) -> str | None:
            why = checked.reason(reason)
            gone = ForgetRequest(agent_id=record.agent_id, ids=(record.id,), reason=why)
            verdict = await self._gate.judged(principal, gone, checked.position)
            back = RestoreRequest(agent_id=record.agent_id, id=record.id, reason=why)
            staging, told = self._governance.staging(
                principal, back, Verdict(Effect.HOLD, _RULE, why), lambda one: pending_remember(back, one)
            )
            draft = Draft(
                op=Op.FORGET,
                actor=principal.name,
                at=self._parts.clock(),
                store=record.store_id,
                agent=record.agent_id,
                detail={"quarantine": True} | ({} if verdict.by_rule is None else {"rule": verdict.by_rule}),
            )
            close = Close(record=record, ending=Ending.FORGOTTEN)
            commit = Commit(tenant=principal.tenant, draft=draft, changes=(close,), reason=why)
            await self._parts.ledger.commit(commit, staging, guard=checked.position)
            return _proposal(told)

        return await self._secrets.checking(principal.tenant, work)

    async def _archived(self, principal: Principal, record: Record, reason: str) -> None:
        async def work(checked: Checked) -> None:
            now = self._parts.clock()
            gone = ForgetRequest(agent_id=record.agent_id, ids=(record.id,))
            await self._gate.judged(principal, gone, checked.position)
            kept = revived(record, principal=principal, now=now, state=State.ARCHIVED)
            put = Put(
                record=sealed(kept, self._parts.mint_salt(), self._parts.canonical),
                expects=record.version,
                must_stand=True,
            )
            draft = Draft(
                op=Op.ARCHIVE, actor=principal.name, at=now, store=record.store_id, agent=record.agent_id
            )
            commit = Commit(
                tenant=principal.tenant, draft=draft, changes=(put,), reason=checked.reason(reason)
            )
            await self._parts.ledger.commit(commit, guard=checked.position)

        await self._secrets.checking(principal.tenant, work)


def _proposal(answer: RememberResponse | ForgetResponse) -> str | None:
    return str(answer.extensions["proposal_id"]) if answer.pending_approval else None


def _finding(case: _Case) -> Finding:
    last, remedy = case.last, case.remedy
    is_secret = last.privacy is not None and last.privacy.sensitivity == "secret"
    return Finding(
        id=last.id,
        version=last.version,
        type=last.type.value,
        content="" if is_secret else last.content[:_SHOWN],
        source=last.source,
        written_by=last.provenance.written_by,
        step=remedy.step,
        why=remedy.why,
        back_to=None if remedy.good is None else remedy.good.version,
    )
