"""Procedures that step: kept, held, replayed, contended for, and never anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, QuipuError
from quipu.model.operations import ForgetRequest, RememberRequest, StepRequest
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.ledgers import slip_in
from tests.rules.test_procedures import PARCEL

OWNER = local()


@pytest.fixture
async def running(clock: FixedClock, ledger_url: str) -> AsyncIterator[Running]:
    running = await start(Config(store_url=ledger_url), embedder=WordEmbedder(), clock=clock)
    await running.parts.ledger.open(OWNER.tenant)
    yield running
    await running.close()


@pytest.fixture
def service(running: Running) -> MemoryService:
    return running.service


async def parcel(service: MemoryService, **given: Any) -> str:
    request = RememberRequest(
        **{
            "agent_id": "ana",
            "type": MemoryType.PROCEDURAL,
            "content": PARCEL,
            "metadata": {"order": 7},
            "tags": ("return",),
            **given,
        }
    )
    return (await service.remember(OWNER, request)).id


def step(record_id: str, trigger: str | None = None, **given: Any) -> StepRequest:
    return StepRequest(id=record_id, trigger=trigger, **given)


async def test_a_step_is_a_new_version_of_the_same_memory(service: MemoryService) -> None:
    name = await parcel(service)
    done = await service.procedures.step(OWNER, step(name, "label"))
    assert (done.id, done.version, done.current) == (name, 2, "labelled")
    assert done.available_triggers == ("ship", "drop")
    record = await service.reading.get(OWNER, "ana", name, None)
    assert (record.version, dict(record.metadata), record.tags) == (2, {"order": 7}, ("return",))
    history = await service.reading.history(OWNER, "ana", name)
    assert ['"current":"asked"' in version.record.content for version in history] == [True, False]
    standing = await service.procedures.standing(OWNER, name)
    assert (standing.current, standing.stored_at) == ("labelled", None)


async def test_a_guard_asks_for_its_fact(service: MemoryService) -> None:
    name = await parcel(service, content={**PARCEL, "current": "shipped"})
    with pytest.raises(ConflictError) as refused:
        await service.procedures.step(OWNER, step(name, "refund"))
    assert refused.value.reason == "invalid_trigger"
    done = await service.procedures.step(OWNER, step(name, "refund", facts={"goods_intact": True}))
    assert done.current == "refunded"


async def test_a_replay_is_tried_and_only_kept_when_asked_to(service: MemoryService) -> None:
    name = await parcel(service)
    tried = await service.procedures.step(OWNER, step(name, replay=("label", "ship")))
    assert (tried.current, tried.version, tried.stored_at) == ("shipped", 1, None)
    assert (await service.procedures.standing(OWNER, name)).current == "asked"
    kept = await service.procedures.step(OWNER, step(name, "drop", replay=("label",), persist=True))
    assert (kept.current, kept.version) == ("dropped", 2)
    tried = await service.procedures.step(OWNER, step(name, "drop", persist=False))
    assert tried.version == 2


async def test_a_held_step_has_not_been_taken(service: MemoryService) -> None:
    name = await parcel(service)
    held = await service.procedures.step(OWNER, step(name, "label", approval_required=True))
    assert (held.pending_approval, held.current, held.version) == (True, "asked", 1)
    assert (await service.procedures.standing(OWNER, name)).current == "asked"
    await service.decide(OWNER, str(held.extensions["proposal_id"]), approved=True)
    assert (await service.procedures.standing(OWNER, name)).current == "labelled"


async def test_of_two_steps_at_once_one_wins(service: MemoryService) -> None:
    name = await parcel(service)
    asked = [service.procedures.step(OWNER, step(name, "label")) for _ in range(6)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    won = [one for one in done if not isinstance(one, BaseException)]
    lost = [one for one in done if isinstance(one, QuipuError)]
    assert (len(won), len(lost)) == (1, 5)
    assert {one.reason for one in lost} <= {"version_mismatch", "invalid_trigger"}
    assert len(await service.reading.history(OWNER, "ana", name)) == 2


async def test_a_version_may_be_expected(service: MemoryService) -> None:
    name = await parcel(service)
    with pytest.raises(ConflictError) as refused:
        await service.procedures.step(OWNER, step(name, "label", if_version=2))
    assert refused.value.reason == "version_mismatch"
    await service.procedures.step(OWNER, step(name, "label", if_version=1))


async def test_what_is_no_procedure_in_reach_does_not_step(service: MemoryService) -> None:
    words = await service.remember(
        OWNER, RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="x")
    )
    gone = await parcel(service)
    await service.forget(OWNER, ForgetRequest(agent_id="ana", ids=(gone,)))
    mine = await parcel(service)
    with pytest.raises(ConflictError):
        await service.procedures.step(OWNER, step(words.id, "label"))
    stranger = Principal(
        tenant="default",
        name="bo",
        permissions=frozenset({Permission.READ, Permission.WRITE}),
        agents=("bo",),
    )
    for asked, who in ((gone, OWNER), ("mem_unknown", OWNER), (mine, stranger), ("\ud800", OWNER)):
        with pytest.raises(NotFoundError) as refused:
            await service.procedures.step(who, step(asked, "label"))
        assert refused.value.reason == "record"
    with pytest.raises(NotFoundError):
        await service.procedures.step(OWNER, step(mine, "label", agent_id="bo"))
    reader = Principal(tenant="default", name="r", permissions=frozenset({Permission.READ}))
    with pytest.raises(ForbiddenError):
        await service.procedures.step(reader, step(mine, "label"))
    assert (await service.procedures.step(reader, step(mine, "label", persist=False))).current == "labelled"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({}, "/trigger"),
        ({"trigger": "label", "facts": {str(n): True for n in range(257)}}, "/facts"),
        ({"replay": ("label",) * 10_001}, "/replay"),
    ],
)
async def test_bad_steps(service: MemoryService, given: dict[str, Any], pointer: str) -> None:
    name = await parcel(service)
    with pytest.raises(InvalidError) as refused:
        await service.procedures.step(OWNER, StepRequest(id=name, **given))
    assert refused.value.faults[0].pointer == pointer


async def test_a_life_is_told_and_replayed(service: MemoryService) -> None:
    """Every state it was in, by what, in order; played through again it ends where it stands."""
    name = await parcel(service)
    for trigger, facts in (("label", {}), ("ship", {}), ("refund", {"goods_intact": True})):
        await service.procedures.step(OWNER, step(name, trigger, facts=facts))
    shown = await service.procedures.shown(OWNER, name)
    assert [(one.version, one.current, one.trigger, one.is_explained) for one in shown.life] == [
        (1, "asked", None, True),
        (2, "labelled", "label", True),
        (3, "shipped", "ship", True),
        (4, "refunded", "refund", True),
    ]
    triggers = tuple(one.trigger for one in shown.life if one.trigger is not None)
    again = await service.procedures.step(OWNER, step(name, replay=triggers, facts={"goods_intact": True}))
    assert (again.current, again.version, again.stored_at) == (shown.current, 4, None)


async def test_a_machine_that_was_slipped_in_is_not_stepped(service: MemoryService, ledger_url: str) -> None:
    name = await parcel(service)
    evil = '{"name":"m","initial":"a","states":["a"],"transitions":[],"current":"a","before_state_change":"os.abort"}'
    slip_in(ledger_url, name, evil)
    with pytest.raises(ConflictError) as refused:
        await service.procedures.step(OWNER, step(name, "label"))
    assert refused.value.reason == "invalid_procedure"
