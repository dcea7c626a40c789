"""A record that goes while somebody is about to change it stays gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from quipu import ConflictError, NotFoundError, RememberRequest
from quipu.model.consolidation import ConsolidateRequest, Settlement
from quipu.model.operations import (
    CreateStoreRequest,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
)
from quipu.model.principal import DEFAULT_TENANT, local
from quipu.model.record import Link, MemoryType, State, Tier
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from tests.service.ledgers import watched_service

ME = local()


def fact(text: str, **fields: Any) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text, **fields)


def changing(service: MemoryService, way: str, one: str, other: str) -> Awaitable[Any]:
    """Something that ends in another version of the record, or in another standing."""
    if way == "merge":
        strategy = MergeStrategy.MERGE_CONTENT
        asked = MergeRequest(agent_id="ana", canonical=one, duplicates=(other,), strategy=strategy)
        return service.merge(ME, asked)
    if way in ("archive", "demote"):
        policy = ExpirePolicy(confidence_below=0.5)
        return service.expire(ME, ExpireRequest(agent_id="ana", policy=policy, action=ExpireAction(way)))
    return service.remember(ME, fact("cake", id=one, if_version=1 if way == "guarded change" else None))


@pytest.mark.parametrize("way", ["change", "guarded change", "merge", "archive", "demote"])
@pytest.mark.parametrize("going", ["forgotten", "merged away"])
async def test_what_goes_while_it_is_being_changed_stays_gone(
    clock: FixedClock, way: str, going: str
) -> None:
    async with watched_service(clock) as (service, ledger):
        one = (await service.remember(ME, fact("tea", confidence=0.1))).id
        other, third = [(await service.remember(ME, fact(text))).id for text in ("coffee", "water")]

        async def gone() -> None:
            ledger.before = None
            if going == "forgotten":
                await service.forget(ME, ForgetRequest(agent_id="ana", ids=(one,)))
            else:
                await service.merge(ME, MergeRequest(agent_id="ana", canonical=third, duplicates=(one,)))

        ledger.before = lambda _: gone()
        if way in ("archive", "demote"):
            assert (await changing(service, way, one, other)).matched_count == 0
        else:
            with pytest.raises((NotFoundError, ConflictError)):
                await changing(service, way, one, other)
        newest = (await ledger.read(DEFAULT_TENANT, [one]))[one]
        assert (newest.version, newest.standing) == (1, State.FORGOTTEN)
        assert not (await service.reading.marks(ME, one)).is_demoted
        assert (await ledger.read(DEFAULT_TENANT, [other]))[other].standing is State.LIVE
        assert (await service.audit.verify(ME)).holds


SAID = "Tom lives at Birkenstrasse 7"
#: What consolidation makes is held.
HOLD = {"rules": [{"id": "look", "when": {"sources": ["consolidation"]}, "effect": "hold"}]}


async def said_anywhere(service: MemoryService, ledger: Any) -> set[str]:
    """Every text in every version, and in everything that waits or was kept."""
    said = {record.content async for record in ledger.every_version(DEFAULT_TENANT)}
    return said | {
        str(one.request["content"]) for one in await ledger.proposals(DEFAULT_TENANT) if one.request
    }


@pytest.mark.parametrize("way", ["by id", "by filter", "with its store"])
@pytest.mark.parametrize("settled", [Settlement.PROMOTED, Settlement.HELD])
async def test_what_is_promoted_while_it_is_being_erased_goes_too(
    clock: FixedClock, way: str, settled: Settlement
) -> None:
    """Between the decision what goes and its commit, a pass makes something out of it."""
    async with watched_service(clock) as (service, ledger):
        await service.stores.create(ME, CreateStoreRequest(name="window", tier=Tier.SHORT_TERM))
        if settled is Settlement.HELD:
            await service.policies.set(ME, HOLD)
        source = (await service.remember(ME, fact(SAID, store="window", importance=1.0, source="chat"))).id
        became: list[Settlement] = []

        async def promoted() -> None:
            ledger.before = None
            done = await service.consolidating.consolidate(ME, ConsolidateRequest())
            became.extend(one.outcome for one in done.settled)

        ledger.before = lambda _: promoted()
        gone: tuple[str, ...] = ()
        if way == "with its store":
            await service.stores.delete(ME, "window", "window", hard_delete=True)
        else:
            chosen: dict[str, Any] = {"ids": (source,)} if way == "by id" else {"filter": {"source": "chat"}}
            gone = (
                await service.forget(ME, ForgetRequest(agent_id="ana", hard_delete=True, **chosen))
            ).forgotten_ids
        assert became == [settled]
        assert await said_anywhere(service, ledger) == {""}
        if way != "with its store":
            assert source in gone
            assert len(gone) == (2 if settled is Settlement.PROMOTED else 1)
        assert (await service.audit.verify(ME)).holds


async def test_who_erases_what_is_merged_meanwhile_is_told_where_it_stays(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        one, other = [(await service.remember(ME, fact(text))).id for text in (SAID, "Tom has a door")]

        async def merged() -> None:
            ledger.before = None
            asked = MergeRequest(
                agent_id="ana", canonical=other, duplicates=(one,), strategy=MergeStrategy.MERGE_CONTENT
            )
            await service.merge(ME, asked)

        ledger.before = lambda _: merged()
        done = await service.forget(ME, ForgetRequest(agent_id="ana", ids=(one,), hard_delete=True))
        (warning,) = done.extensions["warnings"]
        assert other in warning


async def test_an_erasure_does_not_wait_for_what_is_merely_changed_or_linked_by_hand(
    clock: FixedClock,
) -> None:
    async with watched_service(clock) as (service, ledger):
        one = (await service.remember(ME, fact(SAID))).id

        async def changed() -> None:
            ledger.before = None
            await service.remember(ME, fact("Tom has moved", id=one))
            await service.remember(ME, fact("We wrote to Tom", links=(Link(one, "about"),)))

        ledger.before = lambda _: changed()
        done = await service.forget(ME, ForgetRequest(agent_id="ana", ids=(one,), hard_delete=True))
        assert done.forgotten_ids == (one,)
        assert sum(commits[-1].draft.op == "erase" for commits in ledger.commits) == 1
        assert await said_anywhere(service, ledger) == {"", "We wrote to Tom"}


async def test_who_takes_a_decision_back_and_goes_away_leaves_no_half_of_it(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        held = await service.remember(ME, fact(SAID, approval_required=True))
        name = str(held.extensions["proposal_id"])
        await service.decide(ME, name, approved=True, undoable=True)
        asked = asyncio.create_task(service.undoing.undo(ME, name))
        # Each commit on the way is the last one that who asked still waits for.
        ledger.before = lambda _: None if asked.done() else asked.cancel() and None
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(10):
            while not (waiting := await service.governance.proposals(ME, "pending")):
                pass
        assert [one.request["content"] for one in waiting] == [SAID]
        assert (await ledger.read(DEFAULT_TENANT, [held.id]))[held.id].standing is State.FORGOTTEN


async def test_what_is_erased_while_a_decision_on_it_is_taken_back_does_not_wait_again(
    clock: FixedClock,
) -> None:
    async with watched_service(clock) as (service, ledger):
        held = await service.remember(ME, fact(SAID, approval_required=True))
        name = str(held.extensions["proposal_id"])
        await service.decide(ME, name, approved=True, undoable=True)
        let_go_of = ledger.ledger.let_go_of

        async def erased(tenant: str, proposal_id: str) -> bool:
            is_let_go = await let_go_of(tenant, proposal_id)
            await service.forget(ME, ForgetRequest(agent_id="ana", ids=(held.id,), hard_delete=True))
            return is_let_go

        ledger.let_go_of = erased
        with pytest.raises(ConflictError) as refused:
            await service.undoing.undo(ME, name)
        assert refused.value.reason == "too_late"
        assert await said_anywhere(service, ledger) == {""}
        assert (await service.audit.verify(ME)).holds
