"""The window settles: promoted once, evicted softly, governed, undoable, and nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from quipu.bootstrap import Running
from quipu.errors import ForbiddenError, InvalidError, NotFoundError
from quipu.model.consolidation import ConsolidateRequest, Consolidation, Settlement
from quipu.model.operations import ListRequest, RecallRequest, RememberRequest, UpdateStrategy
from quipu.model.principal import Permission, Principal
from quipu.model.record import Link, MemoryType, Record, State, Tier, Trust
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from tests.consolidation.conftest import OWNER, SYSTEM, Push, Started
from tests.requirement import requirement

HOUR = 3_600_000
DAY = 24 * HOUR
HEAVY: dict[str, Any] = {"importance": 1.0}


async def settle(service: MemoryService, who: Principal = SYSTEM, **given: Any) -> Consolidation:
    return await service.consolidating.consolidate(who, ConsolidateRequest(**given))


async def live(service: MemoryService, agent: str = "ana", **given: Any) -> list[Record]:
    page = await service.reading.list(OWNER, ListRequest(agent_id=agent, limit=500, **given))
    return list(page.records)


def derived(record: Record) -> list[str]:
    """What a promotion was made of."""
    return [link.to for link in record.links if link.rel == "derived_from"]


async def test_what_weighs_enough_becomes_a_long_term_fact_with_a_link_to_its_source(
    service: MemoryService, push: Push
) -> None:
    source = await push(
        "Mara cancelled her order by phone",
        type=MemoryType.EPISODIC,
        user_id="mara",
        tags=("order",),
        metadata={"topic": "orders"},
        details={"event_time": 7, "location": "home"},
        confidence=0.9,
        **HEAVY,
    )
    done = await settle(service)
    assert done.counts == {"promoted": 1}
    (record,) = await live(service)
    assert done.settled[0].into == record.id
    assert (record.type, record.tier, record.content) == (
        MemoryType.SEMANTIC,
        Tier.LONG_TERM,
        "Mara cancelled her order by phone",
    )
    assert (record.user_id, record.tags, record.confidence, record.importance) == (
        "mara",
        ("order",),
        0.9,
        1.0,
    )
    # What only an event can say is kept beside the fact.
    assert dict(record.metadata) == {"topic": "orders", "event_time": 7, "location": "home"}
    assert record.links == (Link(source, "derived_from"),)
    assert (record.source, record.provenance.written_by) == ("consolidation", "system")
    (version,) = await service.reading.history(OWNER, "ana", source)
    assert version.record.standing is State.FORGOTTEN
    assert version.reason == f"{done.pass_id}: became {record.id}"


async def test_procedures_and_feelings_stay_what_they_are(service: MemoryService, push: Push) -> None:
    machine = {"name": "m", "initial": "a", "states": ["a"], "transitions": []}
    await push(machine, type=MemoryType.PROCEDURAL, **HEAVY)
    await push("glad", type=MemoryType.EMOTIONAL, details={"valence": 0.5}, **HEAVY)
    await settle(service)
    kept = {record.type: record for record in await live(service)}
    assert set(kept) == {MemoryType.PROCEDURAL, MemoryType.EMOTIONAL}
    assert dict(kept[MemoryType.EMOTIONAL].details) == {"valence": 0.5}


async def test_a_second_pass_changes_nothing(service: MemoryService, push: Push, running: Running) -> None:
    for number in range(5):
        await push(f"fact number {number} about topic{number}", **HEAVY)
    first = await settle(service)
    assert first.counts == {"promoted": 5}
    before = await running.parts.ledger.head(OWNER.tenant)
    second = await settle(service)
    assert second.counts == {}
    assert await running.parts.ledger.head(OWNER.tenant) == before


@requirement("memorywire:consolidation.score")
async def test_the_young_and_light_stay_and_the_old_and_light_go(
    service: MemoryService, push: Push, clock: FixedClock
) -> None:
    light = await push("it rained", confidence=0.3)
    assert (await settle(service)).counts == {"kept": 1}
    clock.move(DAY - 1)
    assert (await settle(service)).counts == {"kept": 1}
    clock.move(1)
    done = await settle(service)
    assert done.counts == {"evicted": 1}
    assert await live(service) == []
    restored = await service.restore(OWNER, "ana", light)
    assert restored.id == light


async def test_recalls_make_an_item_weigh_more(service: MemoryService, push: Push, clock: FixedClock) -> None:
    await push("the zebra eats apples")
    clock.move(HOUR)
    assert (await settle(service, dry_run=True)).counts == {"kept": 1}
    for _ in range(4):
        found = await service.recall(OWNER, RecallRequest(agent_id="ana", query="zebra apples"))
        assert len(found) == 1
    assert (await settle(service)).counts == {"promoted": 1}


async def test_what_is_pushed_out_of_the_window_does_not_stay(
    service: MemoryService, push: Push, clock: FixedClock, running: Running
) -> None:
    service.consolidating._parts = replace(running.parts, settling=replace(running.parts.settling, window=3))
    for number in range(8):
        await push(f"light thing{number} other{number}", confidence=0.2)
        clock.move(1)
    done = await settle(service)
    assert done.counts == {"evicted": 5, "kept": 3}
    left = await live(service)
    assert sorted(record.content[11:12] for record in left) == ["5", "6", "7"]


async def test_windows_are_of_one_agent_and_one_user(service: MemoryService, push: Push) -> None:
    for agent in ("ana", "bo"):
        for user in (None, "mara", "jon"):
            await push("the same words", agent_id=agent, user_id=user, **HEAVY)
    done = await settle(service, agent_id="ana", user_id="mara")
    assert (done.windows, done.counts) == (1, {"promoted": 1})
    done = await settle(service)
    assert (done.windows, done.counts) == (5, {"promoted": 5})
    assert len({(one.agent_id, one.user_id) for one in done.settled}) == 5


@requirement("memorywire:consolidation.similarity")
async def test_the_same_words_said_twice_become_one_memory_and_near_ones_never_do(
    service: MemoryService, push: Push
) -> None:
    same = [await push("Mara likes green tea", **HEAVY), await push("mara likes  green tea.", **HEAVY)]
    near = await push("Mara likes green tea very", **HEAVY)
    turned = await push("Mara likes not green tea", **HEAVY)
    done = await settle(service)
    assert done.counts == {"promoted": 4}
    records = await live(service)
    assert len(records) == 3
    sources = {frozenset(derived(record)) for record in records}
    assert sources == {frozenset(same), frozenset({near}), frozenset({turned})}
    named = {frozenset((pair.id, pair.other)) for pair in done.similar}
    assert frozenset(same) in named
    assert not any(turned in pair for pair in named)


async def test_what_long_term_memory_says_already_is_not_said_again(
    service: MemoryService, push: Push
) -> None:
    known = (
        await service.remember(
            OWNER, RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="Mara likes tea")
        )
    ).id
    source = await push("mara likes tea.", **HEAVY)
    done = await settle(service)
    assert (done.counts, done.settled[0].into) == ({"known": 1}, known)
    assert [record.id for record in await live(service)] == [known]
    # Something beside the words is new: then it is no repetition.
    await push("Mara likes tea", metadata={"cup": "blue"}, **HEAVY)
    assert (await settle(service)).counts == {"promoted": 1}
    assert (await service.restore(OWNER, "ana", source)).id == source


async def test_a_promotion_is_linked_with_what_it_is_about(service: MemoryService, push: Push) -> None:
    """The nearest of the same matter, and what may contradict it; turns of one talk stand together already."""

    async def promoted(text: str, **given: Any) -> Record:
        await push(text, **given, **HEAVY)
        into = (await settle(service)).settled[0].into or ""
        return await service.reading.get(OWNER, "ana", into, None)

    first = await promoted("Mara feeds her old cat every morning at home", session_id="one")
    again = await promoted("Mara feeds her old cat every evening at home", session_id="two")
    assert Link(first.id, "related_to") in again.links
    turned = await promoted("Mara never feeds her old cat every morning at home", session_id="three")
    assert Link(first.id, "may_contradict") in turned.links
    beside = await promoted("Mara feeds her old cat every noon at home", session_id="one")
    assert first.id not in [link.to for link in beside.links if link.rel == "related_to"]
    other = await promoted("ships sail south", session_id="four")
    assert [link.rel for link in other.links] == ["derived_from"]


async def test_trust_is_no_better_than_the_worst_source(service: MemoryService, push: Push) -> None:
    await push("copied from a page", source="web_page", **HEAVY)
    await settle(service)
    (record,) = await live(service)
    assert record.provenance.trust is Trust.EXTERNAL


@requirement("memorywire:consolidation.once")
async def test_ten_bursts_at_once_are_each_promoted_exactly_once(
    service: MemoryService, push: Push, running: Running
) -> None:
    """Pushes and passes in any order, several at a time: upstream called remember eighty times for ten pushes."""

    async def burst(number: int) -> list[str]:
        return [await push(f"burst{number} item{item} word{number}{item}", **HEAVY) for item in range(10)]

    async def passes() -> None:
        for _ in range(6):
            await settle(service)
            await asyncio.sleep(0)

    work = [burst(number) for number in range(10)]
    pushed = [
        name
        for names in (await asyncio.gather(*work, passes(), passes(), passes()))[:10]
        for name in names or ()
    ]
    await settle(service)
    records = await live(service)
    sources = [name for record in records for name in derived(record)]
    assert len(pushed) == 100
    assert sorted(sources) == sorted(pushed)
    assert {record.tier for record in records} == {Tier.LONG_TERM}
    verified = await service.audit.verify(OWNER)
    assert verified.holds


@requirement("memorywire:consolidation.once")
async def test_a_pass_that_is_broken_off_is_taken_up_by_the_next_start(
    service: MemoryService, push: Push, running: Running, started: Started
) -> None:
    """Cut off while it writes, again and again: what was promoted is, the rest still is to be, nothing is both."""
    sources = [await push(f"fact{number} thing{number}", **HEAVY) for number in range(30)]
    host, done = running, 0
    for _ in range(5):
        making = asyncio.create_task(settle(host.service))
        while not making.done() and len(await promotions(host.service)) <= done:
            pass  # looking lets the others go on
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        done = len(await promotions(host.service))
        host = await started()
    assert 0 < done < len(sources)
    await settle(host.service)
    derived_from = [name for record in await live(host.service) for name in derived(record)]
    assert sorted(derived_from) == sorted(sources)
    assert (await host.service.audit.verify(OWNER)).holds


async def promotions(service: MemoryService) -> list[Record]:
    return [record for record in await live(service) if record.tier is Tier.LONG_TERM]


class Meddling:
    """Somebody who writes in the very moment in which a pass looks for what it knows already."""

    def __init__(self, inner: Any, act: Callable[[], Awaitable[object]]) -> None:
        self._inner, self._act = inner, act

    async def to(self, draft: Record) -> Any:
        await self._act()
        return await self._inner.to(draft)


async def test_what_changes_while_it_is_settled_stays_as_it_was_changed(
    service: MemoryService, push: Push, clock: FixedClock
) -> None:
    light = await push("it rained", confidence=0.1)
    clock.move(DAY)
    heavy = await push("Mara moved to Ulm", **HEAVY)

    async def correct() -> None:
        await push("it rained, and Mara was late", id=light, confidence=0.1)
        await push("Mara moved to Bonn", id=heavy, **HEAVY)

    inner = service.consolidating._resembling
    service.consolidating._resembling = Meddling(inner, correct)  # type: ignore[assignment]  has what is asked of it
    assert (await settle(service)).counts == {"kept": 2}
    assert {record.id: record.content for record in await live(service)} == {
        light: "it rained, and Mara was late",
        heavy: "Mara moved to Bonn",
    }
    service.consolidating._resembling = inner
    assert (await settle(service)).counts == {"kept": 1, "promoted": 1}


async def test_two_processes_settle_a_source_once(
    service: MemoryService, push: Push, started: Started
) -> None:
    """No lock is shared between processes: the version that is closed decides."""
    other = (await started()).service
    for number in range(20):
        await push(f"fact{number} thing{number}", **HEAVY)
    done = await asyncio.gather(settle(service), settle(other), settle(other), settle(service))
    assert sum(one.counts.get("promoted", 0) for one in done) == 20
    assert len(await live(service)) == 20


@requirement("memorywire:consolidation.governed")
async def test_a_held_promotion_leaves_its_source_and_is_proposed_once(
    service: MemoryService, push: Push, clock: FixedClock
) -> None:
    await service.policies.set(
        OWNER,
        {
            "rules": [
                {
                    "id": "look",
                    "when": {"operations": ["remember"], "sources": ["consolidation"]},
                    "effect": "hold",
                }
            ]
        },
    )
    source = await push("Mara moved to Ulm", **HEAVY)
    for _ in range(3):
        assert (await settle(service)).counts == {"held": 1}
    clock.move(DAY + 1)
    await settle(service)
    waiting = await service.governance.proposals(OWNER, "pending")
    assert len(waiting) == 1
    assert [record.id for record in await live(service)] == [source]
    await service.decide(OWNER, waiting[0].id, approved=True)
    clock.move(-DAY)
    done = await settle(service)
    assert done.counts == {"known": 1}
    assert [record.tier for record in await live(service)] == [Tier.LONG_TERM]


LOOK_AT_PROMOTIONS = {
    "rules": [
        {
            "id": "look",
            "when": {"operations": ["remember"], "sources": ["consolidation"]},
            "effect": "hold",
        }
    ]
}


async def rejected(service: MemoryService) -> str:
    """The one proposal that waits, after a person's no."""
    (waiting,) = await service.governance.proposals(OWNER, "pending")
    await service.decide(OWNER, waiting.id, approved=False)
    return waiting.id


