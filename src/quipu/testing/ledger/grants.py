"""Lending: decided one after the other, all or nothing, and never taken out of the chain again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quipu.errors import ConflictError
from quipu.model.change import KEY_LIFE_MS, Once
from quipu.model.disclosure import (
    CascadeStatus,
    CascadeStep,
    ChainEnd,
    Erasure,
    ErasureStep,
    HeldItem,
    LogKind,
    LogLine,
    Question,
    Standing,
    Writes,
)
from quipu.model.grants import GrantStatus, KeptGrant, TaskState, TaskStep
from quipu.model.value import JsonObject
from quipu.rules.receipts import Hand, after, log_line, receipt
from quipu.testing.builders import Scribe, canonical
from quipu.testing.ledger.case import LedgerCase

_HAND = Hand("did:web:memory.example#key-1", lambda message: f"signed {len(message)} bytes")


def a_grant(scribe: Scribe, name: str = "mgr_1") -> KeptGrant:
    return KeptGrant(
        tenant=scribe.tenant,
        id=name,
        hash="sha256:00",
        body={"grant_id": name, "purpose": "to try"},
        grantee="did:web:b.example",
        registered_at=scribe.clock(),
        expires_at=scribe.clock() + 1000,
    )


def a_step(scribe: Scribe, number: int, name: str = "tsk_1", at: int = 1) -> TaskStep:
    states = (TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED)
    return TaskStep(
        tenant=scribe.tenant, task_id=name, number=number, state=states[number - 1], at=at, detail={"é": [1]}
    )


def next_receipt(
    standing: Standing,
    scribe: Scribe,
    name: str = "1",
    grant_id: str | None = None,
    kind: str = "consent",
    agent: str = "did:web:b.example",
) -> Writes:
    made = receipt(
        standing.end,
        id=name,
        type=kind,
        at=scribe.clock(),
        principal="did:web:user.example",
        agent=agent,
        hand=_HAND,
        canonical=canonical,
        grant_id=grant_id,
    )
    return Writes(receipts=[made])


class GrantsContract(LedgerCase):
    """What the port says of lending."""

    async def test_a_grant_is_kept_found_and_changed(self, scribe: Scribe) -> None:
        lending, tenant, grant = scribe.ledger.lending, scribe.tenant, a_grant(scribe)
        assert await lending.grant(tenant, grant.id) is None
        await lending.decide(tenant, Question(), lambda _: Writes(grants=[grant]))
        assert await lending.grant(tenant, grant.id) == grant
        revoked = replace(grant, status=GrantStatus.REVOKED, revoked_at=5, uses=3)
        await lending.decide(tenant, Question(), lambda _: Writes(grants=[revoked]))
        assert list(await lending.grants(tenant)) == [revoked]
        assert await lending.grant("elsewhere", grant.id) is None

    async def test_what_is_shown_is_known_afterwards(self, scribe: Scribe) -> None:
        lending, tenant, grant = scribe.ledger.lending, scribe.tenant, a_grant(scribe)
        await lending.decide(tenant, Question(), lambda _: Writes(grants=[grant]))
        asked = Question(grant_id=grant.id, record_ids=("mem_1", "mem_2"), now=7)

        def show(standing: Standing) -> Writes:
            assert standing.grant == grant
            line = None
            lines: list[LogLine] = []
            for op in ("captured", "updated"):
                line = log_line(
                    line,
                    record_id="mem_1",
                    item_id="mem_1",
                    log=LogKind.STATE,
                    version=1,
                    op=op,
                    at=0,
                    actor="did:web:memory.example",
                    state="sha256:11",
                    receipt_id=None,
                    canonical=canonical,
                )
                lines.append(line)
            return Writes(shown=["mem_1"], lines=lines)

        await lending.decide(tenant, asked, show)
        seen: list[Standing] = []
        await lending.decide(tenant, asked, lambda standing: seen.append(standing) or Writes())
        (standing,) = seen
        assert standing.disclosed == {"mem_1"}
        assert standing.changed <= (await scribe.ledger.head(tenant)).seq
        assert not standing.is_suspended
        assert standing.tails["mem_1", LogKind.STATE].seq == 2
        assert standing.captures["mem_1"].entry["op"] == "captured"
        assert ("mem_1", LogKind.DISCLOSED) not in standing.tails
        assert [line.seq for line in await lending.log(tenant, "mem_1", LogKind.STATE)] == [1, 2]
        assert list(await lending.lent_to(tenant, ["mem_1", "mem_2"])) == [(grant.id, "mem_1")]
        assert list(await lending.lent_items(tenant, grant.id)) == [("mem_1", 7)]
        assert (await lending.tails(tenant, ["mem_1", "mem_2"])).keys() == {"mem_1"}

    async def test_receipts_follow_each_other_whoever_decides(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        await asyncio.gather(
            *(
                lending.decide(tenant, Question(), lambda s, n=n: next_receipt(s, scribe, str(n)))
                for n in range(8)
            )
        )
        end = ChainEnd()
        for kept in await lending.receipts(tenant):
            assert kept.body["previous_receipt_hash"] == end.hash
            assert kept.seq == end.seq + 1
            end = after(kept)
        assert end.seq == 8
        assert [kept.seq for kept in await lending.receipts(tenant, after=3, limit=2)] == [4, 5]

    async def test_what_a_grant_has_receipts_of_is_read_back_from_its_end(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        named = [("1", "mgr_1", "consent"), ("2", "mgr_2", "consent"), ("3", None, "kill_switch")]
        for name, grant_id, kind in [*named, ("4", None, "incident"), ("5", "mgr_1", "invocation")]:
            await lending.decide(
                tenant,
                Question(),
                lambda s, n=name, g=grant_id, k=kind: next_receipt(s, scribe, n, g, k),
            )

        async def about(grant_id: str, before: int, limit: int = 9) -> list[int]:
            return [one.seq for one in await lending.receipts_about(tenant, grant_id, before, limit)]

        assert await about("mgr_1", 99) == [5, 3, 1]
        assert await about("mgr_1", 99, limit=2) == [5, 3]
        assert await about("mgr_1", 3) == [1]
        assert await about("mgr_2", 1 << 62) == [3, 2]
        assert list(await lending.receipts_about(f"{tenant}-other", "mgr_1", 99, 9)) == []

    async def test_what_an_agent_has_receipts_of_is_read_in_order_behind_one_of_its_own(
        self, scribe: Scribe
    ) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        for name, agent in [("5", "did:a"), ("4", "did:b"), ("3", "did:a"), ("2", "did:b"), ("1", "did:a")]:
            await lending.decide(
                tenant, Question(), lambda s, n=name, a=agent: next_receipt(s, scribe, n, agent=a)
            )

        async def to(agent: str, after: str = "", limit: int = 9) -> list[int]:
            return [one.seq for one in await lending.receipts_to(tenant, agent, after, limit)]

        ids = {one.seq: one.id for one in await lending.receipts(tenant)}
        assert await to("did:a") == [1, 3, 5]
        assert await to("did:a", limit=2) == [1, 3]
        assert await to("did:a", ids[3]) == [5]
        assert await to("did:b", ids[2], limit=1) == [4]
        assert await to("did:a", ids[2]) == [], "one of somebody else's is no place"
        assert await to("did:a", "nothing") == []
        assert list(await lending.receipts_to(f"{tenant}-other", "did:a", "", 9)) == []

    async def test_what_a_decision_raises_leaves_nothing_behind(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant

        def refuse(standing: Standing) -> Writes:
            raise ConflictError(reason="binding_failed")

        with pytest.raises(ConflictError):
            await lending.decide(tenant, Question(), refuse)
        assert list(await lending.receipts(tenant)) == []

    @pytest.mark.parametrize("statement", ["UPDATE receipt SET body = ''", "DELETE FROM receipt"])
    async def test_no_receipt_is_changed_or_removed(self, scribe: Scribe, statement: str) -> None:
        await scribe.ledger.lending.decide(scribe.tenant, Question(), lambda s: next_receipt(s, scribe))
        with pytest.raises(Exception, match="append-only"):
            await self.raw(scribe.ledger, statement)

    async def test_a_proof_is_good_once_and_remembered_for_as_long_as_asked(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        replays: list[set[str]] = []

        async def use(now: int, *names: str) -> None:
            def decide(standing: Standing) -> Writes:
                replays.append(set(standing.replayed))
                return Writes(once_until=None if standing.replayed else now + 10)

            await lending.decide(tenant, Question(once=names, now=now), decide)

        await use(0, "p1", "r1")
        await use(5, "p1", "r2")
        await use(6, "p2", "r1")
        await use(10, "p3")  # what is past is forgotten
        await use(11, "p1", "r1")
        await use(12, "r2")
        assert replays == [set(), {"p1"}, {"r1"}, set(), set(), set()]
        await use(13, "p1")
        assert replays[-1] == {"p1"}, "used again, it is remembered again"
        await use(10**9, "p1", "r1")
        assert replays[-1] == set()

    async def test_requests_for_access_go_when_they_have_been_over_for_long(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        refused = replace(
            a_grant(scribe, "mrq_refused"), status=GrantStatus.REVOKED, revoked_at=10, expires_at=90
        )
        lapsed = replace(a_grant(scribe, "mrq_lapsed"), status=GrantStatus.SUSPENDED, expires_at=20)
        waits = replace(a_grant(scribe, "mrq_waits"), status=GrantStatus.SUSPENDED, expires_at=21)
        over = replace(a_grant(scribe, "mgr_over"), status=GrantStatus.REVOKED, revoked_at=1, expires_at=1)
        every = [refused, lapsed, waits, over]
        await lending.decide(tenant, Question(), lambda _: Writes(grants=every))
        await scribe.ledger.open("elsewhere")
        other = replace(refused, tenant="elsewhere")
        await lending.decide("elsewhere", Question(), lambda _: Writes(grants=[other]))
        assert await lending.drop_requests(tenant, 9) == 0
        assert await lending.drop_requests(tenant, 10) == 1
        assert await lending.drop_requests(tenant, 20) == 1
        assert {one.id for one in await lending.grants(tenant)} == {"mrq_waits", "mgr_over"}
        assert [one.id for one in await lending.grants("elsewhere")] == ["mrq_refused"]

    async def test_the_steps_of_a_task_are_added_once_each_and_go_together(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        steps = [a_step(scribe, 1), a_step(scribe, 2, at=5), a_step(scribe, 3, at=9)]
        for step in steps:
            assert await lending.add_task_step(step)
        late = replace(steps[2], state=TaskState.FAILED)
        assert not await lending.add_task_step(late), "what was said stays said"
        assert list(await lending.task_steps(tenant, "tsk_1")) == steps
        assert not await lending.task_steps("elsewhere", "tsk_1")
        assert await lending.add_task_step(a_step(scribe, 1, "tsk_2", at=2))
        assert await lending.drop_tasks(tenant, 8) == 1, "only of the one that nobody speaks of any more"
        assert list(await lending.task_steps(tenant, "tsk_1")) == steps
        assert await lending.drop_tasks(tenant, 9) == 3

    async def test_an_answer_under_a_key_is_kept_let_go_of_and_not_mixed_up(self, scribe: Scribe) -> None:
        lending, tenant, now = scribe.ledger.lending, scribe.tenant, 10 * KEY_LIFE_MS
        once = Once(principal="p", operation="o", key="k", fingerprint="f", answer={})

        async def asked(key: Once, at: int = now) -> JsonObject | None:
            question = Question(key=key, now=at)
            return (await lending.decide(tenant, question, lambda s: Writes(answer=s.answered))).answer

        async def kept(answer: JsonObject, at: int) -> None:
            writes = Writes(kept=replace(once, answer=answer), kept_at=at)
            await lending.decide(tenant, Question(now=now), lambda _: writes)

        assert await asked(once) is None
        await kept({}, now)
        assert await asked(once) == {}
        await kept({"n": 1}, now)
        assert await asked(once) == {"n": 1}
        assert await asked(replace(once, key="other")) is None
        assert await asked(replace(once, principal="other")) is None
        with pytest.raises(ConflictError) as refused:
            await asked(replace(once, fingerprint="other"))
        assert refused.value.reason == "idempotency_key_mismatch"
        assert await asked(once, now + KEY_LIFE_MS + 1) is None
        await kept({}, 0)
        assert await asked(replace(once, fingerprint="other")) is None, "a key that was let go of is free"

    async def test_an_erasure_moves_on_and_its_steps_with_it(self, scribe: Scribe) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        begun = Erasure(
            tenant=tenant, id="era_1", step=ErasureStep.ACCEPTED, requested_at=1, request={"ids": ["mem_1"]}
        )
        await lending.decide(tenant, Question(), lambda _: Writes(erasure=begun))
        step = CascadeStep(
            erasure_id="era_1", grantee="did:web:b.example", grant_id="mgr_1", item_ids=("mem_1",), next_at=9
        )
        done = replace(begun, step=ErasureStep.PROPAGATING, completed_at=2, receipt={"receipt_id": "x"})
        await lending.decide(tenant, Question(), lambda _: Writes(erasure=done, steps=[step]))
        assert list(await lending.erasures(tenant)) == [done]
        moved = replace(step, status=CascadeStatus.DONE, attempts=2, receipt={"receipt_id": "y"})
        await lending.move_step(tenant, moved)
        assert list(await lending.cascade(tenant)) == [moved]

    async def test_who_knows_less_of_an_erasure_than_is_kept_changes_nothing(self, scribe: Scribe) -> None:
        """Two servers carry out the same one, and one of them is slow."""
        lending, tenant = scribe.ledger.lending, scribe.tenant
        begun = Erasure(
            tenant=tenant, id="era_1", step=ErasureStep.ACCEPTED, requested_at=1, request={"ids": ["mem_1"]}
        )
        await lending.decide(tenant, Question(), lambda _: Writes(erasure=begun))
        step = CascadeStep(
            erasure_id="era_1", grantee="did:web:b.example", grant_id="mgr_1", item_ids=("mem_1",)
        )
        told = replace(step, status=CascadeStatus.DONE, attempts=1, receipt={"receipt_id": "y"})
        receipted = replace(begun, step=ErasureStep.PROPAGATING, completed_at=2, receipt={"receipt_id": "x"})
        await lending.decide(tenant, Question(), lambda _: Writes(erasure=receipted, steps=[told]))
        late = replace(step, status=CascadeStatus.WAITING, attempts=1, next_at=60_000)
        behind = replace(begun, step=ErasureStep.PROPAGATING)
        await lending.decide(tenant, Question(), lambda _: Writes(erasure=behind, steps=[late]))
        await lending.move_step(tenant, late)
        assert list(await lending.cascade(tenant)) == [told]
        assert list(await lending.erasures(tenant)) == [receipted]
        done = replace(receipted, step=ErasureStep.DONE)
        for erasure in (done, receipted):
            await lending.decide(tenant, Question(), lambda _, erasure=erasure: Writes(erasure=erasure))
        seen: list[Erasure | None] = []

        def look(standing: Standing) -> Writes:
            seen.append(standing.erasure)
            return Writes()

        for name in ("era_1", "era_none", None):
            await lending.decide(tenant, Question(erasure_id=name), look)
        assert seen == [done, None, None]

    async def test_what_others_lent_is_held_until_it_expires_or_they_want_it_back(
        self, scribe: Scribe
    ) -> None:
        lending, tenant = scribe.ledger.lending, scribe.tenant
        held = [
            HeldItem(
                tenant=tenant,
                source="did:web:a.example",
                grant_id="mgr_1",
                item_id=f"mem_{n}",
                item={"item_id": f"mem_{n}", "content": {"text": "x"}},
                receipt_id="r",
                received_at=1,
                expires_at=10 * n,
            )
            for n in (1, 2, 3)
        ]
        await lending.hold(held)
        await lending.hold(held[:1])
        assert list(await lending.held(tenant)) == held
        assert await lending.drop_held(tenant, "did:web:evil.example", "mgr_1", ["mem_3"]) == 0
        assert await lending.drop_held(tenant, "did:web:a.example", "mgr_1", ["mem_3", "mem_9"]) == 1
        await lending.drop_expired(tenant, 10)
        assert [one.item_id for one in await lending.held(tenant)] == ["mem_2"]


async def lent_once(scribe: Scribe) -> None:
    """Something in every table that lending has."""
    lending, tenant, grant = scribe.ledger.lending, scribe.tenant, a_grant(scribe)
    await lending.decide(tenant, Question(), lambda _: Writes(grants=[grant]))

    def decide(standing: Standing) -> Writes:
        line = log_line(
            None,
            record_id="mem_1",
            item_id="mem_1",
            log=LogKind.STATE,
            version=1,
            op="captured",
            at=0,
            actor="did:web:memory.example",
            state="sha256:11",
            receipt_id=None,
            canonical=canonical,
        )
        writes = next_receipt(standing, scribe, grant_id=grant.id)
        writes.shown, writes.lines, writes.once_until = ["mem_1"], [line], 10**15
        writes.erasure = Erasure(
            tenant=tenant, id="era_1", step=ErasureStep.ACCEPTED, requested_at=1, request={"ids": ["mem_1"]}
        )
        writes.steps = [
            CascadeStep(erasure_id="era_1", grantee=grant.grantee, grant_id=grant.id, item_ids=("mem_1",))
        ]
        return writes

    asked = Question(grant_id=grant.id, record_ids=("mem_1",), once=("p",), now=1)
    await lending.decide(tenant, asked, decide)
    held = HeldItem(
        tenant=tenant,
        source="did:web:a.example",
        grant_id="mgr_9",
        item_id="mem_9",
        item={"content": {"text": "é"}},
        receipt_id="r",
        received_at=1,
        expires_at=10**15,
    )
    await lending.hold([held])
    await lending.add_task_step(a_step(scribe, 1, at=10**15))
