"""A second look at what seems to be wrong. Others write while a verification reads, so what does not fit may be news."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from quipu.model.journal import Entry, Op
from quipu.model.outcomes import Fault
from quipu.model.record import Record, State
from quipu.ports.ledger import Indexed
from quipu.ports.parts import Parts
from quipu.rules import chain, texts

#: So often a record is looked at again that somebody is just changing.
_TRIES = 5


def indexed_text(record: Record) -> str | None:
    """What keyword search must know of a version: archived and emptied ones are not searched."""
    return None if record.is_emptied or record.state is not State.LIVE else texts.search_text(record)


async def entries_after(parts: Parts, tenant: str, after: int) -> AsyncIterator[Sequence[Entry]]:
    """The journal behind a position, page by page."""
    while entries := await parts.ledger.entries(tenant, after):
        yield entries
        after = entries[-1].seq


async def standing(parts: Parts, tenant: str, suspected: Iterable[Fault]) -> list[Fault]:
    """Those of these faults that are none of the work of others: each record is held against the journal of now.

    A record that nothing was written about while its versions were read is as the journal says, or it is at fault. One
    that is never left alone keeps the faults that it is suspected of.
    """
    by_record: dict[str | None, list[Fault]] = {}
    for fault in suspected:
        by_record.setdefault(fault.id, []).append(fault)
    found = by_record.pop(None, [])
    if not by_record:
        return found
    walk = chain.Walk(parts.canonical)
    await _follow(parts, tenant, walk)
    waiting = [name for name in by_record if name is not None]
    for _ in range(_TRIES):
        looks = {name: await _looked_at(parts, tenant, name) for name in waiting}
        touched = await _follow(parts, tenant, walk)
        settled = {name for name in waiting if touched is not None and name not in touched}
        for name in settled:
            versions, wrong = looks[name]
            found.extend(wrong)
            for version in versions:
                found.extend(chain.ledger_faults(version, walk))
        found.extend(fault for fault in chain.missing_faults(walk) if fault.id in settled)
        waiting = [name for name in waiting if name not in settled]
        if not waiting:
            break
    for name in waiting:
        found.extend(by_record[name])
    return found


async def _looked_at(parts: Parts, tenant: str, name: str) -> tuple[Sequence[Record], list[Fault]]:
    """A record's versions, and what is wrong with their index."""
    versions = await parts.ledger.versions(tenant, name)
    indexed = [Indexed(record=version, search_text=indexed_text(version)) for version in versions]
    return versions, list(await parts.ledger.index_faults(tenant, indexed))


async def _follow(parts: Parts, tenant: str, walk: chain.Walk) -> set[str] | None:
    """Bring the walk to the end of the journal. Returns the records that it met, or None where it met a pruning."""
    touched: set[str] = set()
    is_pruned = False
    async for entries in entries_after(parts, tenant, walk.seq):
        walk.follow(entries)
        is_pruned = is_pruned or any(entry.op is Op.PRUNE for entry in entries)
        touched.update(mention.id for entry in entries for mention in entry.records)
    return None if is_pruned else touched
