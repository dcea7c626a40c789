"""The five operations, step by step: authorise, validate, redact, govern, commit."""

from __future__ import annotations

from functools import partial

from quipu.errors import ConflictError
from quipu.model.change import Committed
from quipu.model.governance import Effect, Verdict
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.principal import Permission, Principal
from quipu.ports.parts import Parts
from quipu.rules.staging import Held
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.committing import Along
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.permits import Permits
from quipu.service.recalling import Recalling
from quipu.service.removing import Removing
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing


class Operating:
    """What is done when one of the five operations is asked for."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        writing: Writing,
        removing: Removing,
        permits: Permits,
        recalling: Recalling,
        budgets: Budgets,
        notes: ReadNotes,
    ) -> None:
        self._parts, self._access, self._secrets = parts, access, secrets
        self._gate, self._governance, self._permits = gate, governance, permits
        self._writing, self._removing, self._recalling = writing, removing, recalling
        self._budgets, self._notes = budgets, notes

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        accepted = self._writing.accepted(principal, request)

        async def work(checked: Checked) -> RememberResponse:
            kept = checked.kept(accepted)
            if kept.idempotency_key is not None and (first := await self._first(principal, kept)) is not None:
                return answers.again(RememberResponse, first)
            verdict = self._gate.known(principal, kept, checked.position) or await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not accepted
            )
            if verdict.effect is Effect.HOLD:
                await self._writing.check_target(principal, kept)
                told = partial(answers.pending_remember, kept)
                return await self._governance.hold(principal, kept, verdict, told, guard=checked.position)
            return await self._writing.stored(principal, kept, checked, verdict.by_rule)

        return await self._secrets.checking(principal.tenant, work, request.run_id)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        self._access.authorise(principal, Permission.READ, request.agent_id)
        await self._permits.check(principal, request)
        self._budgets.check_recall(principal, request.agent_id)
        answer = await self._recalling.recall(principal, request)
        self._budgets.charge_recall(principal, request.agent_id, len(answer.results))
        return answer

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        accepted = self._removing.accepted_forget(principal, request)

        async def work(checked: Checked) -> ForgetResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ForgetResponse, first)
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                told = partial(answers.pending_forget, kept, ledger=self._parts.ledger.name)
                return await self._governance.hold(principal, kept, verdict, told, guard=checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.forgotten(principal, kept, guard=checked.position, rule=rule)

        return await self._secrets.checking(principal.tenant, work)

    async def merge(
        self, principal: Principal, request: MergeRequest, along: Along | None = None
    ) -> MergeResponse:
        accepted = self._removing.accepted_merge(principal, request)

        async def work(checked: Checked) -> MergeResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(MergeResponse, first)
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                told = partial(answers.pending_merge, kept)
                return await self._governance.hold(principal, kept, verdict, told, guard=checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.merged(principal, kept, checked, rule=rule, along=along)

        return await self._secrets.checking(principal.tenant, work)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        accepted = self._removing.accepted_expire(principal, request)

        async def work(checked: Checked) -> ExpireResponse:
            kept = checked.kept(accepted)
            if (first := await self._first(principal, kept)) is not None:
                return answers.again(ExpireResponse, first)
            await self._notes.flush()  # rules that count go by fresh recall marks, as expiry does
            verdict = await self._verdict(principal, kept, checked)
            if verdict and verdict.effect is Effect.HOLD:
                return await self._hold_expire(principal, kept, verdict, checked.position)
            rule = verdict.by_rule if verdict else None
            return await self._removing.expired(principal, kept, guard=checked.position, rule=rule)

        return await self._secrets.checking(principal.tenant, work)

    async def _first(self, principal: Principal, request: Held) -> Committed | None:
        """What was answered when the same request came with the same key before; whatever has happened since."""
        is_dry = isinstance(request, ForgetRequest | MergeRequest | ExpireRequest) and request.dry_run
        known = None if is_dry else answers.once(principal, request, self._parts.canonical)
        if known is None:
            return None
        return await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())

    async def _verdict(
        self, principal: Principal, request: ForgetRequest | MergeRequest | ExpireRequest, checked: Checked
    ) -> Verdict | None:
        """What the rules say. A dry run changes nothing, so nobody asks them."""
        return None if request.dry_run else await self._gate.judged(principal, request, checked.position)

    async def is_held(self, principal: Principal, request: Held) -> bool:
        """Whether a person would have to look at this first. Nothing is written; a rule that denies it raises."""

        async def work(checked: Checked) -> bool:
            # No commit tells that the rules have changed meanwhile, so it is asked.
            if (await self._parts.ledger.guard(principal.tenant)).position != checked.position:
                raise ConflictError(reason="secrets_changed")
            kept = checked.kept(request) if isinstance(request, RememberRequest) else request
            verdict = await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not request, is_trial=True
            )
            return verdict.effect is Effect.HOLD

        run_id = request.run_id if isinstance(request, RememberRequest) else None
        return await self._secrets.checking(principal.tenant, work, run_id)

    async def _hold_expire(
        self, principal: Principal, request: ExpireRequest, verdict: Verdict, guard: int
    ) -> ExpireResponse:
        """An expiry that forgets is shown, and carried out, as forgetting exactly what it matched."""
        told = partial(answers.pending_expire, request)
        if request.action is not ExpireAction.FORGET:
            return await self._governance.hold(principal, request, verdict, told, guard=guard)
        matched = await self._removing.matching_policy(principal, request)
        ids = tuple(record.id for record in matched)
        forget = ForgetRequest(
            agent_id=request.agent_id, user_id=request.user_id, ids=ids, reason=request.reason
        )
        return await self._governance.hold(principal, request, verdict, told, guard=guard, staged=forget)
