"""Whoever was shown something is told that it is erased: whoever erased it, however others answer, and once."""

import asyncio
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quipu.governance.operations import DECIDE
from quipu.memory.operations import FORGET
from quipu.outbound import Answer
from quipu.sharing import operations as ops
from quipu.sharing import readable, receipts
from quipu.sharing.erasures import Erasures
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.model import CASCADE_STEPS, RECEIPTS, CascadeStep
from tests.requirement import requirement
from tests.sharing.grantee import Grantee
from tests.sharing.network import Host, Network, hosts
from tests.sharing.test_erasure import holds

MINUTE = 60_000


@dataclass(repr=False)
class Both:
    """Who lends, who borrows, and what lies between."""

    network: Network
    lender: Host
    grantee: Grantee

    async def lent(self, text: str = "The word is zyxwv.", **fields: Any) -> tuple[str, str]:
        """The id of a memory that the other side keeps, and the grant that it was shown under."""
        record_id = await self.lender.remember(text, **fields)
        shared = await self.grantee.given(level=4)
        shown = await self.grantee.own(ops.BORROW, link=shared.link)
        assert text in [item.text for item in shown.items]
        return record_id, shared.grant_id

    async def held(self) -> int:
        """How much the other side keeps."""
        return len((await self.grantee.own(ops.LIST_BORROWED)).items)

    async def work(self) -> None:
        """What the lender's server does by itself."""
        await self.lender.sharing.erasures.work("default")

    async def erasure(self) -> Any:
        (one,) = (await self.lender(ops.LIST_ERASURES)).erasures
        return one

    async def deletions(self) -> int:
        rows = await self.lender.container.ledger.page(RECEIPTS, "default", limit=1000)
        assert (await self.lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()
        return [row.type for row in rows].count("deletion")


@pytest.fixture
def both(network: Network, lender: Host, grantee: Grantee) -> Both:
    return Both(network, lender, grantee)


@requirement("oap:erasure.everywhere")
async def test_what_is_erased_is_gone_at_who_was_shown_it_on_their_receipt(
    both: Both, tmp_path: Path
) -> None:
    record_id, grant_id = await both.lent()
    kept, _ = await both.lent("This stays.", scope_id="personal")
    assert await both.held() >= 2
    done = (await both.lender(ops.ERASE, ids=[record_id])).erasure
    assert done.step == "done"
    assert done.receipt["scope"]["subprocessors_propagated_to"] == [both.grantee.did]
    assert grant_id in done.receipt["scope"]["grants_affected"]
    told = done.report["steps"][0]["receipt"]
    assert told["tool_did"] == both.grantee.own.did
    assert told["scope"]["item_ids_digest"] == receipts.hashed([record_id])
    left = (await both.grantee.own(ops.LIST_BORROWED)).items
    assert {item.item_id for item in left} == {kept}
    for name in ("memory.example.db", "contractor.example.db"):
        assert not holds(tmp_path, name, "zyxwv")


@requirement("oap:erasure.followed")
async def test_an_erasure_that_a_person_had_to_approve_reaches_grantees(both: Both) -> None:
    record_id, _ = await both.lent()
    held = await both.lender(FORGET, ids=[record_id], hard_delete=True, approval_required=True)
    await both.work()
    assert await both.held() == 1
    await both.lender(DECIDE, id=held.approval_url.rpartition("/")[2], approved=True)
    await both.work()
    assert await both.held() == 0
    assert (await both.erasure()).step == "done"


@requirement("oap:erasure.retried")
async def test_a_grantee_that_is_away_is_told_when_it_is_back(both: Both) -> None:
    record_id, _ = await both.lent()
    both.network.away.add("contractor.example")
    done = (await both.lender(ops.ERASE, ids=[record_id])).erasure
    assert (done.step, done.grantees[0].status, done.grantees[0].attempts) == ("propagating", "waiting", 1)
    assert done.receipt["scope"]["subprocessors_propagated_to"] == [], "nobody has answered"
    assert done.report["steps"][0]["status"] == "waiting"
    assert done.grantees[0].next_at == both.lender.clock() + MINUTE
    both.network.away.clear()
    await both.work()
    assert await both.held() == 1, "not before its time"
    both.lender.clock.now += MINUTE
    await both.work()
    assert await both.held() == 0
    assert (await both.erasure()).step == "done"
    assert await both.deletions() == 1, "one receipt, however often it was tried"


@requirement("oap:erasure.retried")
async def test_waiting_grows_to_six_hours_and_who_does_not_answer_for_three_days_is_told_daily(
    both: Both,
) -> None:
    record_id, _ = await both.lent()
    both.network.away.add("contractor.example")
    await both.lender(ops.ERASE, ids=[record_id])
    waits: list[int] = []
    while (one := (await both.erasure()).grantees[0]).status == "waiting":
        waits.append((one.next_at - both.lender.clock()) // MINUTE)
        both.lender.clock.now = one.next_at
        await both.work()
    assert waits[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360]
    assert sum(waits) >= 72 * 60
    assert one.status == "unreachable"
    assert one.next_at - both.lender.clock() == 24 * 60 * MINUTE
    both.network.away.clear()
    both.lender.clock.now = one.next_at
    await both.work()
    assert await both.held() == 0
    assert (await both.erasure()).step == "done"


@requirement("oap:erasure.retried")
async def test_a_clock_that_was_wrong_keeps_nobody_waiting(both: Both) -> None:
    record_id, _ = await both.lent()
    both.network.away.add("contractor.example")
    both.lender.clock.now += 400 * 24 * 60 * MINUTE
    await both.lender(ops.ERASE, ids=[record_id])
    both.lender.clock.now -= 400 * 24 * 60 * MINUTE
    both.network.away.clear()
    await both.work()
    assert (await both.erasure()).step == "done"


@requirement("oap:erasure.resumed")
@pytest.mark.parametrize("when", ["before anybody is told", "before it is noted who was"])
async def test_an_erasure_goes_on_after_a_crash(
    both: Both, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    record_id, _ = await both.lent()

    class Killed(Exception):
        pass

    def killed(*_: Any) -> Any:
        raise Killed

    name = "_propagated" if when.startswith("before anybody") else "_advanced"
    with monkeypatch.context() as patched:
        patched.setattr(Erasures, name, killed)
        with pytest.raises(Killed):
            await both.lender(ops.ERASE, ids=[record_id])
    both.lender.sharing.erasures._at_work.clear()  # as in a new process
    assert (await both.erasure()).receipt is None
    both.lender.clock.now += MINUTE
    await both.work()
    assert await both.held() == 0
    done = await both.erasure()
    assert (done.step, await both.deletions()) == ("done", 1)


@requirement("oap:erasure.retried")
@pytest.mark.parametrize(
    "said",
    [
        {"endpoints": ["data_delete"]},
        {"endpoints": {"data_delete": "http://[::1"}},
        {"endpoints": {"data_delete": "https://elsewhere.example/oap/data/delete"}},
        {"endpoints": None},
        [],
    ],
    ids=["a list", "no address", "another host", "nothing", "no object"],
)
async def test_one_that_answers_nonsense_keeps_nobody_else_from_being_told(both: Both, said: Any) -> None:
    record_id, _ = await both.lent()
    await both.lent("Another grant, of the same.")
    asked: list[str] = []

    def nonsense_once(_: str, url: str, answer: Answer) -> Answer:
        if not url.endswith("oap-tool.json"):
            return answer
        asked.append(url)
        return answer if len(asked) > 1 else Answer(answer.status, answer.headers, json.dumps(said).encode())

    both.network.changes.append(nonsense_once)
    done = (await both.lender(ops.ERASE, ids=[record_id])).erasure
    assert sorted(one.status for one in done.grantees) == ["done", "waiting"]


@requirement("oap:erasure.retried")
@pytest.mark.parametrize(
    "change",
    [
        lambda body: {**body, "output": {**body["output"], "tool_did": "did:web:memory.example"}},
        lambda body: {**body, "output": {**body["output"], "scope": {"item_ids_digest": "sha256:0"}}},
        lambda body: {**body, "output": {**body["output"], "completed_at": "2020-01-01T00:00:00Z"}},
        lambda body: {**body, "output": None},
    ],
    ids=["of another host", "of other items", "altered", "none"],
)
async def test_what_is_no_receipt_of_these_items_does_not_count(both: Both, change: Any) -> None:
    record_id, _ = await both.lent()
    both.network.changing("/oap/data/delete", change)
    done = (await both.lender(ops.ERASE, ids=[record_id])).erasure
    assert (done.step, done.grantees[0].status) == ("propagating", "waiting")


@requirement("oap:erasure.retried")
async def test_servers_that_go_on_with_an_erasure_at_once_write_one_receipt(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id, _ = await both.lent()
    with monkeypatch.context() as patched:

        async def left(self: Erasures, tenant: str, erasure: Any) -> Any:
            return erasure

        patched.setattr(Erasures, "_propagated", left)
        await both.lender(ops.ERASE, ids=[record_id])
    servers = [copy.copy(both.lender.sharing.erasures) for _ in range(4)]
    for server in servers:
        server._at_work = set()
    await asyncio.gather(*(server.work("default") for server in servers))
    assert await both.deletions() == 1
    assert (await both.erasure()).step == "done"
    assert await both.held() == 0


@requirement("oap:erasure.no-address")
async def test_who_has_no_address_is_not_told_and_learns_it_with_the_answer_to_the_next_query(
    tmp_path: Path,
) -> None:
    names = ("memory.example", "contractor.example")
    async with hosts(tmp_path, *names, unreachable=names[1:]) as (network, [lender, own]):
        both = Both(network, lender, Grantee(lender, own))
        assert both.grantee.did.startswith("did:key:")
        record_id, grant_id = await both.lent()
        kept, _ = await both.lent("This stays.")
        done = (await lender(ops.ERASE, ids=[record_id])).erasure
        assert {one.status for one in done.grantees} == {"no_address"}
        assert {(one.attempts, one.next_at) for one in done.grantees} == {(0, None)}
        assert (done.step, done.receipt["scope"]["subprocessors_propagated_to"]) == ("propagating", [])
        assert {one["status"] for one in done.report["steps"]} == {"no_address"}
        listed = readable.erasures((await lender(ops.LIST_ERASURES)).to_dict())
        assert listed.count("not told, because a did:key has no address") == 2
        lender.clock.now += 100 * 60 * MINUTE
        await both.work()
        assert await both.erasure() == done, "nobody is asked who cannot be"
        assert await both.held() == 3

        link = f"https://memory.example/oap/memory/grant/{grant_id}"
        answer = await own(ops.BORROW, link=link)
        assert answer.erased == (record_id,)
        assert "zyxwv" not in str(
            [item.text for item in (await own(ops.LIST_BORROWED, grant_id=grant_id)).items]
        )
        assert (await both.erasure()).step == "propagating", "the other grant has not been asked for yet"
        assert (await own(ops.BORROW, link=link)).erased == (), "it is told once"
        other = next(one.grant_id for one in done.grantees if one.grant_id != grant_id)
        await own(ops.BORROW, link=f"https://memory.example/oap/memory/grant/{other}")
        await both.work()
        told = await both.erasure()
        assert (told.step, {one.status for one in told.grantees}) == ("done", {"told"})
        listed = readable.erasures((await lender(ops.LIST_ERASURES)).to_dict())
        assert listed.count("told with the answer to their query") == 2
        assert await both.deletions() == 1
        assert {item.item_id for item in (await own(ops.LIST_BORROWED)).items} == {kept}
        for name in names:
            assert not holds(tmp_path, f"{name}.db", "zyxwv")


@requirement("oap:erasure.no-address")
async def test_an_answer_with_the_erasure_says_it_with_the_deletion_receipt(tmp_path: Path) -> None:
    names = ("memory.example", "contractor.example")
    async with hosts(tmp_path, *names, unreachable=names[1:]) as (_, [lender, own]):
        grantee = Grantee(lender, own)
        record_id = await lender.remember("The word is zyxwv.")
        await grantee.given()
        assert (await grantee.sees())["erased"] == []
        done = (await lender(ops.ERASE, ids=[record_id])).erasure
        (said,) = (await grantee.sees("anything"))["erased"]
        assert said == {"item_ids": [record_id], "receipt": done.receipt}
        assert (await lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()


async def test_without_cascade_nobody_is_told(both: Both) -> None:
    record_id, _ = await both.lent()
    done = (await both.lender(ops.ERASE, ids=[record_id], cascade=False)).erasure
    assert (done.step, done.grantees) == ("done", ())
    assert await both.held() == 1
    assert not [url for _, url in both.network.asked if url.endswith("/oap/data/delete")]


async def test_steps_of_an_erasure_are_told_from_those_of_another(both: Both) -> None:
    first, _ = await both.lent()
    second, _ = await both.lent("The second word.")
    both.network.away.add("contractor.example")
    await both.lender(ops.ERASE, ids=[first])
    await both.lender(ops.ERASE, ids=[second])
    steps: list[CascadeStep] = [*await both.lender.container.ledger.page(CASCADE_STEPS, "default")]
    assert {step.item_ids for step in steps} == {(first,), (second,)}
    for erasure in (await both.lender(ops.LIST_ERASURES)).erasures:
        assert {one.items for one in erasure.grantees} == {1}
