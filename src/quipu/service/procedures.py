"""Procedures: memory that acts. A step is a new version of the machine, written like any other memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.model.operations import RememberRequest, StepRequest, UpdateStrategy
from quipu.model.outcomes import RememberResponse, StepResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record, State
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import procedures
from quipu.rules.procedures import Machine
from quipu.rules.texts import is_keepable
from quipu.service.access import Access

_MOST_FACTS = 256
_MOST_TRIGGERS = 10_000
Remember = Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]


class Procedures:
    """Steps machines. The write itself is an ordinary remember, so it is authorised, checked, held and journaled."""

    def __init__(self, parts: Parts, access: Access, remember: Remember) -> None:
        self._parts, self._access, self._remember = parts, access, remember

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
        if request.if_version is not None and request.if_version != record.version:
            raise ConflictError(f"The procedure is at version {record.version}.", reason="version_mismatch")
        after = machine
        if request.replay is not None:
            after = procedures.replayed(after, request.replay, request.facts)
        if request.trigger is not None:
            after = procedures.stepped(after, request.trigger, request.facts)
        if not keeps:
            return _told(record, after)
        written = await self._remember(
            principal,
            RememberRequest(
                agent_id=record.agent_id,
                type=MemoryType.PROCEDURAL,
                content={**content, "current": after.current},
                id=record.id,
                update_strategy=UpdateStrategy.MERGE,
                if_version=record.version,
                user_id=record.user_id,
                approval_required=request.approval_required,
                idempotency_key=request.idempotency_key,
            ),
        )
        return _written(record, machine, after, written)

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
        content: JsonObject = json.loads(record.content)
        if next(procedures.faults(content), None) is not None:
            # Written before machines were checked, or behind our back: it is not stepped.
            raise ConflictError("This procedure is not a valid machine.", reason="invalid_procedure")
        return record, procedures.machine(content), content


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