@requirement("memorywire:consolidation.refused")
async def test_a_no_to_a_promotion_holds_for_good_and_for_the_same_words(
    service: MemoryService, push: Push, clock: FixedClock, started: Started
) -> None:
    await service.policies.set(OWNER, LOOK_AT_PROMOTIONS)
    source = await push("Mara moved to Ulm", metadata={"user_flagged": True}, **HEAVY)
    held = await settle(service)
    assert held.settled[0].into == await rejected(service), "the proposal that waits is named"
    for _ in range(3):
        done = await settle(service)
        assert (done.counts, done.settled[0].reason) == ({"kept": 1}, "approval_rejected")
        clock.move(5 * HOUR)
    clock.move(2 * DAY)
    for _ in range(4):  # so that it weighs enough in spite of its age
        await service.recall(OWNER, RecallRequest(agent_id="ana", query="Mara moved to Ulm"))
    await push("mara moved to Ulm.", **HEAVY)
    # Another process, and rules that would let it through by now: the no still holds.
    other = (await started()).service
    await other.policies.set(OWNER, {"rules": []})
    for one in (service, other):
        assert (await settle(one)).counts == {"kept": 2}
    assert await service.governance.proposals(OWNER, "pending") == ()
    assert source in [record.id for record in await live(service)]


