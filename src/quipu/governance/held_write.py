"""A held write on its way to being carried out: read again, redacted with what is a secret by now, and planned.

Who wrote it stays its author, with the reach that the author had, and it gets the ids that were promised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import Fault, InvalidError, NotFoundError
from quipu.governance import diffs
from quipu.governance.model import DecideRequest, Edit, Proposal
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.ledger.commit import Close
from quipu.ledger.ledger import Kept
from quipu.memory.model import ForgetRequest, MergeRequest, RememberRequest, UpdateRequest
from quipu.memory.pipeline import Guard, Pipeline, Plan, Planning, Write, without_foreign_vector
from quipu.memory.service import MemoryService
from quipu.model.principal import Permission, Principal
from quipu.operation import Context, Request, invalid

_RECALL = "recall"


@dataclass(frozen=True, slots=True)
class HeldWrite:
    """What waits, and what it asks for without today's secrets; a recall asks for no write."""

    kept: Kept[Proposal]
    request: Request | None
    guard: Guard

    @property
    def proposal(self) -> Proposal:
        return self.kept.value


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWrites:
    """Reads and plans what waits."""

    pipeline: Pipeline
    memory: MemoryService
    scope: ReviewerScope
    #: Writes of other capabilities that a person may have to approve.
    others: tuple[Write[Any, Any], ...] = ()

    @property
    def writes(self) -> Mapping[str, Write[Any, Any]]:
        """Every write that may wait, by operation."""
        return {**self.memory.writes, **{write.operation: write for write in self.others}}

    async def read(self, tenant: str, kept: Kept[Proposal]) -> HeldWrite:
        """What a proposal asks for, read by its own model, and redacted with what is a secret by now."""
        proposal = kept.value
        body = proposal.request or {}
        run_id = body.get("run_id")
        guard = await self.pipeline.redactor.guard(tenant, run_id if isinstance(run_id, str) else None)
        if proposal.operation == _RECALL:
            return HeldWrite(kept, None, guard)
        write = self.writes.get(proposal.operation)
        if write is None or proposal.request is None:
            raise InvalidError("What waits here cannot be read.", reason="altered_proposal")
        request = write.request.parse(body)
        return HeldWrite(kept, without_foreign_vector(request, guard.clean(request)), guard)

    async def plan(self, ctx: Context, waiting: HeldWrite, said: DecideRequest | None = None) -> Plan[Any]:
        """What an approval does, and what the reviewer adds to it."""
        request = waiting.request
        if said is not None and said.does_more and not isinstance(request, RememberRequest | UpdateRequest):
            raise invalid(
                [Fault("/edit", "bad_value", "nothing: only a memory is edited, merged or supersedes")]
            )
        if request is None:
            return diffs.NOTHING
        if said is not None and said.edit is not None:
            request = self._edited(waiting, said.edit)
        planning = self._planning(ctx, waiting)
        plan = await self.writes[waiting.proposal.operation].plan(planning, request)
        if said is not None and said.merge_into is not None:
            plan = await self._merged(ctx, planning, request, plan, said)
        if said is not None and said.supersedes:
            plan = await self._superseding(ctx, planning, request, plan, said)
        return plan

    def _planning(self, ctx: Context, waiting: HeldWrite) -> Planning:
        """As its author, with the reach that the author had, and the ids that were promised."""
        promised = waiting.proposal.listed("makes")
        fresh = iter([name for name in promised if name not in _named(waiting.request)])

        def new_id(prefix: str) -> str:
            return (next(fresh, None) if prefix == "mem" else None) or self.pipeline.new_id(prefix)

        writer = author(ctx.tenant, waiting.proposal)
        return self.pipeline.planning(writer, ctx.clock(), waiting.guard, new_id=new_id)

    def _edited(self, waiting: HeldWrite, edit: Edit) -> Request:
        """The request with what the reviewer changed: valid, and checked again."""
        assert waiting.request is not None
        body = waiting.request.model_dump(mode="json", exclude_unset=True)
        changed = edit.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        if "content" in changed:
            body.pop("embedding", None)  # a vector of the caller's is one of the caller's words
        try:
            return waiting.guard.clean(type(waiting.request).parse({**body, **changed}))
        except InvalidError as error:
            faults = [replace(fault, pointer=f"/edit{fault.pointer}") for fault in error.faults]
            raise type(error)(error.message, reason=error.reason, hint=error.hint, faults=faults) from error

    async def _merged(
        self, ctx: Context, planning: Planning, request: Request, plan: Plan[Any], said: DecideRequest
    ) -> Plan[Any]:
        """The memory goes into another instead of standing beside it."""
        assert said.merge_into is not None
        fresh = diffs.fresh_record(plan)
        if not isinstance(request, RememberRequest) or request.id is not None or fresh is None:
            raise invalid(
                [Fault("/merge_into", "bad_value", "nothing: only a new memory is merged into another")]
            )
        merge, wanted = self.memory.merge, said.merge_into
        scope = await merge.scopes.of(planning, request.agent, request.user_id)
        canonical = await merge.canonical(scope, wanted.canonical, planning.now)
        await self.scope.check_records(ctx.principal, [canonical])
        asked = MergeRequest(
            agent_id=request.agent,
            canonical=canonical.id,
            duplicates=(fresh.id,),
            strategy=wanted.strategy,
            run_id=request.run_id,
            node_id=request.node_id,
        )
        return await merge.planned(planning, asked, canonical, [fresh])

    async def _superseding(
        self, ctx: Context, planning: Planning, request: Request, plan: Plan[Any], said: DecideRequest
    ) -> Plan[Any]:
        """Other memories are forgotten with it."""
        assert isinstance(request, RememberRequest | UpdateRequest)
        wanted = ForgetRequest(
            agent_id=request.agent, user_id=request.user_id, ids=said.supersedes, reason=said.reason
        )
        forget = await self.memory.forget.plan(planning, wanted)
        closed = {
            change.id for commit in forget.commits for change in commit.changes if isinstance(change, Close)
        }
        own = {record.id for record in plan.after}
        if closed != set(said.supersedes) or closed & own:
            raise NotFoundError("There is no such memory.", reason="record")
        await self.scope.check_records(ctx.principal, forget.before)
        return replace(plan, commits=(*forget.commits, *plan.commits), before=(*forget.before, *plan.before))


def author(tenant: str, proposal: Proposal) -> Principal:
    """Who wrote it, as far as planning and rules ask."""
    traits = proposal.traits
    return Principal(
        tenant=tenant,
        name=proposal.writer,
        permissions=frozenset({Permission.ADMIN}) if traits.get("admin") else frozenset(),
        trust=traits.get("trust", "unknown"),
        review_stores=tuple(traits.get("reach", ("*",))),
    )


def _named(request: Request | None) -> set[str]:
    """The memories that a request changes by their ids."""
    items: Sequence[Any] = getattr(request, "items", None) or (request,)
    return {name for item in items if (name := getattr(item, "id", None)) is not None}
