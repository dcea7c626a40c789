"""Commitments: intentions that are kept as entries and fire once, when their condition holds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from quipu.model.change import Commit
from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record
from quipu.model.runs import EventType, Happening
from quipu.model.store import MAIN
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_refs
from quipu.rules.runs_deriving import COMMITMENT_TAG
from quipu.rules.runs_options import MOST, ListOptions
from quipu.rules.runs_wire import entry_id
from quipu.service.committing import Along
from quipu.service.runs_entering import Entering
from quipu.service.runs_memory import Place, RunMemory
from quipu.service.runs_telling import Telling, Told

_log = logging.getLogger("quipu.runs")
#: The tag that commitments are found by; one that has fired has another.
TAG = COMMITMENT_TAG
_FIRED = "commitment-fired"
CONDITIONS = ("time", "predicate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """When a commitment fires: at a moment, or once the memory holds an entry with a tag."""

    due_at: int | None = None
    tag: str | None = None

    @property
    def kind(self) -> str:
        return "time" if self.due_at is not None else "predicate"


class Commitments:
    """What a ref's memory commits somebody to."""

    def __init__(self, parts: Parts, memory: RunMemory, entering: Entering) -> None:
        self._parts, self._memory, self._entering = parts, memory, entering

    async def add(self, principal: Principal, ref: object, intention: str, condition: Condition) -> str:
        """Keep an intention; returns the commitment's id."""
        if (condition.due_at is None) == (condition.tag is None):
            raise InvalidError.at(
                "/condition", "bad_value", "A condition is a time or a tag.", accepted=CONDITIONS
            )
        place = await self._place(principal, ref)
        answer = await self._entering.put(principal, _request(place, intention, _kept(condition, None)))
        if answer.pending_approval:
            raise ConflictError("The commitment waits for approval.", reason="pending_approval")
        return answer.id

    async def fire(
        self, principal: Principal, ref: object, telling: Telling | None = None
    ) -> list[JsonObject]:
        """The events of commitments whose condition holds now and that have not fired yet, each told once."""
        place = await self._place(principal, ref)
        fired: list[JsonObject] = []
        for entry in await self._open(principal, place):
            # Anybody who writes to the ref can write what looks like one.
            condition = _condition(entry.metadata.get(TAG))
            try:
                if condition is None or not await self._holds(principal, place, condition, entry):
                    continue
                payload: JsonObject = {
                    "commitmentId": entry_id(entry),
                    "memoryRef": place.ref,
                    "condition": condition.kind,
                    "memoryId": entry_id(entry),
                }
                event = Happening(type=EventType.COMMITMENT_FIRED, payload=payload)
                along = None if telling is None else Told(telling, partial(_one, event))
                if await self._fired(principal, place, entry, condition, along):
                    fired.append(payload)
            except (ConflictError, ForbiddenError, InvalidError, NotFoundError) as error:
                # Such as by a rule about its words: the others have waited as long.
                _log.warning("A commitment could not be fired: %s", error.reason or error.code)
        return fired

    async def _open(self, principal: Principal, place: Place) -> list[Record]:
        """All that have not fired: the oldest, which a list leaves out first, has waited longest."""
        limit = MOST
        while True:
            found = await self._memory.list(principal, place.ref, ListOptions(limit=limit, tag=TAG))
            if len(found) < limit:
                return found
            limit *= 2

    async def _holds(self, principal: Principal, place: Place, condition: Condition, own: Record) -> bool:
        if condition.due_at is not None:
            return condition.due_at <= self._parts.clock()
        found = await self._memory.list(principal, place.ref, ListOptions(limit=2, tag=condition.tag))
        return any(entry.id != own.id for entry in found)

    async def _fired(
        self, principal: Principal, place: Place, entry: Record, condition: Condition, along: Along | None
    ) -> bool:
        """Whether it was this one that fired it: of two at once one is too late, and what a rule holds stays to be fired."""
        kept = _kept(condition, self._parts.clock())
        try:
            request = _request(place, entry.content, kept, entry.id, entry.version)
            answer = await self._entering.put(principal, request, along=along)
        except ConflictError as conflict:
            if conflict.reason not in ("version_mismatch", "pending_approval"):
                raise
            return False
        return not answer.pending_approval

    async def _place(self, principal: Principal, ref: object) -> Place:
        place = await self._memory.place(principal, ref, Permission.WRITE)
        if place is None:
            raise runs_refs.malformed()
        return place


def _one(event: Happening, _commit: Commit) -> tuple[Happening, ...]:
    return (event,)


def _kept(condition: Condition, fired_at: int | None) -> JsonObject:
    return {"due_at": condition.due_at, "tag": condition.tag, "fired_at": fired_at}


def _condition(given: Json) -> Condition | None:
    """When it fires; None where it has fired, and where it is no commitment."""
    if not isinstance(given, Mapping) or given.get("fired_at") is not None:
        return None
    match given.get("due_at"), given.get("tag"):
        case bool(), _:
            return None
        case int(due_at), None:
            return Condition(due_at=due_at)
        case None, str(tag):
            return Condition(tag=tag)
        case _:
            return None


def _request(
    place: Place, intention: str, kept: Json, record_id: str | None = None, version: int | None = None
) -> RememberRequest:
    return RememberRequest(
        agent_id=place.agent_id,
        type=MemoryType.SEMANTIC,
        content=intention,
        tags=(TAG,) if record_id is None else (_FIRED,),
        metadata={TAG: kept},
        store=place.store_id or MAIN,
        memory_ref=place.ref,
        id=record_id,
        if_version=version,
    )
