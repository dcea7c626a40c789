"""Procedures: memory that acts. A step is a new version of the machine, written like any other memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.model.operations import RememberRequest, StepRequest, UpdateStrategy
from quipu.model.outcomes import RememberResponse, StepResponse
from quipu.model.principal import Permission, Principal
from quipu.model.procedure import Procedure
from quipu.model.record import MemoryType, Record, State
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import procedures, procedures_life
from quipu.rules.procedures import Machine
from quipu.rules.texts import is_keepable
from quipu.service import answers
from quipu.service.access import Access

_MOST_FACTS = 256
_MOST_TRIGGERS = 10_000
Remember = Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]
#: Authorised and valid, as it is before it is written.
Accept = Callable[[Principal, RememberRequest], RememberRequest]


class Procedures:
    """Steps machines. The write itself is an ordinary remember, so it is authorised, checked, held and journaled."""

    def __init__(self, parts: Parts, access: Access, remember: Remember, accepted: Accept) -> None:
        self._parts, self._access = parts, access
        self._remember, self._accepted = remember, accepted

    async def standing(
        self, principal: Principal, record_id: str, agent_id: str | None = None
    ) -> StepResponse:
        """Where a procedure is, and what can be asked of it."""
        self._access.authorise(principal, Permission.READ, agent_id)
        record, machine, _ = await self._machine(principal, record_id, agent_id)
        return _told(record, machine)

    async def step(self, principal: Principal, request: StepRequest) -> StepResponse:
        """Take a step. Of two at once one wins; the other is told that the version has moved on."""
        keeps = request.replay is None if request.persist is None else request.persist
        needs = Permission.WRITE if keeps else Permission.READ
        self._access.authorise(principal, needs, request.agent_id)
        _check(request)
        record, machine, content = await self._machine(principal, request.id, request.agent_id)
        if keeps and (first := await self._first(principal, record, request)) is not None:
            return first
        if request.if_version is not None and request.if_version != record.version:
            raise ConflictError(f"The procedure is at version {record.version}.", reason="version_mismatch")
        after, said = _moved(machine, request)
        if not keeps:
            return _told(record, after)
        written = await self._remember(principal, _asked(record, content, after, said, request))
        return _written(record, machine, after, written)

    async def _first(self, principal: Principal, record: Record, request: StepRequest) -> StepResponse | None:
        """What the same request was answered before, when the procedure had not moved on yet."""
        if request.idempotency_key is None:
            return None
        other: ConflictError | None = None
        for base in reversed(await self._parts.ledger.versions(record.tenant, record.id)):
            machine = procedures_life.machine_of(base)
            if machine is None:
                continue
            try:
                after, said = _moved(machine, request)
                asked = self._accepted(
                    principal, _asked(base, json.loads(base.content), after, said, request)
                )
                once = answers.once(principal, asked, self._parts.canonical)
                done = (
                    None
                    if once is None
                    else await self._parts.ledger.answered(record.tenant, once, self._parts.clock())
                )
            except ConflictError as conflict:  # no step from there, or another one
                other = conflict if conflict.reason == "idempotency_key_mismatch" else other
                continue
            if done is None:
                return None
            return replace(
                _written(base, machine, after, answers.again(RememberResponse, done)), is_replayed=True
            )
        if other is not None:
            raise other
        return None

    async def shown(self, principal: Principal, record_id: str, agent_id: str | None = None) -> Procedure:
        """A procedure with the life it has led so far."""
        self._access.authorise(principal, Permission.READ, agent_id)
        record, machine, content = await self._machine(principal, record_id, agent_id)
        versions = await self._parts.ledger.versions(principal.tenant, record_id)
        notes = await self._parts.ledger.reasons(principal.tenant, record_id)
        return Procedure(
            id=record.id,
            agent_id=record.agent_id,
            version=record.version,
            name=machine.name,
            machine=content,
            current=machine.current,
            available_triggers=machine.available_triggers,
            unreachable=procedures.unreachable(machine),
            facts=procedures_life.facts_of(machine),
            life=procedures_life.life(versions, notes),
        )

    async def _machine(
        self, principal: Principal, record_id: str, agent_id: str | None
    ) -> tuple[Record, Machine, JsonObject]:
        is_mine = await self._access.reach(principal, agent_id)
        named = [record_id] if is_keepable(record_id) else []
        record = (await self._parts.ledger.read(principal.tenant, named)).get(record_id)
        if record is None or not is_mine(record) or record.standing is not State.LIVE:
            raise NotFoundError("There is no such procedure.", reason="record")
        if record.expired(self._parts.clock()):
            raise NotFoundError("There is no such procedure.", reason="record")
        if record.type is not MemoryType.PROCEDURAL:
            raise ConflictError("This memory is no procedure.", reason="type_mismatch")
        content = procedures.stored(record.content)
        return record, procedures.machine(content), content


def _moved(machine: Machine, request: StepRequest) -> tuple[Machine, str | None]:
    """The machine after what was asked for, and what is noted of it."""
    after = machine
    if request.replay is not None:
        after = procedures.replayed(after, request.replay, request.facts)
    if request.trigger is None:
        return after, None
    taken = procedures.Ways(after).taken(after.current, request.trigger, request.facts)
    # Of a replay only its end is kept: no single trigger tells how it came there.
    said = procedures_life.note(taken) if request.replay is None else None
    return replace(after, current=taken.dest), said


def _asked(
    record: Record, content: JsonObject, after: Machine, said: str | None, request: StepRequest
) -> RememberRequest:
    """A step as the ordinary write that it is."""
    return RememberRequest(
        agent_id=record.agent_id,
        type=MemoryType.PROCEDURAL,
        content={**content, "current": after.current},
        id=record.id,
        update_strategy=UpdateStrategy.MERGE,
        if_version=record.version,
        user_id=record.user_id,
        approval_required=request.approval_required,
        idempotency_key=request.idempotency_key,
        reasoning=said,
    )


def _check(request: StepRequest) -> None:
    if request.trigger is None and request.replay is None:
        raise InvalidError.at("/trigger", "missing_field", "A step needs a trigger, or triggers to replay.")
    if len(request.facts) > _MOST_FACTS:
        raise InvalidError.at(
            "/facts", "too_large", "There are too many facts.", accepted=[f"at most {_MOST_FACTS}"]
        )
    if len(request.replay or ()) > _MOST_TRIGGERS:
        raise InvalidError.at(
            "/replay", "too_large", "There are too many triggers.", accepted=[f"at most {_MOST_TRIGGERS:,}"]
        )


def _told(record: Record, machine: Machine) -> StepResponse:
    return StepResponse(
        id=record.id,
        version=record.version,
        stored_at=None,
        current=machine.current,
        available_triggers=machine.available_triggers,
    )


def _written(record: Record, before: Machine, after: Machine, written: RememberResponse) -> StepResponse:
    """A step that waits for a person has not been taken yet."""
    shown = before if written.pending_approval else after
    return StepResponse(
        id=written.id,
        version=record.version if written.pending_approval else record.version + 1,
        stored_at=written.stored_at,
        current=shown.current,
        available_triggers=shown.available_triggers,
        pending_approval=written.pending_approval,
        approval_url=written.approval_url,
        extensions=written.extensions,
    )