async def test_what_changes_after_a_no_is_another_question(service: MemoryService, push: Push) -> None:
    await service.policies.set(OWNER, LOOK_AT_PROMOTIONS)
    source = await push("Mara moved to Ulm", **HEAVY)
    await settle(service)
    await rejected(service)
    await push("Mara moved to Bonn", id=source, **HEAVY)
    assert (await settle(service)).counts == {"held": 1}
    (waiting,) = await service.governance.proposals(OWNER, "pending")
    assert waiting.request["content"] == "Mara moved to Bonn"
    await service.decide(OWNER, waiting.id, approved=True)
    assert (await settle(service)).counts == {"known": 1}


async def test_who_takes_the_proposal_back_has_said_no_no(service: MemoryService, push: Push) -> None:
    """Withdrawn, or lapsed: nobody decided, so somebody is asked again."""
    await service.policies.set(OWNER, LOOK_AT_PROMOTIONS)
    await push("Mara moved to Ulm", **HEAVY)
    await settle(service)
    (waiting,) = await service.governance.proposals(OWNER, "pending")
    await service.governance.withdraw(SYSTEM, waiting.id)
    done = await settle(service, dry_run=True)
    assert done.counts == {"promoted": 1}


async def test_a_no_does_not_keep_what_is_pushed_out_of_the_window(
    push: Push, service: MemoryService, started: Started
) -> None:
    await service.policies.set(OWNER, LOOK_AT_PROMOTIONS)
    source = await push("Mara moved to Ulm", **HEAVY)
    await settle(service)
    await rejected(service)
    await push("something newer", confidence=0.1)
    small = (await started(consolidation_window=1)).service
    assert (await settle(small)).counts == {"evicted": 1, "kept": 1}
    assert source not in [record.id for record in await live(service)]


