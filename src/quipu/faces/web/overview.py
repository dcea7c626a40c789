"""The first page: how much there is, what happened, whether the chain is whole, what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quipu.faces.web import agents, cord, memories, pictures
from quipu.faces.web.visit import Visit
from quipu.model.journal import Entry
from quipu.model.operations import ListRequest, ProposalsRequest
from quipu.model.principal import Permission
from quipu.model.record import Record

#: How many of the newest are looked at: nothing here walks through everything.
_RECORDS, _ENTRIES = 200, 400
#: So many that wait are counted; beyond that it says that there are more.
_PENDING = 200
#: Who may not list all agents together sees so many of them, the busiest.
_AGENTS = 5
_LATEST = 6
_WIDTH = 360.0


async def page(visit: Visit) -> Response:
    """All of it, as far as the visitor may see."""
    entries = await cord.newest(visit, _ENTRIES) if visit.may(Permission.REVIEW) else ()
    newest = await _newest(visit, entries)
    records = newest.records
    known = agents.counted(visit.principal, records, entries)
    counts = await _counts(visit)
    by_type = _by_type(records, counts)
    return visit.page(
        "overview.html",
        pendants=pictures.pendants(by_type, _WIDTH),
        by_type=by_type,
        total=sum(by_type.values()),
        has_looked=newest.has_looked,
        is_all=newest.is_all or any(kind in counts for kind in by_type),
        counts=counts,
        agents=_agents(known, records),
        sampled=None if newest.is_all else len(records),
        latest=newest.latest,
        activity=pictures.activity(
            [(entry.at, cord.kind_of(entry.op)) for entry in entries],
            visit.site.clock(),
            (*cord.KINDS, "house"),
        ),
        entries=entries,
        kinds=Counter(cord.kind_of(entry.op) for entry in entries),
        **await _state(visit),
    )


def _by_type(records: Sequence[Record], counts: Mapping[str, int]) -> dict[str, int]:
    """Of everything, where the ledger counts by type; else of the newest."""
    sample = pictures.by_type([record.type for record in records])
    return {kind: counts.get(kind, number) for kind, number in sample.items()}


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest records in reach, to be counted; those of them that are shown; and whether they are all there are.

    Who sees memories agent by agent, and of whom no agent is known, has looked at none.
    """

    records: Sequence[Record] = ()
    latest: Sequence[memories.Row] = ()
    is_all: bool = True
    has_looked: bool = True


async def _newest(visit: Visit, entries: Sequence[Entry]) -> _Newest:
    if not visit.may(Permission.READ):
        return _Newest()
    asked: Sequence[str | None] = [None]
    if not visit.may(Permission.ADMIN):
        asked = agents.counted(visit.principal, (), entries)[:_AGENTS]
    found: list[tuple[Record, str | None]] = []
    is_all = True
    for agent in asked:
        most = max(1, _RECORDS // len(asked))
        got = await agents.newest(visit, agent, most + 1)
        found += [(record, agent) for record in got[:most]]
        is_all = is_all and len(got) <= most
    found.sort(key=lambda one: one[0].id, reverse=True)
    latest: list[Record] = []
    names: dict[str, str] = {}
    # What is shown is read: these are the first of each list.
    for agent, count in Counter(agent for _, agent in found[:_LATEST]).items():
        page = await visit.service.reading.list(visit.principal, ListRequest(agent_id=agent, limit=count))
        latest += page.records
        names.update(page.store_names)
    latest.sort(key=lambda record: record.id, reverse=True)
    return _Newest(
        [record for record, _ in found],
        [memories.record_row(one, names) for one in latest],
        is_all,
        has_looked=bool(asked),
    )


async def _counts(visit: Visit) -> Mapping[str, int]:
    """Of the whole tenant, for those who may see all of it."""
    is_everything = (
        visit.may(Permission.ADMIN) and visit.principal.agents == ("*",) and not visit.principal.user_id
    )
    if not is_everything:
        return {}
    return await visit.site.lately.counts(
        visit.principal.tenant, lambda: visit.service.upkeep.statistics(visit.principal)
    )


def _agents(known: Sequence[str], records: Sequence[Record]) -> list[tuple[str, int, int]]:
    """Name, how many of the newest records are theirs, and of how many users."""
    users: dict[str, set[str]] = {}
    for record in records:
        users.setdefault(record.agent_id, set()).update([record.user_id] if record.user_id else [])
    count = Counter(record.agent_id for record in records)
    return [(name, count[name], len(users.get(name, ()))) for name in known]


async def _state(visit: Visit) -> dict[str, Any]:
    """Stores, chain, reviews, health."""
    reads = visit.may(Permission.READ)
    points = await visit.service.audit.checkpoints(visit.principal) if reads else ()
    pending: int | None = None
    has_more = False
    if visit.may(Permission.REVIEW):
        found = await visit.service.governance.page(visit.principal, ProposalsRequest(limit=_PENDING))
        pending, has_more = len(found.proposals), found.next_cursor is not None
    return {
        "stores": await visit.service.stores.list(visit.principal) if reads else (),
        "head": await visit.service.audit.head(visit.principal) if reads else None,
        "last_point": points[-1] if points else None,
        "pending": pending,
        "has_more_pending": has_more,
        "health": await visit.service.health(visit.principal),
        "proof": visit.session.proof,
    }
