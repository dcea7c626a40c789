"""What goes along when memories are erased: what was made out of them, and what waits to be written beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from quipu.model.change import Proposal
from quipu.ports.ledger import Ledger, Proposals
from quipu.rules import derivations, staging

_PAGE = 1_000


async def with_derived(ledger: Ledger, tenant: str, ids: Sequence[str]) -> list[str]:
    """What was made out of something that is erased says what it said, so it goes too."""
    known = dict.fromkeys(ids)
    fresh = list(known)
    while fresh:
        found = await ledger.derived_from(tenant, fresh)
        fresh = [name for name in found if name not in known]
        known.update(dict.fromkeys(fresh))
    return list(known)


async def living_on(ledger: Ledger, tenant: str, ids: Sequence[str]) -> dict[str, str]:
    """Memories that stay and say what they took by a merge from one of these, or from another such; each with that one."""
    known, fresh = dict.fromkeys(ids, ""), list(ids)
    while fresh:
        gone = (await ledger.read(tenant, fresh)).values()
        merged = [one for one in gone if one.merged_into is not None and one.merged_into not in known]
        fresh = list[str]()
        for one in merged:
            into = str(one.merged_into)
            if derivations.is_taken(await ledger.versions(tenant, into), one):
                known[into] = one.id
                fresh.append(into)
    return {into: source for into, source in known.items() if source}


async def still_said(ledger: Ledger, tenant: str, ids: Sequence[str]) -> dict[str, list[str]]:
    """What those of these that were made here were made of, as far as it still says something and stays."""
    erased = frozenset(ids)
    made = {
        record.id: sorted(derivations.sources_of(record) - erased)
        for record in (await ledger.read(tenant, ids)).values()
    }
    wanted = sorted({name for names in made.values() for name in names})
    there = {name for name, one in (await ledger.read(tenant, wanted)).items() if not one.is_emptied}
    found = {name: [source for source in names if source in there] for name, names in made.items()}
    return {name: sources for name, sources in found.items() if sources}


async def every_proposal(ledger: Ledger, tenant: str) -> AsyncIterator[Proposal]:
    """Those that wait, and those that were kept after a decision."""
    place: tuple[int, str] | None = None
    while page := await ledger.proposals(tenant, None, Proposals(after=place, limit=_PAGE)):
        place = (page[-1].created_at, page[-1].id)
        for proposal in page:
            yield proposal


async def staged_of(ledger: Ledger, tenant: str, ids: Sequence[str]) -> list[str]:
    """Proposals that say what these memories say, or would make or change one of them."""
    named = frozenset(ids)
    return [
        one.id
        async for one in every_proposal(ledger, tenant)
        if one.request
        and (not staging.made_by(one).isdisjoint(named) or derivations.holds_words_of(one, named))
    ]


async def staged_for(ledger: Ledger, tenant: str, store: str, ids: Sequence[str]) -> list[str]:
    """Proposals whose words are meant for a store, or were made out of these memories."""
    named = frozenset(ids)
    return [
        one.id
        async for one in every_proposal(ledger, tenant)
        if staging.is_for_store(one, store) or derivations.holds_words_of(one, named)
    ]
