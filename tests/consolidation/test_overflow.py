"""A window that overflows is settled at once, behind the push, on every way in, and once."""

from __future__ import annotations

import asyncio
import contextvars
import json
from dataclasses import replace
from typing import Any

import pytest

from quipu.bootstrap import Running
from quipu.model.consolidation import ConsolidateRequest
from quipu.model.operations import CreateStoreRequest, ForgetRequest, ListRequest, RememberRequest
from quipu.model.principal import DEFAULT_TENANT
from quipu.model.record import MemoryType, Record, Tier
from quipu.service.consolidating_overflow import Overflowing
from quipu.service.consolidating_windows import Window
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from tests.consolidation.conftest import OWNER, WINDOW, Started
from tests.requirement import requirement

HELD = 3
HEAVY: dict[str, Any] = {"importance": 1.0}
LIGHT: dict[str, Any] = {"confidence": 0.1}


@pytest.fixture
async def running(started: Started) -> Running:
    """A window of three."""
    running = await started(consolidation_window=HELD)
    await running.service.stores.create(OWNER, WINDOW)
    return running


def pushed(text: str, **given: Any) -> RememberRequest:
    known: dict[str, Any] = {"agent_id": "ana", "type": MemoryType.SEMANTIC, "store": "window"}
    return RememberRequest(content=text, **{**known, **given})


async def push(service: MemoryService, text: str, **given: Any) -> str:
    return (await service.remember(OWNER, pushed(text, **given))).id


async def live(service: MemoryService, agent: str = "ana") -> list[Record]:
    return list((await service.reading.list(OWNER, ListRequest(agent_id=agent, limit=500))).records)


async def calm(service: MemoryService) -> None:
    await service.consolidating.overflowing.idle()


async def in_window(service: MemoryService, agent: str = "ana") -> list[str]:
    return sorted(one.content for one in await live(service, agent) if one.tier is Tier.SHORT_TERM)


@requirement("memorywire:consolidation.overflow")
async def test_a_full_window_is_left_alone_and_one_more_settles_it_at_once(
    service: MemoryService, clock: FixedClock
) -> None:
    for number in range(HELD):
        await push(service, f"light{number} thing{number}", **LIGHT)
        clock.move(1)
    await calm(service)
    assert len(await in_window(service)) == HELD
    await push(service, "light9 thing9", **LIGHT)
    await calm(service)
    assert await in_window(service) == ["light1 thing1", "light2 thing2", "light9 thing9"]


async def test_what_weighs_enough_is_promoted_and_each_once(service: MemoryService) -> None:
    """Upstream: ten pushes into a window of three called remember eighty times."""
    sources = [await push(service, f"heavy{number} thing{number}", **HEAVY) for number in range(10)]
    await calm(service)
    # What the last passes did not reach yet stays in the window: it is not over.
    await service.consolidating.consolidate(OWNER, ConsolidateRequest(agent_id="ana"))
    records = await live(service)
    derived = [link.to for record in records for link in record.links if link.rel == "derived_from"]
    assert sorted(derived) == sorted(sources)
    assert {record.tier for record in records} == {Tier.LONG_TERM}
    assert (await service.audit.verify(OWNER)).holds


async def test_only_the_window_that_is_over_is_settled(service: MemoryService) -> None:
    for user in ("mara", None):
        for number in range(HELD):
            await push(service, f"{user} heavy{number} thing{number}", user_id=user, **HEAVY)
    await push(service, "bo's", agent_id="bo", **HEAVY)
    await calm(service)
    assert len(await in_window(service)) == 2 * HELD
    await push(service, "None heavy9 thing9", **HEAVY)
    await calm(service)
    assert {text.split()[0] for text in await in_window(service)} == {"mara"}
    assert await in_window(service, "bo") == ["bo's"]


async def _one_by_one(service: MemoryService, texts: list[str]) -> None:
    for text in texts:
        await push(service, text, **HEAVY)


async def _together(service: MemoryService, texts: list[str]) -> None:
    await service.remember_many(OWNER, [pushed(text, **HEAVY) for text in texts], atomic=True)


async def _apart(service: MemoryService, texts: list[str]) -> None:
    await service.remember_many(OWNER, [pushed(text, **HEAVY) for text in texts])


async def _approved(service: MemoryService, texts: list[str]) -> None:
    for text in texts:
        await service.remember(OWNER, pushed(text, approval_required=True, **HEAVY))
    for waiting in await service.governance.proposals(OWNER, "pending"):
        await service.decide(OWNER, waiting.id, approved=True)


async def _restored(service: MemoryService, texts: list[str]) -> None:
    names: list[str] = []
    for text in texts:
        names.append(await push(service, text, **HEAVY))
        await service.forget(OWNER, ForgetRequest(agent_id="ana", ids=(names[-1],)))
    for name in names:
        await service.restore(OWNER, "ana", name)


@pytest.mark.parametrize("way", [_one_by_one, _together, _apart, _approved, _restored])
async def test_every_way_in_counts(service: MemoryService, way: Any) -> None:
    await way(service, [f"word{number} thing{number}" for number in range(HELD + 1)])
    await calm(service)
    assert await in_window(service) == []
    assert len(await live(service)) == HELD + 1


