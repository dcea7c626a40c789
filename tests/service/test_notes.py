"""What reads leave behind is written in batches, off the hot path, and is never lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from quipu import BackendUnavailableError, ConflictError, Memory, RecallRequest, RememberRequest
from quipu.model.journal import Op
from quipu.model.operations import ExpirePolicy, ExpireRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.service import notes
from quipu.testing.builders import FixedClock
from tests.service.conftest import Opened
from tests.service.ledgers import watched_service

ME = local()


def fact(text: str, **fields: object) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text, **fields)  # type: ignore[arg-type]  the fields are those of the request


ASK = RecallRequest(agent_id="ana", query="tea", min_relevance=0.0)


async def test_a_thousand_recalls_commit_a_few_times(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        answer = await service.remember(ME, fact("tea"))
        before = len(ledger.commits)
        for _ in range(1_000):
            await service.recall(ME, ASK)
        in_background = len(ledger.commits) - before
        await service.flush()
        written = [commit for group in ledger.commits[before:] for commit in group]
        assert len(written) == 1_000
        assert in_background <= 100  # one in half a second or so, however slow the machine
        mark = await service.reading.marks(ME, answer.id)
        assert (mark.recall_count, mark.last_recalled_at) == (1_000, clock())


async def test_a_mark_of_what_nobody_recalled_is_empty(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, _):
        mark = await service.reading.marks(ME, "mem_unknown")
        assert (mark.id, mark.recall_count, mark.last_recalled_at) == ("mem_unknown", 0, None)


async def test_many_notes_do_not_wait_for_the_clock(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_MOST", 3)
    async with watched_service(clock) as (service, ledger):
        await service.remember(ME, fact("tea"))
        before = len(ledger.commits)
        written = asyncio.Event()
        ledger.before = lambda _: written.set()
        for _ in range(3):
            await service.recall(ME, ASK)
        await asyncio.wait_for(written.wait(), 10)
        assert len(ledger.commits[before]) == 3


READS: dict[str, Callable[[Memory, str], Awaitable[object]]] = {
    "recall": lambda memory, _: memory.recall("tea"),
    "get": lambda memory, record_id: memory.get(record_id),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_who_never_has_to_wait_does_not_keep_notes_from_being_written(
    read: Callable[[Memory, str], Awaitable[object]], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer is at hand, so that the event loop has no other turn than the one that is left to the notes."""
    monkeypatch.setattr(notes, "_MOST", 3)
    monkeypatch.setattr(notes, "_DELAY_S", 0)
    memory = opened()
    record_id = (await memory.remember("tea")).id
    await memory.recall("tea")
    await memory.flush()
    turns = 0

    async def beside() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(beside())
    for _ in range(2):
        await read(memory, record_id)
    assert turns == 0
    for _ in range(200):
        await read(memory, record_id)
    assert turns > 0
    written = await memory.journal(limit=1_000)
    assert len([entry for entry in written if entry.op in (Op.RECALL, Op.READ)]) > 1
    other.cancel()


async def test_notes_that_cannot_be_written_go_on_waiting(
    clock: FixedClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_DELAY_S", 0.01)
    async with watched_service(clock) as (service, ledger):
        await service.remember(ME, fact("tea"))
        failed = asyncio.Event()

        def full(_: int) -> None:
            failed.set()
            raise BackendUnavailableError("The disk is full.", reason="disk_full")

        ledger.before = full
        with caplog.at_level(logging.WARNING, "quipu.notes"):
            await service.recall(ME, ASK)
            await asyncio.wait_for(failed.wait(), 10)
            with pytest.raises(BackendUnavailableError):
                await service.flush()
        assert "backend_unavailable" in caplog.text
        assert "tea" not in caplog.text
        ledger.before = None
        before = len(ledger.commits)
        await service.flush()
        assert len(ledger.commits[before]) == 1
        await service.flush()
        assert len(ledger.commits) == before + 1


async def test_closing_writes_what_waits(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        await service.recall(ME, ASK)
        before = len(ledger.commits)
        await service.close()
        assert len(ledger.commits) == before + 1
        await service.close()
        assert len(ledger.commits) == before + 1


# -- somebody else was faster ---------------------------------------------------------------------------------------


async def test_a_plan_that_comes_too_late_is_made_again(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        answer = await service.remember(ME, fact("one"))

        def meddle(number: int) -> object:
            """While the append is on its way, somebody else changes the record."""
            ledger.before = None
            return service.remember(ME, fact("two", id=answer.id))

        ledger.before = meddle
        done = await service.remember(ME, fact("three", id=answer.id))
        assert done.extensions["version"] == 3


async def test_a_record_that_never_stands_still_ends_in_a_conflict(
    clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quipu.service import committing

    monkeypatch.setattr(committing, "_ATTEMPTS", 3)
    async with watched_service(clock) as (service, ledger):
        answer = await service.remember(ME, fact("one"))

        def always(_: int) -> None:
            raise ConflictError("Too late.", reason="version_mismatch")

        ledger.before = always
        with pytest.raises(ConflictError):
            await service.remember(ME, fact("two", id=answer.id))
        assert len(ledger.commits) == 1 + 3


async def test_another_conflict_is_not_tried_again(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):

        def no(_: int) -> None:
            raise ConflictError("No.", reason="constraint")

        ledger.before = no
        with pytest.raises(ConflictError):
            await service.remember(ME, fact("one"))
        assert len(ledger.commits) == 1


async def test_a_sweep_looks_again_when_a_record_changes_under_it(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):
        answer = await service.remember(ME, fact("one", expires_at=clock() + 5))
        await service.remember(ME, fact("two", expires_at=clock() + 5))
        clock.move(5)

        def meddle(_: int) -> object:
            ledger.before = None
            from quipu.model.operations import ForgetRequest

            return service.forget(ME, ForgetRequest(agent_id="ana", ids=(answer.id,)))

        ledger.before = meddle
        assert await service.sweep(ME) == 1


async def test_expiry_writes_waiting_notes_first(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, _):
        await service.remember(ME, fact("tea"))
        clock.move(40 * 86_400_000)
        await service.recall(ME, ASK)
        request = ExpireRequest(agent_id="ana", policy=ExpirePolicy(no_recall_in_days=30))
        assert (await service.expire(ME, request)).matched_count == 0


async def test_a_ledger_that_does_not_answer_is_told_by_health(clock: FixedClock) -> None:
    async with watched_service(clock) as (service, ledger):

        class Gone:
            name = "sqlite"

            async def head(self, _: str) -> None:
                raise BackendUnavailableError

        well = await service.health(ME)
        assert (well["status"], well["seq"]) == ("ok", 1)
        ledger.ledger, real = Gone(), ledger.ledger
        told = await service.health(ME)
        ledger.ledger = real
        assert told["status"] == "error"
        assert "seq" not in told
        (row,) = told["stores"]
        assert (row["status"], row["error"]) == ("error", "does not answer")
