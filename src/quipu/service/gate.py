"""The gate: every write is judged here, whatever path it came by, before anything of it is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from quipu.errors import ConflictError, ForbiddenError
from quipu.model.change import Commit
from quipu.model.governance import Effect, Found, Verdict, WriteFacts
from quipu.model.journal import Draft, Op
from quipu.model.operations import (
    BatchRequest,
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.model.search import Selection, Snapshot
from quipu.ports.parts import Parts
from quipu.rules import drafting, policy
from quipu.rules.policy import Asked
from quipu.rules.policy_classes import classes, said
from quipu.rules.staging import Write, operation_of
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.gate_verdicts import TenantVerdicts
from quipu.service.policies import Policies
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.secrets import Secrets

_EVER = frozenset({State.LIVE, State.ARCHIVED, State.FORGOTTEN})


class Gate:
    """Asks the rules; looks up only what they ask for."""

    def __init__(
        self, parts: Parts, access: Access, removing: Removing, resembling: Resembling, policies: Policies
    ) -> None:
        self._parts, self._access, self._policies = parts, access, policies
        self._removing, self._resembling = removing, resembling
        self._secrets = Secrets(parts, access)
        self._verdicts = TenantVerdicts()

    def known(self, principal: Principal, request: RememberRequest, position: int) -> Verdict | None:
        """What was said of another memory of the writer's, where it holds for this one: then nobody has to be asked."""
        rules = self._policies.at_hand(principal.tenant, position)
        if rules is None or request.approval_required:
            return None
        return self._verdicts.by(principal.tenant, rules).of(_writer(principal, request))

    async def judged(
        self,
        principal: Principal,
        request: Write,
        position: int,
        *,
        has_secret: bool = False,
        is_imported: bool = False,
        count: int = 1,
        is_trial: bool = False,
    ) -> Verdict:
        """Let through, or held; ForbiddenError where a rule denies it. `position`: what it was checked against.

        What is denied is journaled, as is whatever else a rule does; of a trial nobody needs to know.
        """
        rules = await self._policies.in_force(principal.tenant, position)
        known, writer = None, _writer(principal, request)
        if isinstance(request, RememberRequest) and not (
            request.approval_required or is_imported or count > 1
        ):
            known = self._verdicts.by(principal.tenant, rules)
            if (verdict := known.of(writer)) is not None:
                return verdict
        now = self._parts.clock()
        facts = WriteFacts(
            operation=operation_of(request),
            agent_id=request.agent_id,
            principal=principal.name,
            is_admin=principal.may(Permission.ADMIN),
            count=count,
            is_hard=isinstance(request, ForgetRequest) and request.hard_delete,
            is_forgetting=isinstance(request, ExpireRequest) and request.action is ExpireAction.FORGET,
            is_imported=is_imported,
        )
        if asked := policy.open_questions(rules, facts, now):
            facts = await self._looked_up(principal, request, facts, asked, has_secret)
        verdict = policy.decided(
            rules, facts, now, caller_asks=request.approval_required, default=self._policies.default
        )
        if verdict.effect is Effect.DENY:
            await self._refuse(principal, facts, verdict, position, is_trial=is_trial)
        if known is not None and not asked:
            known.keep(writer, verdict)
        return verdict

    async def judged_alike(
        self, principal: Principal, agent_id: str, position: int, *, is_imported: bool, count: int
    ) -> Verdict | None:
        """The verdict on whatever of so many an agent remembers without asking for a person, if all are let through.

        None where the rules want to look at each, or one holds or denies them.
        """
        rules = await self._policies.in_force(principal.tenant, position)
        now = self._parts.clock()
        facts = WriteFacts(
            operation="remember",
            agent_id=agent_id,
            principal=principal.name,
            is_admin=principal.may(Permission.ADMIN),
            count=count,
            is_imported=is_imported,
        )
        if policy.open_questions(rules, facts, now):
            return None
        verdict = policy.decided(rules, facts, now, default=self._policies.default)
        return verdict if verdict.effect is Effect.ALLOW else None

    async def judged_recall(self, principal: Principal, request: RecallRequest, position: int) -> Verdict:
        """The same for a recall, which only a rule that names recalls is about. The default is not."""
        facts = WriteFacts(
            operation=operation_of(request),
            agent_id=request.agent_id,
            principal=principal.name,
            is_admin=principal.may(Permission.ADMIN),
        )
        rules = await self._policies.in_force(principal.tenant, position)
        verdict = policy.decided(rules, facts, self._parts.clock(), caller_asks=request.approval_required)
        if verdict.effect is Effect.DENY:
            await self._refuse(principal, facts, verdict, position)
        return verdict

    async def _refuse(
        self,
        principal: Principal,
        facts: WriteFacts,
        verdict: Verdict,
        position: int,
        *,
        is_trial: bool = False,
    ) -> None:
        draft = Draft(
            op=Op.DENY,
            actor=principal.name,
            at=self._parts.clock(),
            agent=facts.agent_id if is_keepable(facts.agent_id) else None,
            detail={"operation": facts.operation, "rule": verdict.rule},
        )
        if is_trial:
            if (await self._parts.ledger.guard(principal.tenant)).position != position:
                raise ConflictError("The rules have changed meanwhile.", reason="secrets_changed")
        else:
            # Of a removal or a recall nobody has checked yet whose it is.
            told = await self._secrets.noted([Commit(tenant=principal.tenant, draft=draft)])
            # Refused by the ledger when rules have changed, as a write would be.
            await self._parts.ledger.commit(*told, guard=position)
        raise ForbiddenError(
            f"A rule forbids this: {verdict.reason}" if verdict.reason else "A rule forbids this.",
            reason="denied_by_rule",
            hint=f"The rule is {verdict.rule}; `quipu rules show` prints it.",
        )

    async def _looked_up(
        self,
        principal: Principal,
        request: Write,
        facts: WriteFacts,
        asked: frozenset[Asked],
        has_secret: bool,
    ) -> WriteFacts:
        records = await self._records(principal, request, facts.is_imported)
        names = await self._access.store_names(principal.tenant, {record.store_id for record in records})
        is_new = isinstance(request, RememberRequest | RestoreRequest) and bool(records)
        found: set[Found] = {Found.SECRET} if has_secret else set()
        if Asked.FOUND in asked:
            found |= {one for record in records for one in classes(said(record))}
        return replace(
            facts,
            records=tuple(records),
            store_names=tuple(names.items()),
            count=facts.count if is_new or isinstance(request, RememberRequest) else len(records),
            found=frozenset(found),
            is_new_source=Asked.NEW_SOURCE in asked and is_new and await self._is_new_source(records[0]),
            has_conflict=Asked.CONFLICTS in asked
            and is_new
            and await self._resembling.has_conflict(records[0]),
        )

    async def _records(self, principal: Principal, request: Write, is_imported: bool) -> Sequence[Record]:
        """What would be written; of a removal, what would go."""
        match request:
            case RememberRequest():
                return await self._drafted(principal, request, is_imported)
            case ForgetRequest():
                return await self._removing.chosen(principal, request)
            case MergeRequest():
                return await self._removing.meant(principal, request)
            case ExpireRequest():
                return await self._removing.matching_policy(principal, request)
            case RestoreRequest():
                found = await self._parts.ledger.read(principal.tenant, [request.id])
                return tuple(found.values())
            case BatchRequest():
                return [
                    record
                    for item in request.items
                    for record in await self._drafted(principal, item, is_imported)
                ]
            case _:
                assert_never(request)

    async def _drafted(
        self, principal: Principal, request: RememberRequest, is_imported: bool
    ) -> Sequence[Record]:
        now = self._parts.clock()
        latest = self._parts.latest_end(now)
        if request.id is not None:
            scope = await self._access.scope(principal, request.agent_id, request.user_id)
            current = (await self._access.newest(scope, [request.id])).get(request.id)
            if current is None or current.is_emptied:
                return ()  # there is nothing to change, as the writer will be told
            return (drafting.changed_record(current, request, principal=principal, now=now, latest=latest),)
        store = await self._access.store(principal.tenant, request.store)
        return (
            drafting.new_record(
                request,
                record_id="",
                store=store,
                principal=principal,
                now=now,
                import_id="import" if is_imported else None,
                latest=latest,
            ),
        )

    async def _is_new_source(self, record: Record) -> bool:
        """Whether nothing of the agent's has come from there before; what names no source has none that is new."""
        if record.source is None:
            return False
        selection = Selection(
            tenant=record.tenant,
            agent_id=record.agent_id,
            states=_EVER,
            filter={"source": record.source},
            limit=1,
        )
        async for _ in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
            return False
        return True


def _writer(principal: Principal, request: Write) -> tuple[str, str, bool]:
    """All that rules know of a memory before they look at it."""
    return request.agent_id, principal.name, principal.may(Permission.ADMIN)
