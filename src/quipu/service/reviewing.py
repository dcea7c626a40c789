"""What a reviewer sees of a held write, and what a decision carries out: effect and decision are one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from quipu.errors import (
    ConflictError,
    InternalError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnsupportedError,
)
from quipu.model.change import Approval, Close, Commit, Demote, Erase, Proposal, Put
from quipu.model.governance import Decision, Diff, Review
from quipu.model.operations import (
    BatchRequest,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import approvals, diffs, editing, staging, validation
from quipu.rules.chain import exact
from quipu.rules.staging import Waiting
from quipu.service.committing import Plan, carried_out
from quipu.service.governance import Governance, held_request
from quipu.service.removing import Removing
from quipu.service.resembling import Resembling
from quipu.service.restoring import Restoring
from quipu.service.secrets import Checked, CheckedRuns, Secrets
from quipu.service.together import Together
from quipu.service.writing import Writing

_ATTEMPTS = 16


class Reviewing:
    """Shows and decides."""

    def __init__(
        self,
        parts: Parts,
        governance: Governance,
        writing: Writing,
        removing: Removing,
        restoring: Restoring,
        together: Together,
        resembling: Resembling,
        secrets: Secrets,
    ) -> None:
        self._parts, self._governance, self._secrets = parts, governance, secrets
        self._restoring, self._together = restoring, together
        self._writing, self._removing, self._resembling = writing, removing, resembling

    # -- showing ------------------------------------------------------------------------------------------------

    async def review(self, principal: Principal, proposal_id: str, *, with_related: bool = True) -> Review:
        """A held write with what a yes would change now, and the memories that are like it where they are wanted."""
        proposal = await self._governance.found(principal, proposal_id)
        told = staging.shown(proposal)
        # Who wrote it sees it too, but what is there only as far as they may read.
        may_look = principal.may(Permission.REVIEW) or principal.may(Permission.READ)
        if proposal.status != "pending" or not proposal.request or not may_look:
            return Review(proposal=told)
        try:
            request = held_request(proposal)
        # It was altered from outside; whoever says yes to it is refused.
        except (AttributeError, KeyError, TypeError, ValueError):
            return Review(proposal=told, problem="What waits here is not what was held.")
        checked = await self._secrets.checked_all(principal.tenant, _memories(request))
        seen = await self._seen(principal, proposal, request, checked, with_related=with_related)
        return replace(seen, proposal=told)

    async def _seen(
        self,
        principal: Principal,
        proposal: Proposal,
        request: Waiting,
        checked: CheckedRuns,
        *,
        with_related: bool = False,
    ) -> Review:
        """What a yes would do is read off the very plan that a yes carries out."""
        try:
            planned = await self._planned(principal, proposal, request, checked)
        except QuipuError as error:
            # As things stand it cannot be carried out; that too is something that can change before the decision.
            return Review(proposal=proposal, problem=error.message, etag=self._etag(proposal, error.reason))
        commits = (*planned.ahead, *([] if planned.commit is None else [planned.commit]))
        diff = await self._diff(principal, commits, with_related=with_related)
        return Review(proposal=proposal, diff=diff, etag=self._etag(proposal, diffs.essence(diff)))

    def _etag(self, proposal: Proposal, essence: Json) -> str:
        return hashlib.sha256(proposal.salt + self._parts.canonical(exact(essence))).hexdigest()[:32]

    async def _diff(self, principal: Principal, commits: Sequence[Commit], *, with_related: bool) -> Diff:
        changes = [change for commit in commits for change in commit.changes]
        ids = [change.record.id for change in changes if isinstance(change, Put) and change.expects]
        into = {c.merged_into for c in changes if isinstance(c, Close) and c.merged_into} - {*ids}
        ids += [*into, *(change.id for change in changes if isinstance(change, Erase))]
        current = await self._parts.ledger.read(principal.tenant, ids)
        added = [change.record for change in changes if isinstance(change, Put) and not change.expects]
        removed = [change.record for change in changes if isinstance(change, Close)]
        removed += [current[c.id] for c in changes if isinstance(c, Erase) and c.id in current]
        changed = [
            (current[change.record.id], change.record)
            for change in changes
            if isinstance(change, Put) and change.expects
        ]
        changed += [(c.record, _demoted(c.record)) for c in changes if isinstance(c, Demote)]
        fresh = [*added, *(after for _, after in changed)]
        related: Sequence[tuple[Record, float]] = ()
        if with_related and len(fresh) == 1:
            related = await self._resembling.to(fresh[0], await self._governance.sight.stores(principal))
        stays = [current[name] for name in into if name in current]
        return diffs.diff(added, removed, changed, related, stays)

    # -- deciding -----------------------------------------------------------------------------------------------

    async def decide(
        self, principal: Principal, proposal_id: str, decision: Decision, *, is_in_place: bool = False
    ) -> Any:
        """What the write that was let through answered; None for a no, and for a yes that waits for others."""

        async def work(_: Checked) -> Any:
            proposal, request = await self._governance.to_decide(
                principal, proposal_id, approved=decision.approved, is_in_place=is_in_place
            )
            # What was written in a run is checked with the secrets of that run, whoever edits it.
            memories = () if request is None else _memories(request)
            checked = await self._secrets.checked_all(principal.tenant, memories)
            said = replace(decision, reason=checked.reason(decision.reason))
            await self._governance.sight.check_decision(principal, said)
            if not said.approved or request is None:
                commit = self._governance.settling(principal, proposal, said)
                await self._parts.ledger.commit(commit, guard=checked.position)
                return None
            return await self._approved(principal, proposal, request, said, checked)

        for _ in range(_ATTEMPTS):
            try:
                return await self._secrets.checking(principal.tenant, work)
            except ConflictError as conflict:
                if conflict.reason != "decided_meanwhile":
                    raise
        raise ConflictError("Others keep deciding on this.", reason="decided_meanwhile")

    async def _approved(
        self,
        principal: Principal,
        proposal: Proposal,
        request: Waiting,
        said: Decision,
        checked: CheckedRuns,
    ) -> Any:
        seen = None
        if said.etag is not None or proposal.approvals > 1:
            seen = (await self._seen(principal, proposal, request, checked)).etag
            if said.etag not in (None, seen):
                raise ConflictError(
                    "What this would change has changed since it was shown.",
                    reason="stale_proposal",
                    hint="Look at it again, then decide.",
                )
        if proposal.approvals > 1:
            others = await self._others(principal, proposal, seen or "", said)
            if len(others) + 1 < proposal.approvals:
                mine = Approval(reviewer=principal.name, at=self._parts.clock(), etag=seen or "")
                commit = self._governance.approving(principal, proposal, [*others, mine])
                await self._parts.ledger.commit(commit, guard=checked.position)
                return None
            proposal = replace(proposal, given=others)
        if not isinstance(request, RememberRequest) and _does_more(said):
            raise InvalidError.at("/edit", "bad_value", "Only a memory is edited, merged or supersedes.")
        if said.merge_into is not None:
            said = replace(said, merge_into=await self._canonical(principal, request, said.merge_into))
        before = [self._governance.settling(principal, proposal, said)]
        guard = checked.position
        if isinstance(request, RecallRequest):
            # Nothing is carried out: who asked asks again, and is let through once.
            await self._parts.ledger.commit(*before, guard=guard)
            return None
        match request:
            case RememberRequest():
                kept = self._as_said(request, said, checked)
                return await carried_out(
                    self._parts.ledger,
                    partial(self._remembering, principal, proposal, kept, said, checked),
                    before=before,
                    is_fixed=kept.if_version is not None,
                    guard=guard,
                )
            case ForgetRequest():
                return await self._removing.forgotten(principal, checked.kept(request), before, guard)
            case MergeRequest():
                return await self._removing.merged(principal, checked.kept(request), checked, before)
            case ExpireRequest():
                return await self._removing.expired(principal, checked.kept(request), before, guard)
            case RestoreRequest():
                return await self._restoring.restored(principal, checked.kept(request), before, guard)
            case BatchRequest():
                whole = replace(request, items=tuple(checked.kept(item) for item in request.items))
                return await carried_out(
                    self._parts.ledger,
                    lambda: self._together.plan(principal, whole, checked),
                    before=before,
                    is_fixed=any(item.if_version is not None for item in whole.items),
                    guard=guard,
                )
            case _:
                assert_never(request)

    async def _others(
        self, principal: Principal, proposal: Proposal, etag: str, said: Decision
    ) -> tuple[Approval, ...]:
        """Yeses of other people to what would happen now.

        One to something that has changed since does not count, nor does that of somebody who was shut out since.
        """
        if _does_more(said):
            raise UnsupportedError(
                "Where several must agree, they agree to what was proposed.",
                reason="review_action",
                hint="Reject it, and have the changed one proposed.",
            )
        tokens, now = await self._parts.ledger.tokens(principal.tenant), self._parts.clock()
        return tuple(
            one
            for one in proposal.given
            if one.reviewer != principal.name and one.etag == etag and approvals.stands(one, tokens, now)
        )

    def _as_said(self, request: RememberRequest, said: Decision, checked: CheckedRuns) -> RememberRequest:
        """The memory as it is kept: edited, valid, and checked again, as a secret may have been registered since."""
        if said.merge_into is not None and request.id is not None:
            raise InvalidError.at("/merge_into", "bad_value", "Only a new memory can be merged into another.")
        if said.edit is not None:
            try:
                request = validation.checked_remember(editing.edited(request, said.edit), self._parts.limits)
            except InvalidError as error:
                raise error.within("/edit") from error
        return checked.kept(request)

    # -- what a yes does ----------------------------------------------------------------------------------------

    async def _planned(
        self, principal: Principal, proposal: Proposal, request: Waiting, checked: CheckedRuns
    ) -> Plan[Any]:
        match request:
            case RememberRequest():
                return await self._remembering(principal, proposal, request, Decision(approved=True), checked)
            case ForgetRequest():
                return await self._removing.forgetting(principal, request)
            case MergeRequest():
                return await self._removing.merging(principal, request, checked)
            case ExpireRequest():
                return await self._removing.expiring(principal, request)
            case RestoreRequest():
                return await self._restoring.restoration(principal, request)
            case BatchRequest():
                return await self._together.plan(principal, request, checked)
            case RecallRequest():
                return Plan(None, lambda _: None)
            case _:
                assert_never(request)

    async def _remembering(
        self,
        principal: Principal,
        proposal: Proposal,
        request: RememberRequest,
        said: Decision,
        checked: CheckedRuns,
    ) -> Plan[Any]:
        plan: Plan[Any]
        if request.id is not None:
            plan = await self._writing.change(principal, request, checked)
        else:
            plan = await self._writing.creation(principal, request, proposal.record_id or "")
        if said.merge_into is not None:
            plan = await self._merged(principal, request, plan, said, said.merge_into, checked)
        if said.supersedes:
            forget = await self._superseding(principal, request, said, proposal.record_id)
            plan = replace(plan, ahead=(forget, *plan.ahead))
        return plan

    async def _canonical(self, principal: Principal, request: Waiting, into: str) -> str:
        """The id of the memory that is merged into. It may be named, and a name is no word for the journal."""
        asked = MergeRequest(agent_id=request.agent_id, canonical=into, duplicates=())
        found, *_ = await self._removing.meant(principal, asked)
        return found.id

    async def _merged(
        self,
        principal: Principal,
        request: RememberRequest,
        plan: Plan[Any],
        said: Decision,
        into: str,
        checked: CheckedRuns,
    ) -> Plan[Any]:
        """The memory is made and merged away in one go: it has its id, its history and its survivor."""
        if plan.commit is None or not isinstance(put := plan.commit.changes[0], Put):
            raise InternalError("A new memory was planned without a version.")
        wanted = MergeRequest(
            agent_id=request.agent_id, canonical=into, duplicates=(put.record.id,), strategy=said.strategy
        )
        merge = await self._removing.merging(principal, wanted, checked, newcomer=put.record)
        return Plan(merge.commit, merge.answer, (plan.commit,))

    async def _superseding(
        self, principal: Principal, request: RememberRequest, said: Decision, own: str | None
    ) -> Commit:
        wanted = ForgetRequest(
            agent_id=request.agent_id, user_id=request.user_id, ids=said.supersedes, reason=said.reason
        )
        plan = await self._removing.forgetting(principal, wanted)
        gone = (
            {c.record.id for c in plan.commit.changes if isinstance(c, Close)} if plan.commit else set[str]()
        )
        if plan.commit is None or gone != set(said.supersedes) or own in gone:
            raise NotFoundError("A record that it is to supersede is not there.", reason="record")
        return plan.commit


def _memories(request: Waiting | None) -> tuple[RememberRequest, ...]:
    """The memories that a held request would write."""
    if isinstance(request, BatchRequest):
        return request.items
    return (request,) if isinstance(request, RememberRequest) else ()


def _does_more(said: Decision) -> bool:
    """Whether a yes does more than was proposed."""
    return said.edit is not None or said.merge_into is not None or bool(said.supersedes)


def _demoted(record: Record) -> Record:
    return replace(record, details={**record.details, "demoted": True})
