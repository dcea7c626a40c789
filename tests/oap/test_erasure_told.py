"""Whoever was shown something is told that it is erased: whoever erased it, however others answer, and once."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quipu.model.change import Commit, Erase
from quipu.model.disclosure import Erasure, ErasureStep, Question, Writes
from quipu.model.journal import Draft, Op
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.record import Link, MemoryType
from quipu.ports.keys import Answer
from quipu.service.erasing import Erasing
from quipu.testing.builders import FixedClock
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(1_800_000_000_000)


@pytest.fixture
def hosts(tmp_path: Path, clock: FixedClock) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path, clock=clock) as both:
        yield both


def lent(a: Host, b: Host) -> str:
    item_id = a.remember("The word is zyxwv.", tags=("website_redesign",))
    assert b.ask(a, a.grant(b.owner, trust_level=4)).items
    return item_id


def held(b: Host) -> int:
    return len(b.at.do(b.sharing.borrowing.held(OWNER)))


@requirement("oap:erasure.hard-forget")
def test_an_erasure_that_a_person_had_to_approve_reaches_grantees(
    hosts: tuple[Host, Host], clock: FixedClock
) -> None:
    a, b = hosts
    item_id = lent(a, b)
    request = ForgetRequest(agent_id="assistant", ids=(item_id,), hard_delete=True, approval_required=True)
    assert a.at.do(a.at.service.forget(OWNER, request)).pending_approval
    (waiting,) = a.at.do(a.parts.ledger.proposals("default", "pending"))
    a.at.do(a.sharing.erasing.resume("default"))
    assert held(b) == 1
    a.at.do(a.at.service.decide(OWNER, waiting.id, approved=True))
    clock.move(60_000)
    a.at.do(a.sharing.erasing.resume("default"))
    assert held(b) == 0
    a.at.do(a.sharing.erasing.resume("default"))
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.step is ErasureStep.DONE


@requirement("oap:erasure.resumed")
@pytest.mark.parametrize("has_looked", [False, True], ids=["a new process", "the same process"])
def test_who_was_stopped_between_erasing_and_saying_so_is_made_up_for(
    hosts: tuple[Host, Host], clock: FixedClock, has_looked: bool
) -> None:
    a, b = hosts
    item_id, other = lent(a, b), a.remember("Nobody saw this.")
    if has_looked:
        a.at.do(a.sharing.erasing.resume("default"))
    draft = Draft(op=Op.ERASE, actor="local", at=clock())
    erased = Commit(tenant="default", draft=draft, changes=(Erase(id=item_id), Erase(id=other)))
    a.at.do(a.parts.ledger.commit(erased))
    clock.move(60_000)
    a.at.do(a.sharing.erasing.resume("default"))
    assert held(b) == 0
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.request["ids"] == [item_id]


@requirement("oap:erasure.retried")
@pytest.mark.parametrize(
    "said",
    [
        {"endpoints": ["data_delete"]},
        {"endpoints": {"data_delete": "http://[::1"}},
        {"endpoints": {"data_delete": "\ud800"}},
        {"endpoints": None},
    ],
    ids=["a list", "no address", "no Unicode", "nothing"],
)
def test_one_that_answers_nonsense_keeps_nobody_else_from_being_told(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    a, b = hosts
    item_id = a.remember("The word is zyxwv.", tags=("website_redesign",))
    grants = [a.grant(b.owner, trust_level=4) for _ in range(2)]
    for grant_id in grants:
        b.ask(a, grant_id)
    peers, asked = a.parts.lending.peers, list[str]()
    get = peers.get

    async def once_nonsense(url: str, headers: Any = None) -> Answer:
        if url.endswith("oap-tool.json"):
            asked.append(url)
            if len(asked) == 1:
                return Answer(status=200, body=said, headers={})
        return await get(url, headers)

    monkeypatch.setattr(peers, "get", once_nonsense)
    with a.at.client() as owner:
        answer = owner.post("/oap/data/delete", json={"principal_did": a.owner, "item_ids": [item_id]})
    assert answer.status_code == 202, answer.text
    steps = a.at.do(a.parts.ledger.lending.cascade("default"))
    assert sorted(step.status.value for step in steps) == ["done", "waiting"]


@requirement("oap:erasure.retried")
def test_what_is_being_carried_out_is_not_begun_a_second_time(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    item_id = lent(a, b)
    peers = a.parts.lending.peers
    post = peers.post

    async def slow(*given: Any) -> Answer:
        await asyncio.sleep(0.3)
        return await post(*given)

    monkeypatch.setattr(peers, "post", slow)

    async def both() -> None:
        erasing = a.sharing.erasing
        request = {"principal_did": a.owner, "item_ids": [item_id]}
        work = asyncio.create_task(erasing.erase(OWNER, request))
        await asyncio.sleep(0.1)
        await erasing.resume("default")
        await work

    a.at.do(both())
    kinds = [one.type for one in a.at.do(a.sharing.grants.receipts(OWNER))]
    assert kinds.count("deletion") == 1
    assert held(b) == 0


@requirement("oap:erasure.retried")
@pytest.mark.parametrize("step", [ErasureStep.ACCEPTED, ErasureStep.PROPAGATING])
def test_servers_that_go_on_with_an_erasure_at_once_write_one_receipt(
    hosts: tuple[Host, Host], clock: FixedClock, step: ErasureStep
) -> None:
    a, b = hosts
    request = {"ids": [lent(a, b)], "reason": "erased", "scope_id": None, "cascade": True, "actor": "local"}
    begun = Erasure(tenant="default", id="era_1", step=step, requested_at=clock(), request=request)

    async def together() -> None:
        await a.parts.ledger.lending.decide("default", Question(), lambda _: Writes(erasure=begun))
        servers = [copy.copy(a.sharing.erasing) for _ in range(6)]
        for server in servers:
            server._at_work = set()
        await asyncio.gather(*(server.resume("default") for server in servers))

    a.at.do(together())
    kinds = [one.type for one in a.at.do(a.sharing.grants.receipts(OWNER))]
    assert kinds.count("deletion") == 1
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.receipt is not None
    assert erasure.step is ErasureStep.DONE
    assert held(b) == (0 if step is ErasureStep.ACCEPTED else 1)


@requirement("oap:erasure.resumed")
def test_what_was_made_while_an_erasure_was_left_undone_goes_with_it(
    hosts: tuple[Host, Host], clock: FixedClock
) -> None:
    a, b = hosts
    item_id = lent(a, b)
    request = {"ids": [item_id], "reason": "erased", "scope_id": None, "cascade": True, "actor": "local"}
    begun = Erasure(
        tenant="default", id="era_1", step=ErasureStep.ACCEPTED, requested_at=clock(), request=request
    )
    a.at.do(a.parts.ledger.lending.decide("default", Question(), lambda _: Writes(erasure=begun)))
    links = (Link(item_id, "derived_from"),)
    made = a.remember("The word is zyxwv.", source="consolidation", links=links)
    a.at.do(a.sharing.erasing.resume("default"))
    assert a.at.do(a.parts.ledger.read("default", [made]))[made].is_emptied
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.request["ids"] == [item_id, made]
    assert erasure.receipt["scope"]["items_deleted"] == 2
    assert held(b) == 0


@requirement("oap:erasure.resumed")
def test_what_is_made_between_the_last_look_and_the_erasure_goes_with_it(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    item_id = lent(a, b)
    made: list[str] = []
    grown = Erasing._grown

    async def interrupted(self: Erasing, erasure: Erasure) -> Erasure:
        looked = await grown(self, erasure)
        if not made:
            request = RememberRequest(
                agent_id="assistant",
                type=MemoryType.SEMANTIC,
                content="The word is zyxwv.",
                source="consolidation",
                links=(Link(item_id, "derived_from"),),
            )
            made.append((await a.at.service.remember(OWNER, request)).id)
        return looked

    monkeypatch.setattr(Erasing, "_grown", interrupted)
    request = {"principal_did": a.owner, "item_ids": [item_id]}
    erasure = a.at.do(a.sharing.erasing.erase(OWNER, request))
    assert a.at.do(a.parts.ledger.read("default", made))[made[0]].is_emptied
    assert erasure.request["ids"] == [item_id, *made]
    assert erasure.receipt["scope"]["items_deleted"] == 2