@requirement("memorywire:consolidation.refused")
async def test_a_no_to_an_eviction_keeps_it_in_the_window(
    service: MemoryService, push: Push, clock: FixedClock
) -> None:
    hold = {"rules": [{"id": "look", "when": {"operations": ["forget"]}, "effect": "hold"}]}
    await service.policies.set(OWNER, hold)
    source = await push("light", confidence=0.1)
    clock.move(DAY)
    held = await settle(service)
    assert (held.counts, held.settled[0].into) == ({"held": 1}, await rejected(service))
    clock.move(2 * DAY)
    done = await settle(service)
    assert (done.counts, done.settled[0].reason) == ({"kept": 1}, "approval_rejected")
    # Said already in long-term memory: that it may go is the same question.
    known = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="light")
    await service.remember(OWNER, known)
    await push("light", id=source, update_strategy=UpdateStrategy.MERGE, confidence=1.0, **HEAVY)
    assert (await settle(service)).counts == {"held": 1}
    await rejected(service)
    clock.move(2 * DAY)
    assert (await settle(service)).counts == {"kept": 1}
    assert await service.governance.proposals(OWNER, "pending") == ()


async def test_refusals_suggest_a_rule_all_the_same(service: MemoryService, push: Push) -> None:
    """Which memories a pass asked about does not make its proposals unlike one another."""
    await service.policies.set(OWNER, LOOK_AT_PROMOTIONS)
    for number in range(5):
        await push(f"fact{number} thing{number}", **HEAVY)
    await settle(service)
    for waiting in await service.governance.proposals(OWNER, "pending"):
        await service.decide(OWNER, waiting.id, approved=False)
    (suggested,) = await service.learning.suggested(OWNER)
    assert suggested.met == 5


