"""Where the items of an import belong among what is there: new, there already, in conflict, or not wanted back.

1. An id that is free is kept.
2. The same id with the same content is a duplicate: nothing happens.
3. The same id with other content becomes a new record that points to the old one; nothing is ever written over.
4. What a file of the same owner brought, and has changed there since, gets a new version by an incremental file.
5. What was forgotten or erased here stays so, except where the forgetting was the undoing of an import.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from quipu.errors import InvalidError, QuipuError
from quipu.formats.seen import Seen
from quipu.formats.values import derived
from quipu.model.change import Proposal
from quipu.model.operations import Line, RememberRequest
from quipu.model.principal import Principal
from quipu.model.record import Ending, Link, MemoryType, Record, State
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules.drafting import content_text
from quipu.service.import_owners import Kin, Planted

#: What rolling an import back says about each record that it takes away.
UNDONE = "rollback of "
#: Proposals that are held in memory at a time; each may be a whole chunk of an import.
_PAGE = 20
#: The same item may have been brought in and undone so many times.
_ROUNDS = 16
_THERE = (State.LIVE, State.ARCHIVED)


class Place(StrEnum):
    """What becomes of an item."""

    NEW = "new"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Placed:
    """A line with the id that it will have; an update with the version that it follows."""

    line: Line
    place: Place
    after: Record | None = None


class Placing:
    """Looks up ids, a chunk at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def waiting(self, tenant: str, import_id: str) -> Seen:
        """Ids that an earlier part of the same import has put before a person already."""
        found, after = Seen(), None
        while page := await self._parts.ledger.proposals(
            tenant, "pending", Proposals(after=after, limit=_PAGE)
        ):
            for one in page:
                if one.request.get("import_id") == import_id:
                    for name in held_ids(one):
                        found.add(name)
            after = page[-1].created_at, page[-1].id
        return found

    async def placed(
        self,
        principal: Principal,
        lines: Sequence[Line],
        waiting: Container[str],
        planted: Planted,
        kin: Kin | None = None,
    ) -> list[Placed | QuipuError]:
        """What becomes of each line, in order. The lines are as they would be kept, without secrets.

        `kin`: the file is incremental, and may change what these brought.
        """
        names = [line.record_id or "" for line in lines]
        # A name that leads to nothing is known too: asking for each again would cost more than all the rest.
        known: dict[str, Record | Line | None] = dict.fromkeys(names)
        known |= await self._parts.ledger.read(principal.tenant, names)
        result: list[Placed | QuipuError] = []
        for line in lines:
            try:
                placed = await self._placed(principal, line, known, waiting, kin, planted)
            except QuipuError as error:
                result.append(error)
                continue
            if placed.place is not Place.DUPLICATE:
                known[placed.line.record_id or ""] = placed.line
            result.append(placed)
        return result

    async def _placed(
        self,
        principal: Principal,
        line: Line,
        known: dict[str, Record | Line | None],
        waiting: Container[str],
        kin: Kin | None,
        planted: Planted,
    ) -> Placed:
        place = Place.NEW
        for _ in range(_ROUNDS):
            name = line.record_id or ""
            if name in waiting:
                return Placed(line, Place.DUPLICATE)
            if name not in known:
                known |= await self._parts.ledger.read(principal.tenant, [name])
            there = known.get(name)
            if there is None:
                return Placed(line, place)
            if kin is not None and isinstance(there, Record) and await _is_followed(there, line, kin):
                return Placed(line, Place.UPDATE, there)
            if isinstance(there, Record) and there.standing not in _THERE:
                if not await self._is_undone(there) and not await planted.is_undone(there):
                    raise InvalidError("It was forgotten here.", reason="tombstone")
                line = replace(line, record_id=derived("mem", name, f"undone {there.version}"))
                continue
            if _is_same(there, line):
                return Placed(line, Place.DUPLICATE)
            place, line = Place.CONFLICT, self.beside(principal, there, line)
        raise InvalidError("It was brought in and undone too often.", reason="tombstone")

    async def _is_undone(self, record: Record) -> bool:
        if record.is_emptied or record.ending is not Ending.FORGOTTEN or record.died is None:
            return False
        reasons = await self._parts.ledger.reasons(record.tenant, record.id)
        return reasons.get(record.died, "").startswith(UNDONE)

    def beside(self, principal: Principal, there: Record | Line, line: Line) -> Line:
        """A record of its own, under an id that follows from the old one and from what it says."""
        request = line.request
        name = derived("mem", line.record_id or "", request.type, content_text(request.type, request.content))
        agent = there.agent_id if isinstance(there, Record) else there.request.agent_id
        if agent == request.agent_id and principal.may_act_for(agent):
            link = Link(line.record_id or "", "derived_from")
            request = replace(request, links=(*(request.links or ()), link))
        return replace(line, request=request, record_id=name)


def held_ids(proposal: Proposal) -> tuple[str, ...]:
    """The records that a held part of an import would make, or take away."""
    ids: Any = proposal.request.get("record_ids") or proposal.request.get("ids") or ()
    return tuple(str(name) for name in ids)


async def _is_followed(there: Record, line: Line, kin: Kin) -> bool:
    """Whether the line is what became of a record that the same owner's file brought."""
    later = line.created_at if line.updated_at is None else line.updated_at
    request = line.request
    return (
        later is not None
        and later > there.updated_at
        and (there.agent_id, there.type) == (request.agent_id, request.type)
        and await (kin.brought(there) if there.standing in _THERE else kin.took(there))
    )


def _is_same(there: Record | Line, line: Line) -> bool:
    """Whether they say the same, of the same agent."""
    request = line.request
    if isinstance(there, Line):
        return _essence(there.request) == _essence(request)
    return (there.agent_id, there.type, _ordered(there.type, there.content)) == _essence(request)


def _essence(request: RememberRequest) -> tuple[str, str, str]:
    content = content_text(request.type, request.content)
    return request.agent_id, request.type, _ordered(request.type, content)


def _ordered(kind: MemoryType, content: str) -> str:
    """A machine says the same in whatever order its members stand."""
    if kind is not MemoryType.PROCEDURAL:
        return content
    return json.dumps(json.loads(content), sort_keys=True)
