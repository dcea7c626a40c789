"""A server that goes on for years, through full disks and clocks that are set back."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from quipu import BackendUnavailableError, RecallRequest, RememberRequest
from quipu.faces.web.lately import KEPT_MS, Lately
from quipu.model.journal import Op
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.service import notes
from quipu.testing.builders import FixedClock
from tests.service.ledgers import Watched, watched_service

ME = local()
HOUR = 3_600_000
ASK = RecallRequest(agent_id="ana", query="tea", min_relevance=0.0)


def fact(text: str) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text)


async def test_notes_of_reads_do_not_pile_up_while_nothing_can_be_written_and_the_journal_says_so(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notes, "_MOST_WAITING", 20)
    monkeypatch.setattr(notes, "_DELAY_S", 3600)

    def full(_: int) -> None:
        raise BackendUnavailableError("The disk is full.", reason="disk_full")

    async with watched_service(clock) as (service, ledger):
        await service.remember(ME, fact("tea"))
        for _ in range(50):  # as long as it may just be busy, all of them wait
            await service.recall(ME, ASK)
        ledger.before = full
        with pytest.raises(BackendUnavailableError):
            await service.flush()
        with caplog.at_level(logging.ERROR, "quipu.notes"):
            for _ in range(30):
                assert len((await service.recall(ME, ASK)).results) == 1
        assert caplog.text.count("from here on reads leave none") == 1
        ledger.before = None
        await service.flush()
        told = [entry for entry in await service.audit.entries(ME, limit=1_000) if entry.op is Op.RECALL]
        assert len(told) == 50
        (unnoted,) = [entry for entry in await service.audit.entries(ME, limit=1_000) if entry.op is Op.READ]
        assert (unnoted.actor, unnoted.detail, unnoted.records) == ("system", {"unnoted": 30}, ())
        # It works again, and what was told is not told again.
        await service.recall(ME, ASK)
        await service.flush()
        assert [entry.op for entry in await service.audit.entries(ME, limit=1_000)][-1] is Op.RECALL
        assert (await service.audit.verify(ME)).faults == ()


async def test_reads_of_who_can_be_written_for_all_leave_notes(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_MOST_WAITING", 1)
    monkeypatch.setattr(notes, "_DELAY_S", 3600)
    other = replace(local("other"))
    async with watched_service(clock) as (service, ledger):
        await ledger.open("other")
        for who in (ME, other):
            await service.remember(who, fact("tea"))
            await service.recall(who, ASK)

        def broken(number: int) -> None:
            if ledger.commits[number - 1][0].tenant == ME.tenant:
                raise BackendUnavailableError("It is damaged.", reason="corrupt")

        ledger.before = broken
        with pytest.raises(BackendUnavailableError):
            await service.flush()
        for _ in range(5):
            await service.recall(other, ASK)
        with pytest.raises(BackendUnavailableError):
            await service.flush()
        entries = await service.audit.entries(other, limit=1_000)
        assert [entry.op for entry in entries].count(Op.RECALL) == 6


class _Counting(Watched):
    """Says how often all signatures were read."""

    reads = 0

    async def checkpoints(self, tenant: str) -> object:
        self.reads += 1
        return await self.ledger.checkpoints(tenant)


async def test_signing_reads_old_signatures_only_when_something_may_be_due(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        counting = _Counting(ledger.ledger)
        service.audit._parts = replace(service.audit._parts, ledger=counting)  # type: ignore[arg-type]  it passes everything on

        async def signed() -> bool:
            return (await service.audit.checkpoint_if_due(ME, every_ms=HOUR, every_entries=100)) is not None

        await service.remember(ME, fact("tea"))
        assert await signed()
        before = counting.reads
        for _ in range(20):
            await service.remember(ME, fact("more"))
            assert not await signed()
        assert counting.reads == before
        clock.move(HOUR)
        # Another server was faster.
        other = await service.audit.checkpoint(ME)
        service.audit._last_seen[ME.tenant] = (1, other.at - HOUR)
        await service.remember(ME, fact("more"))
        assert not await signed()
        clock.move(HOUR)
        assert await signed()
        assert not await signed(), "nothing is new"


async def test_a_clock_that_is_set_back_does_not_keep_the_journal_from_being_signed(
    clock: FixedClock,
) -> None:
    async with watched_service(clock) as (service, _):

        async def signed() -> bool:
            await service.remember(ME, fact("tea"))
            return (await service.audit.checkpoint_if_due(ME, every_ms=HOUR, every_entries=1_000)) is not None

        clock.move(1_000 * HOUR)
        assert await signed()
        clock.move(-1_000 * HOUR)
        assert await signed()
        assert not await signed()
        clock.move(HOUR)
        assert await signed()
        assert (await service.audit.verify(ME)).faults == ()


async def test_counts_of_a_clock_that_was_wrong_are_counted_again(clock: FixedClock) -> None:
    lately, counted = Lately(clock), [0]

    async def count() -> dict[str, int]:
        counted[0] += 1
        return {"records": counted[0]}

    assert await lately.counts("t", count) == {"records": 1}
    clock.move(KEPT_MS - 1)
    assert await lately.counts("t", count) == {"records": 1}
    clock.move(-HOUR)
    assert await lately.counts("t", count) == {"records": 2}
