"""Procedures: memory that acts. A step is an ordinary change of a memory: redacted, judged, held, journaled like any."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quipu.errors import ConflictError, ForbiddenError
from quipu.ledger.commit import Committed
from quipu.ledger.ledger import Ledger
from quipu.memory.model import UpdateRequest
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write, once_of
from quipu.memory.read_log import ReadLog, RecallBudget
from quipu.memory.remember import Remember, held_fields
from quipu.memory.scope import Scopes, no_record, reaches
from quipu.memory.views import is_secret
from quipu.model.machine import Machine, machine, stored
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.value import JsonObject
from quipu.operation import AnyBinding, Binding, Context
from quipu.procedures import operations as ops
from quipu.procedures.machine import Note, Table, facts_of, life, replayed, unreachable
from quipu.procedures.model import GetProcedureRequest, ProcedureView, StepRequest, StepResponse

#: What a step says of itself as the write that it is.
_OF_THE_WRITE = ("stored_at", "stores", "stores_pending", "seq", "store", "warnings")


@dataclass(frozen=True, slots=True)
class _Procedure:
    """A machine that is remembered."""

    record: Record
    content: JsonObject
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedures:
    """Steps machines and shows them."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    remember: Remember
    read_log: ReadLog
    budget: RecallBudget

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (Binding(ops.STEP, self.step), Binding(ops.GET_PROCEDURE, self.show))

    async def step(self, ctx: Context, request: StepRequest) -> StepResponse:
        """Take a step. Of two at once one wins; the other learns that the version has moved on."""
        found = await self._found(ctx, request.id, request.agent_id)
        once = once_of(ctx.principal, ops.STEP.name, request) if request.is_kept else None
        if once is not None:
            # The memory was read before: what a repetition finds moved on by the first call, it also finds answered.
            once = replace(once, record_ids=(found.record.id,))  # a held step's answer names states too
            write = self._write(found, found.machine)
            if (first := await self.pipeline.first_answer(ctx, write, once)) is not None:
                return first
        record = found.record
        if request.if_version not in (None, record.version):
            raise ConflictError(f"The procedure is at version {record.version}.", reason="version_mismatch")
        after, note = _moved(found.machine, request)
        if not request.is_kept:
            await self._shown(ctx, record)
            return _standing(record, after)
        asked = UpdateRequest(
            id=record.id,
            agent_id=record.agent_id,
            user_id=record.user_id,
            content={**found.content, "current": after.current},
            if_version=record.version,
            approval_required=request.approval_required,
            reasoning=None if note is None else note.text,
            idempotency_key=request.idempotency_key,
            run_id=request.run_id,
            node_id=request.node_id,
        )
        return await self.pipeline.write(ctx, self._write(found, after), asked, once=once)

    def _write(self, found: _Procedure, after: Machine) -> Write[UpdateRequest, StepResponse]:
        """The change of the memory, judged and held as such, and answered as a step."""
        record = found.record

        async def plan(planning: Planning, request: UpdateRequest) -> Plan[StepResponse]:
            planned = await self.remember.plan_update(planning, request)

            def answer(done: Sequence[Committed]) -> StepResponse:
                written = planned.answer(done)
                return _standing(replace(record, version=record.version + 1), after).model_copy(
                    update={name: getattr(written, name) for name in _OF_THE_WRITE}
                )

            return Plan(commits=planned.commits, answer=answer, before=planned.before, after=planned.after)

        def held(_: UpdateRequest, held: Held) -> StepResponse:
            """A step that waits for a person has not been taken."""
            waiting = _standing(record, found.machine)
            return waiting.model_copy(update={"stored_at": held.at, **held_fields(held)})

        return Write(operation="update", request=UpdateRequest, response=StepResponse, plan=plan, held=held)

    async def show(self, ctx: Context, request: GetProcedureRequest) -> ProcedureView:
        """A procedure with the life it has led so far."""
        found = await self._found(ctx, request.id, request.agent_id)
        record, known = found.record, found.machine
        await self._shown(ctx, record)
        versions = await self.ledger.versions(ctx.tenant, record.id)
        # One more than is shown: what the oldest of them is explained by.
        some = versions[-request.limit - 1 :]
        steps = life(some, await self.ledger.reasons(ctx.tenant, record.id))
        return ProcedureView(
            id=record.id,
            agent_id=record.agent_id,
            version=record.version,
            name=known.name,
            machine=dict(found.content),
            current=known.current,
            available_triggers=Table(known).triggers(known.current),
            unreachable=unreachable(known),
            facts=facts_of(known.transitions),
            life=steps[-request.limit :],
            is_cut=len(versions) > request.limit,
        )

    async def _found(self, ctx: Context, record_id: str, agent_id: str | None) -> _Procedure:
        record = (await self.ledger.records(ctx.tenant, [record_id])).get(record_id)
        stores = await self.scopes.stores(ctx.tenant)
        if (
            record is None
            or record.standing != "live"
            or record.is_expired(ctx.clock())
            or not reaches(ctx.principal, record, stores)
            or agent_id not in (None, record.agent_id)
        ):
            raise no_record()
        if record.type != "procedural":
            raise ConflictError("This memory is no procedure.", reason="type_mismatch")
        if is_secret(record) and not ctx.principal.may(Permission.ADMIN):
            raise ForbiddenError(
                hint="The procedure is labelled secret, so it needs the permission memory:admin."
            )
        content = stored(record.content)  # checked again: it may have been altered behind the journal's back
        return _Procedure(record, content, machine(content))

    async def _shown(self, ctx: Context, record: Record) -> None:
        """A read like any other: it counts, and the journal says it."""
        async with self.budget.reserved(ctx, record.agent_id, 1) as allowed:
            allowed.spend(1)
        self.read_log.read(ctx, record.agent_id, [record])


def _moved(before: Machine, request: StepRequest) -> tuple[Machine, Note | None]:
    """The machine after what was asked for, and what is noted of it."""
    after = before if request.replay is None else replayed(before, request.replay, request.facts)
    if request.trigger is None:
        return after, None
    taken = Table(after).taken(after.current, request.trigger, request.facts)
    # Of a replay only its end is kept: no single trigger says how it came there.
    note = Note.of(taken) if request.replay is None else None
    return replace(after, current=taken.dest), note


def _standing(record: Record, known: Machine) -> StepResponse:
    table = Table(known)
    return StepResponse(
        id=record.id,
        version=record.version,
        current=known.current,
        available_triggers=table.triggers(known.current),
        facts=facts_of(table.onward(known.current)),
    )