async def test_a_rule_that_denies_leaves_the_source_and_the_others_go_on(
    service: MemoryService, push: Push
) -> None:
    await service.policies.set(
        OWNER,
        {
            "rules": [
                {
                    "id": "no",
                    "when": {"operations": ["remember"], "sources": ["consolidation"], "users": ["mara"]},
                    "effect": "deny",
                }
            ]
        },
    )
    kept = await push("about mara", user_id="mara", **HEAVY)
    await push("about jon", user_id="jon", **HEAVY)
    done = await settle(service)
    assert done.counts == {"failed": 1, "promoted": 1}
    assert next(one for one in done.settled if one.outcome is Settlement.FAILED).reason == "denied_by_rule"
    assert kept in [record.id for record in await live(service)]


async def test_held_evictions_are_proposed_once(
    service: MemoryService, push: Push, clock: FixedClock
) -> None:
    await service.policies.set(
        OWNER, {"rules": [{"id": "look", "when": {"operations": ["forget"]}, "effect": "hold"}]}
    )
    await push("light", confidence=0.1)
    clock.move(DAY)
    for _ in range(3):
        assert (await settle(service)).counts == {"held": 1}
    assert len(await service.governance.proposals(OWNER, "pending")) == 1
    assert len(await live(service)) == 1


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(
    service: MemoryService, push: Push, running: Running
) -> None:
    await push("heavy", **HEAVY)
    await push("light", confidence=0.1)
    before = await running.parts.ledger.head(OWNER.tenant)
    seen: list[tuple[int, int]] = []
    done = await service.consolidating.consolidate(
        SYSTEM, ConsolidateRequest(dry_run=True), lambda so_far, of: seen.append((so_far, of))
    )
    assert done.counts == {"kept": 1, "promoted": 1}
    assert seen == [(0, 1), (1, 1)]
    assert await running.parts.ledger.head(OWNER.tenant) == before


async def test_a_pass_is_undone_as_a_whole(service: MemoryService, push: Push, clock: FixedClock) -> None:
    light = await push("light", confidence=0.1)
    clock.move(DAY)
    heavy = [await push(f"heavy{number} thing{number}", **HEAVY) for number in range(3)]
    done = await settle(service)
    assert done.counts == {"evicted": 1, "promoted": 3}
    promoted = {one.into for one in done.settled if one.into}
    undone = await service.consolidating.undo(OWNER, done.pass_id)
    assert set(undone.restored) == {light, *heavy}
    assert (set(undone.forgotten), undone.left) == (promoted, ())
    assert {record.id for record in await live(service)} == {light, *heavy}
    again = await service.consolidating.undo(OWNER, done.pass_id)
    assert (again.restored, again.forgotten) == ((), ())


@pytest.mark.parametrize("named", ["", "pass_", "pass_x.y", "mem_1.2", "pass_1.²"])
async def test_what_is_no_pass_cannot_be_undone(service: MemoryService, named: str) -> None:
    with pytest.raises(InvalidError):
        await service.consolidating.undo(OWNER, named)


async def test_a_pass_that_never_was_cannot_be_undone(service: MemoryService, push: Push) -> None:
    await push("young", confidence=0.1)
    nothing = await settle(service)
    for name in (nothing.pass_id, "pass_01J00000000000000000000000.1"):
        with pytest.raises(NotFoundError) as refused:
            await service.consolidating.undo(OWNER, name)
        assert refused.value.reason == "pass"


async def test_whose_window_it_is(service: MemoryService, push: Push) -> None:
    await push("mine", **HEAVY)
    worker = Principal(
        tenant="default",
        name="w",
        permissions=frozenset({Permission.READ, Permission.WRITE, Permission.DELETE}),
        agents=("bo",),
    )
    for request in (ConsolidateRequest(), ConsolidateRequest(agent_id="ana")):
        with pytest.raises(ForbiddenError):
            await service.consolidating.consolidate(worker, request)
    done = await service.consolidating.consolidate(worker, ConsolidateRequest(agent_id="bo"))
    assert done.windows == 0
    bound = replace(worker, agents=("*",), user_id="mara")
    with pytest.raises(ForbiddenError):
        await service.consolidating.consolidate(bound, ConsolidateRequest(agent_id="ana", user_id="jon"))
    assert (await service.consolidating.consolidate(bound, ConsolidateRequest(agent_id="ana"))).windows == 0
