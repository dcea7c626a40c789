"""Whose memories there are: the agents a person can choose from.

No ledger lists its agents, so they are gathered from what is at hand: the credential's own names, the newest records,
the newest entries of the journal. An agent that was silent for long may be missing; its name can always be typed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from quipu.faces.web import cord
from quipu.faces.web.visit import Visit
from quipu.model.journal import Entry
from quipu.model.operations import ListRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record

_LOOKED_AT = 200
_GLOB = frozenset("*?[")


def named(principal: Principal) -> list[str]:
    """The agents that the credential names outright."""
    return [name for name in principal.agents if not _GLOB.intersection(name)]


def counted(principal: Principal, records: Iterable[Record], entries: Iterable[Entry]) -> list[str]:
    """The agents of these records and entries, busiest first, behind those that the credential names."""
    seen = Counter(record.agent_id for record in records)
    seen.update(entry.agent for entry in entries if entry.agent is not None)
    busiest = [name for name, _ in seen.most_common() if principal.may_act_for(name)]
    return list(dict.fromkeys([*named(principal), *busiest]))


async def newest(visit: Visit, agent: str | None, limit: int) -> list[Record]:
    """The newest records of an agent, or of all, to be counted. Nobody sees them, so this is no read of them."""
    request = ListRequest(agent_id=agent, limit=limit)
    return [record async for record in visit.service.reading.walk(visit.principal, request, limit=limit)]


async def known(visit: Visit) -> list[str]:
    """The agents to choose from."""
    if named(visit.principal) and len(named(visit.principal)) == len(visit.principal.agents):
        return named(visit.principal)
    records: Sequence[Record] = ()
    if visit.may(Permission.ADMIN):
        records = await newest(visit, None, _LOOKED_AT)
    entries = await cord.newest(visit, _LOOKED_AT) if visit.may(Permission.REVIEW) else ()
    return counted(visit.principal, records, entries)
