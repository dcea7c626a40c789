"""What stands beside the records, held against the journal: links, ranks, rules, tokens, held writes, answers, reasons.

Others write meanwhile. What seems wrong is looked at again, with what the journal has said since, and is at fault when it
still is, or when nothing was written in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from quipu.errors import BackendUnavailableError, TamperedError
from quipu.model.beside import KeptLink, KeptReason
from quipu.model.change import Proposal
from quipu.model.outcomes import Fault
from quipu.model.record import Record, State
from quipu.model.runs import Run, RunEvent
from quipu.ports.parts import Parts
from quipu.rules import beside, beside_runs, edges
from quipu.rules.telling import reason_digest
from quipu.service import held
from quipu.service.derived import every_proposal
from quipu.service.rechecking import entries_after

_TRIES = 5
_PAGE = 200


async def faults(parts: Parts, tenant: str, told: beside.Told, seen: edges.Seen) -> list[Fault]:
    """All that differs. `seen` is what its versions state of links."""
    found = await _look(parts, tenant, told)
    for _ in range(_TRIES):
        if not found:
            break
        before = told.seq
        async for entries in entries_after(parts, tenant, told.seq):
            told.follow(entries)
        again = await _look(parts, tenant, told)
        found = [fault for fault in found if fault in again]
        if told.seq == before and (await parts.ledger.head(tenant)).seq == before:
            break
    return [*found, *[fault async for fault in _link_faults(parts, tenant, seen)]]


async def _look(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    """One look at everything but the links. What cannot even be read is a fault, and keeps nothing else from its look."""
    found: list[Fault] = []
    for name, look in _LOOKS.items():
        try:
            found += await look(parts, tenant, told)
        except TamperedError as error:
            found.append(Fault(kind=error.reason or "damaged_file", detail=error.message))
        except BackendUnavailableError as error:
            if error.reason != "corrupt":
                raise
            found.append(_unreadable(name))
        # What has the form of a value and is none: a permission that nobody has, a rule that is a number.
        except (ValueError, TypeError, KeyError, AttributeError):
            found.append(_unreadable(name))
    return found


def _unreadable(name: str) -> Fault:
    return Fault(kind="damaged_file", detail=f"{name} cannot be read")


async def _columns(parts: Parts, tenant: str, _told: beside.Told) -> list[Fault]:
    detail = "search is told otherwise than the record says what it is about, or that it was emptied"
    misfiled = await parts.ledger.misfiled(tenant)
    return [Fault(kind="beside_differs", seq=born, id=name, detail=detail) for name, born in misfiled]


async def _tokens(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    tokens, hashes = await parts.ledger.tokens(tenant), await parts.ledger.token_hashes(tenant)
    return list(beside.token_faults(told, tokens, hashes, parts.canonical))


async def _secrets(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    kept = (await parts.ledger.guard(tenant)).secrets
    return list(beside.secret_faults(told, [(sealed.secret, sealed.value) for sealed in kept]))


async def _webhooks(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    return list(beside.webhook_faults(told, await parts.ledger.webhooks(tenant), parts.canonical))


async def _stores(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    return list(beside.store_faults(told, await parts.ledger.stores(tenant), parts.canonical))


async def _door(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    itself = await parts.ledger.tenant(tenant)
    is_suspended = itself is not None and itself.suspended_at is not None
    return list(beside.suspension_faults(told, is_suspended=is_suspended))


async def _rules(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    return list(beside.rule_faults(told, await parts.ledger.rules(tenant), parts.canonical))


async def _ranks(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    return list(beside.demotion_faults(told, await parts.ledger.demoted(tenant)))


async def _held_faults(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    waiting: list[Proposal] = []
    decided: set[str] = set()
    found = [fault async for fault in held.faults(parts, tenant)]
    async for proposal in every_proposal(parts.ledger, tenant):
        was = told.decided.get(proposal.id)
        if proposal.status == "pending":
            waiting.append(proposal)
        elif was is not None:
            decided.add(proposal.id)
            fault = beside.decided_fault(proposal, was)
            found += [fault] if fault is not None else []
        elif proposal.id not in told.held:
            found.append(beside.unknown_proposal(proposal))
    known = {fault.id for fault in found}
    found += [fault for fault in beside.held_faults(told, waiting) if fault.id not in known]
    there = {proposal.id for proposal in waiting}
    for name, one in told.held.items():
        if name not in there:
            lost = beside.lost_proposal(told, name, one, await parts.ledger.proposal(tenant, name))
            found += [lost] if lost is not None else []
    gone = told.decided.keys() - decided - there
    return [*found, *(beside.gone_proposal(name, told.decided[name]) for name in sorted(gone))]


async def _run_faults(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    found: list[Fault] = []
    there: list[str] = []
    while page := await parts.ledger.runs(tenant, below=there[-1] if there else None, limit=_PAGE):
        for run in page:
            there.append(run.id)
            if (fault := beside_runs.fault(told.runs, run, await _log(parts, run))) is not None:
                found.append(fault)
    return [*found, *beside_runs.lost_faults(told.runs, there)]


async def _log(parts: Parts, run: Run) -> list[RunEvent]:
    events: list[RunEvent] = []
    while page := await parts.ledger.run_events(run.tenant, run.id, events[-1].sequence if events else -1):
        events += page
    return events


async def _answer_faults(parts: Parts, tenant: str, _told: beside.Told) -> list[Fault]:
    judged = [beside.answer_fault(kept) async for kept in parts.ledger.every_answer(tenant)]
    return [fault for fault in judged if fault is not None]


# -- reasons --------------------------------------------------------------------------------------------------------


async def _reason_faults(parts: Parts, tenant: str, told: beside.Told) -> list[Fault]:
    found: list[Fault] = []
    given: set[tuple[int, str]] = set()
    async for kept in parts.ledger.every_reason(tenant):
        given.add((kept.seq, kept.record_id))
        if not await _is_given(parts, tenant, told, kept):
            detail = "the reason that is kept for it is not the one that was given"
            found.append(Fault(kind="beside_differs", seq=kept.seq, id=kept.record_id, detail=detail))
    for seq, entry in told.reasons.items():
        about = {mention.id for mention in entry.records}
        for name in sorted(about):
            # Erasing one of them takes the reason of all.
            if (seq, name) not in given and not about & told.erased:
                detail = "the reason that was given for it is gone"
                found.append(Fault(kind="beside_differs", seq=seq, id=name, detail=detail))
    return found


async def _is_given(parts: Parts, tenant: str, told: beside.Told, kept: KeptReason) -> bool:
    entry = told.reasons.get(kept.seq)
    if entry is None:  # an earlier release told no digest
        entries = await parts.ledger.entries(tenant, kept.seq - 1, 1)
        mentions = entries[0].records if entries and entries[0].seq == kept.seq else ()
        return any(mention.id == kept.record_id for mention in mentions)
    if all(mention.id != kept.record_id for mention in entry.records):
        return False
    for mention in entry.records:
        versions = await parts.ledger.versions(tenant, mention.id)
        salts = [version.salt for version in versions if version.version == mention.version]
        if not salts or not salts[0]:
            return True  # it went with what was erased or pruned: nobody can tell any more
        if reason_digest(salts[0], kept.text) == entry.detail["reason"]:
            return True
    return False


# -- links ----------------------------------------------------------------------------------------------------------


async def _link_faults(parts: Parts, tenant: str, seen: edges.Seen) -> AsyncIterator[Fault]:
    stating = set(seen.linking)
    async for record_id, kept in _by_record(parts.ledger.every_link(tenant)):
        stating.discard(record_id)
        if (fault := await _link_fault(parts, tenant, record_id, kept, seen)) is not None:
            yield fault
    for record_id in sorted(stating):
        if (fault := await _link_fault(parts, tenant, record_id, (), seen)) is not None:
            yield fault


async def _by_record(links: AsyncIterator[KeptLink]) -> AsyncIterator[tuple[str, list[KeptLink]]]:
    kept: list[KeptLink] = []
    async for link in links:
        if kept and link.from_id != kept[0].from_id:
            yield kept[0].from_id, kept
            kept = []
        kept.append(link)
    if kept:
        yield kept[0].from_id, kept


async def _link_fault(
    parts: Parts, tenant: str, record_id: str, kept: Sequence[KeptLink], seen: edges.Seen
) -> Fault | None:
    versions = await parts.ledger.versions(tenant, record_id)
    straight = {name: edges.Way({name: frozenset()}) for name in edges.targets(versions)}
    if not straight.keys() & seen.merged and edges.fault(versions, kept, straight, record_id) is None:
        return None  # so it mostly is, and nothing else has to be read
    before: Fault | None = None
    for _ in range(_TRIES):
        fault = edges.fault(versions, kept, await _ways(parts, tenant, versions), record_id)
        if fault is None or fault == before:
            return fault
        # Somebody may have changed it between two reads. What was altered stays where it is.
        before = fault
        kept = await parts.ledger.links_from(tenant, record_id)
        versions = await parts.ledger.versions(tenant, record_id)
    return None


async def _ways(parts: Parts, tenant: str, versions: Sequence[Record]) -> Mapping[str, edges.Way]:
    return {name: await _way(parts, tenant, name) for name in edges.targets(versions)}


async def _way(parts: Parts, tenant: str, name: str) -> edges.Way:
    places: dict[str, frozenset[int]] = {}
    passes_erased = False
    ahead = [name]
    while ahead:
        place = ahead.pop()
        versions = await parts.ledger.versions(tenant, place)
        merged = [one for one in versions if one.merged_into is not None]
        places[place] = frozenset(one.died for one in merged if one.died is not None)
        passes_erased = passes_erased or any(one.state is State.ERASED for one in versions)
        ahead += {str(one.merged_into) for one in merged} - places.keys()
    return edges.Way(places, passes_erased)


_LOOKS: Mapping[str, Callable[[Parts, str, beside.Told], Awaitable[list[Fault]]]] = {
    "a version": _columns,
    "a token": _tokens,
    "a secret": _secrets,
    "a webhook": _webhooks,
    "a store": _stores,
    "the tenant": _door,
    "the rules": _rules,
    "a mark": _ranks,
    "a held write": _held_faults,
    "a run": _run_faults,
    "an answer that is kept": _answer_faults,
    "a reason": _reason_faults,
}
