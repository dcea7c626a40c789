"""Restore: bringing back what was forgotten, merged away, archived or demoted. It is judged as a write is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import Commit
from quipu.model.governance import Effect
from quipu.model.journal import Draft, Op
from quipu.model.operations import RestoreRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.ports.parts import Parts
from quipu.rules import drafting, texts
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out
from quipu.service.embedding import Vectors
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing


class Restoring:
    """The way back."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        vectors: Vectors,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        writing: Writing,
    ) -> None:
        self._parts, self._access, self._vectors, self._secrets = parts, access, vectors, secrets
        self._gate, self._governance, self._writing = gate, governance, writing

    async def restore(
        self, principal: Principal, agent_id: str | None, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        """Bring it back, or have a person look at it first. Without an agent: of any in reach."""
        self._access.authorise(principal, Permission.WRITE, agent_id)

        async def work(checked: Checked) -> RememberResponse:
            record = await self._found(principal, agent_id, record_id)
            asked = RestoreRequest(agent_id=record.agent_id, id=record_id, reason=checked.reason(reason))
            verdict = await self._gate.judged(principal, asked, checked.position)
            if verdict.effect is Effect.HOLD:
                told = partial(answers.pending_remember, asked)
                return await self._governance.hold(principal, asked, verdict, told, guard=checked.position)
            return await self.restored(principal, asked, guard=checked.position, rule=verdict.by_rule)

        return await self._secrets.checking(principal.tenant, work)

    async def restored(
        self,
        principal: Principal,
        request: RestoreRequest,
        before: Sequence[Commit] = (),
        guard: int | None = None,
        rule: str | None = None,
    ) -> RememberResponse:
        """Commit what was judged."""
        return await carried_out(
            self._parts.ledger,
            lambda: self.restoration(principal, request),
            before=before,
            guard=guard,
            rule=rule,
        )

    async def restoration(self, principal: Principal, request: RestoreRequest) -> Plan[RememberResponse]:
        """How it comes back, as things stand."""
        now = self._parts.clock()
        last = await self._found(principal, request.agent_id, request.id)
        record = drafting.revived(last, principal=principal, now=now)
        put = self._writing.put(record, None)
        put = replace(put, expects=last.version, keeps_index=last.state is State.LIVE)
        if not put.keeps_index:
            (vector,) = await self._vectors.of_records(principal.tenant, [record], [None])
            put = replace(put, vector=vector)
        answer = self._writing.stored_answer(record, now, "restored")
        draft = Draft(
            op=Op.RESTORE, actor=principal.name, at=now, store=record.store_id, agent=record.agent_id
        )
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(put,), reason=request.reason)
        return Plan(commit, lambda done: answers.settled(answer, done))

    async def _found(self, principal: Principal, agent_id: str | None, record_id: str) -> Record:
        """The last version of something that can come back."""
        is_mine = await self._access.reach(principal, agent_id)
        named = [record_id] if texts.is_keepable(record_id) else []
        last = (await self._parts.ledger.read(principal.tenant, named)).get(record_id)
        if last is None or not is_mine(last) or last.standing is State.ERASED:
            raise NotFoundError("There is no such record to restore.", reason="record")
        if last.expired(self._parts.clock()):  # it would come back to be seen by nobody
            raise NotFoundError(
                "There is no such record to restore.",
                reason="record",
                hint="Its time is over: it has expired.",
            )
        marks = await self._parts.ledger.marks(principal.tenant, [record_id])
        is_demoted = record_id in marks and marks[record_id].is_demoted
        if last.standing is State.LIVE and not is_demoted:
            raise ConflictError("The record is live; there is nothing to restore.", reason="not_forgotten")
        return last