async def test_many_pushers_and_passes_at_once_settle_each_item_once(service: MemoryService) -> None:
    async def burst(number: int) -> list[str]:
        return [await push(service, f"burst{number} item{item}", **HEAVY) for item in range(5)]

    sources = [name for names in await asyncio.gather(*map(burst, range(10))) for name in names]
    await service.consolidating.consolidate(OWNER, ConsolidateRequest(agent_id="ana"))
    await calm(service)
    records = await live(service)
    derived = [link.to for record in records for link in record.links if link.rel == "derived_from"]
    assert sorted(derived) == sorted(sources)


async def test_what_other_processes_pushed_is_counted_too(started: Started, service: MemoryService) -> None:
    """This one pushes once for each two of theirs: it looks, and does not go by its own count."""
    other = (await started(consolidation_every_s=0)).service
    for number in range(HELD):
        await push(other, f"theirs{number} thing{number}", **HEAVY)
    await calm(other)
    assert len(await in_window(service)) == HELD
    await push(service, "mine", **HEAVY)
    await calm(service)
    assert await in_window(service) == []


async def test_a_push_does_not_wait_for_it(running: Running, service: MemoryService) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(_: Window) -> None:
        begun.set()
        await gate.wait()

    watching = Overflowing(running.parts, service.consolidating._windows, slow)
    running.parts.ledger.on_written(watching.written)
    for number in range(HELD + 3):
        await push(service, f"thing{number}", **LIGHT)
    await asyncio.wait_for(begun.wait(), 20)
    await push(service, "one more", **LIGHT)
    gate.set()
    await watching.close()


async def test_settling_is_no_part_of_the_request_that_caused_it(
    running: Running, service: MemoryService
) -> None:
    told: contextvars.ContextVar[str] = contextvars.ContextVar("told", default="nobody")
    seen: list[str] = []

    async def settle(_: Window) -> None:
        seen.append(told.get())

    told.set("somebody's request")
    watching = Overflowing(running.parts, service.consolidating._windows, settle)
    running.parts.ledger.on_written(watching.written)
    for number in range(HELD + 1):
        await push(service, f"thing{number}", **LIGHT)
    await watching.close()
    assert seen
    assert set(seen) == {"nobody"}


async def test_one_that_fails_is_tried_with_the_next_push(running: Running, service: MemoryService) -> None:
    tried: list[Window] = []

    async def settle(window: Window) -> None:
        tried.append(window)
        raise RuntimeError

    service.consolidating.overflowing._closing.set()  # the other one is out of the way
    watching = Overflowing(running.parts, service.consolidating._windows, settle)
    running.parts.ledger.on_written(watching.written)
    for number in range(HELD + 2):
        await push(service, f"thing{number}", **LIGHT)
        await watching.idle()
    assert tried == [(DEFAULT_TENANT, "ana", None)] * 2
    await watching.close()


async def test_closing_settles_what_has_overflowed(started: Started) -> None:
    first = await started(consolidation_window=HELD)
    await first.service.stores.create(OWNER, WINDOW)
    for number in range(HELD + 1):
        await push(first.service, f"thing{number}", **HEAVY)
    await first.service.close()
    second = await started(consolidation_every_s=0)
    assert await in_window(second.service) == []
    assert len(await live(second.service)) == HELD + 1


async def test_whoever_wants_no_settling_by_itself_gets_none(started: Started) -> None:
    service = (await started(consolidation_every_s=0, consolidation_window=HELD)).service
    await service.stores.create(OWNER, WINDOW)
    for number in range(HELD + 3):
        await push(service, f"thing{number}", **HEAVY)
    await calm(service)
    assert len(await in_window(service)) == HELD + 3


async def test_rules_hold_what_an_overflow_would_do(service: MemoryService, clock: FixedClock) -> None:
    held = {"id": "look", "when": {"operations": ["remember", "forget"]}, "effect": "hold"}
    rule = {**held, "when": {"operations": ["remember"], "sources": ["consolidation"]}}
    await service.policies.set(
        OWNER, {"rules": [rule, {**held, "id": "f", "when": {"operations": ["forget"]}}]}
    )
    for number in range(HELD + 2):
        await push(service, f"thing{number} word{number}", **(HEAVY if number % 2 else LIGHT))
        await calm(service)
        clock.move(1)
    assert len(await in_window(service)) == HELD + 2
    waiting = await service.governance.proposals(OWNER, "pending")
    assert sorted(one.operation for one in waiting) == ["forget", "remember", "remember"]
    assert len({json.dumps(one.request.get("content")) for one in waiting}) == 3


async def test_a_window_of_its_own_size_is_counted_seldom(running: Running, service: MemoryService) -> None:
    """Far from full, a window is counted every tenth of it and no more often."""
    parts = replace(running.parts, settling=replace(running.parts.settling, window=100))
    counted = 0
    windows = service.consolidating._windows

    class Counting(type(windows)):  # type: ignore[misc]  a real one that counts
        async def is_over(self, window: Window) -> tuple[bool, int]:
            nonlocal counted
            counted += 1
            return await super().is_over(window)

    service.consolidating.overflowing._closing.set()
    made = Counting(parts, windows._access, windows._vectors)
    watching = Overflowing(parts, made, lambda _: asyncio.sleep(0))
    running.parts.ledger.on_written(watching.written)
    await service.stores.create(OWNER, CreateStoreRequest(name="other", tier=Tier.SHORT_TERM))
    for number in range(41):
        await push(service, f"thing{number}", store="other", **LIGHT)
        await watching.idle()
    assert counted == 5  # the first push, and every ten
    await watching.close()
