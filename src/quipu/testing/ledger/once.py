"""Writes that are asked for twice, and writes that wait for a person."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quipu.errors import ConflictError
from quipu.model.change import Erase, Once, Settle, Stage
from quipu.model.journal import Op
from quipu.testing.builders import FixedClock, Scribe, adding
from quipu.testing.ledger.case import LedgerCase

_DAY_MS = 24 * 3600 * 1000


class OnceContract(LedgerCase):
    """Idempotency and proposals."""

    # -- idempotency --------------------------------------------------------------------------------------------

    def _once(self, key: str = "key", fingerprint: str = "body", *record_ids: str) -> Once:
        return Once(
            principal="p",
            operation="remember",
            key=key,
            fingerprint=fingerprint,
            answer={"id": "first"},
            record_ids=record_ids,
        )

    async def test_a_repeated_write_happens_once_and_answers_the_same(self, scribe: Scribe) -> None:
        record = scribe.drafted()
        first = await scribe.commit(adding(record), once=self._once())
        again = await scribe.commit(adding(scribe.drafted()), once=self._once())
        assert first.replayed is None
        assert (again.replayed, again.seq, again.at) == ({"id": "first"}, first.seq, first.at)
        assert await scribe.scanned() == [record.id]
        assert (await scribe.ledger.head(scribe.tenant)).seq == first.seq

    async def test_what_was_answered_under_a_key_can_be_asked_for(self, scribe: Scribe) -> None:
        tenant, now = scribe.tenant, scribe.clock()
        assert await scribe.ledger.answered(tenant, self._once(), now) is None
        first = await scribe.commit(adding(scribe.drafted()), once=self._once())
        known = await scribe.ledger.answered(tenant, self._once(), now)
        assert known is not None
        assert (known.replayed, known.seq, known.at) == ({"id": "first"}, first.seq, first.at)
        assert await scribe.ledger.answered(tenant, self._once("another key"), now) is None
        assert await scribe.ledger.answered(tenant, self._once(), now + 2 * 86_400_000) is None
        with pytest.raises(ConflictError):
            await scribe.ledger.answered(tenant, self._once("key", "other body"), now)

    async def test_equal_writes_at_once_make_one_record(self, scribe: Scribe) -> None:
        done = await asyncio.gather(
            *(scribe.commit(adding(scribe.drafted()), once=self._once()) for _ in range(10))
        )
        assert len(await scribe.scanned()) == 1
        assert sum(answer.replayed is None for answer in done) == 1
        assert len({answer.seq for answer in done}) == 1

    async def test_the_same_key_for_another_request_is_a_conflict(self, scribe: Scribe) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert refused.value.reason == "idempotency_key_mismatch"
        assert len(await scribe.scanned()) == 1

    async def test_a_key_belongs_to_its_principal_operation_and_tenant(self, scribe: Scribe) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        for writer, once in (
            (scribe, replace(self._once(), principal="q", fingerprint="x")),
            (scribe, replace(self._once(), operation="forget", fingerprint="x")),
            (scribe, self._once("another key", "x")),
            (other, self._once("key", "x")),
        ):
            assert (await writer.commit(adding(writer.drafted()), once=once)).replayed is None

    async def test_a_key_lives_for_a_day(self, scribe: Scribe, clock: FixedClock) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        clock.move(_DAY_MS)
        assert (await scribe.commit(adding(scribe.drafted()), once=self._once())).replayed is not None
        clock.move(1)
        fresh = await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert fresh.replayed is None
        assert (await scribe.commit(once=self._once("key", "other body"))).seq == fresh.seq

    async def test_answers_that_no_key_can_ask_for_any_more_are_dropped(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        record = scribe.drafted()
        await scribe.commit(adding(record), once=self._once("old", "body", record.id))
        clock.move(_DAY_MS + 1)
        await scribe.commit(adding(scribe.drafted()), once=self._once("new"))
        assert [row[0] for row in await self.raw(scribe.ledger, "SELECT key FROM answer")] == ["new"]
        assert not await self.raw(scribe.ledger, "SELECT key FROM answer_record WHERE key = 'old'")

    async def test_a_failed_write_leaves_its_key_free(self, scribe: Scribe) -> None:
        record = await scribe.put()
        with pytest.raises(ConflictError):
            await scribe.commit(adding(record), once=self._once())
        assert (await scribe.commit(adding(scribe.drafted()), once=self._once())).replayed is None

    async def test_an_answer_dies_with_a_record_it_speaks_of(self, scribe: Scribe) -> None:
        one, other = scribe.drafted(), scribe.drafted()
        await scribe.commit(adding(one), adding(other), once=self._once("key", "body", one.id, other.id))
        await scribe.erase(other.id)
        again = await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert again.replayed is None

    # -- proposals ----------------------------------------------------------------------------------------------

    def _stage(self, name: str, record_id: str | None = None) -> Stage:
        return Stage(
            proposal_id=name,
            operation="remember",
            agent_id="ana",
            request={"content": "held"},
            held_by=("rule",),
            lapses_at=None,
            record_id=record_id,
        )

    async def test_a_staged_write_waits_and_is_decided_once(self, scribe: Scribe, clock: FixedClock) -> None:
        staged = await scribe.commit(self._stage("p1"), op=Op.HOLD)
        clock.move(1)
        await scribe.commit(self._stage("p2"), op=Op.HOLD)
        waiting = await scribe.ledger.proposals(scribe.tenant, "pending")
        assert [p.id for p in waiting] == ["p1", "p2"]
        first = waiting[0]
        assert (first.request, first.held_by, first.writer) == ({"content": "held"}, ("rule",), "tester")
        assert (first.created_at, first.status) == (staged.at, "pending")
        settle = Settle(proposal_id="p1", approved=True, reviewer="bo", reason="fine")
        done = await scribe.commit(settle, op=Op.DECIDE)
        decided = (await scribe.ledger.proposals(scribe.tenant, "approved"))[0]
        assert (decided.id, decided.request, decided.reviewer) == ("p1", {}, "bo")
        assert (decided.reviewed_at, decided.reason) == (done.at, "fine")
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(replace(settle, approved=False), op=Op.DECIDE)
        assert refused.value.reason == "already_decided"
        assert [p.id for p in await scribe.ledger.proposals(scribe.tenant)] == ["p1", "p2"]

    async def test_a_decision_and_its_effect_are_one_commit(self, scribe: Scribe) -> None:
        record = scribe.drafted("held")
        await scribe.commit(self._stage("p1", record.id), op=Op.HOLD)
        assert await scribe.scanned() == []
        assert await scribe.found("held") == set()
        settle = Settle(proposal_id="p1", approved=True, reviewer="bo")
        with pytest.raises(ConflictError):
            await scribe.commit(settle, adding(record, expects=7), op=Op.DECIDE)
        assert [p.id for p in await scribe.ledger.proposals(scribe.tenant, "pending")] == ["p1"]
        await scribe.commit(settle, adding(record), op=Op.DECIDE)
        assert await scribe.found("held") == {record.id}

    async def test_erasure_reaches_what_is_staged(self, scribe: Scribe) -> None:
        await scribe.commit(self._stage("p1", "mem_held"), op=Op.HOLD)
        await scribe.commit(self._stage("p2"), op=Op.HOLD)
        await scribe.commit(Erase(id="mem_held"), Erase(id="p2"), op=Op.ERASE)
        proposals = await scribe.ledger.proposals(scribe.tenant)
        assert [(p.id, p.status, p.request) for p in proposals] == [
            ("p1", "rejected", {}),
            ("p2", "rejected", {}),
        ]
