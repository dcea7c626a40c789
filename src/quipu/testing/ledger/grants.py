"""Lending: decided one after the other, all or nothing, and never taken out of the chain again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quipu.errors import ConflictError
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
from quipu.model.grants import GrantStatus, KeptGrant
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


def next_receipt(standing: Standing, scribe: Scribe, name: str = "1", grant_id: str | None = None) -> Writes:
    made = receipt(
        standing.end,
        id=name,
        type="consent",
        at=scribe.clock(),
        principal="did:web:user.example",
        agent="did:web:b.example",
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
        await use(10, "p3")  # sweeps what is past
        await use(11, "p1", "r1")
        await use(12, "r2")
        assert replays == [set(), {"p1"}, {"r1"}, set(), set(), set()]

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
