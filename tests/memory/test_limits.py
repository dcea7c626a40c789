"""What must never grow without end, and names that no ledger could keep."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError, QuipuError, UnsupportedError
from quipu.ledger.commit import Commit, Committed
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.memory import read_log
from quipu.memory.operations import CHANGES, FORGET, GET, OPERATIONS, RECALL, REMEMBER
from quipu.memory.scope import STORES
from quipu.operation import dispatch_stream
from quipu.secrets.model import SECRETS
from tests.fixtures.memories import TestMemory, open_memory
from tests.ledger.builders import faults
from tests.rendering.samples import requests


class Filling(Ledger):
    """A disk that is full from a moment on, and counts who tries all the same."""

    is_full = False
    tried = 0

    async def commit(self, *commits: Commit, checked_at: int | None = None) -> Sequence[Committed]:
        if self.is_full:
            self.tried += 1
            raise BackendUnavailableError("The disk is full.", reason="disk_full")
        return await super().commit(*commits, checked_at=checked_at)


@pytest.fixture
def ledger() -> Filling:
    return Filling(SqliteDriver(":memory:"), (STORES, SECRETS))


async def test_reads_are_bounded_on_a_full_disk_and_the_journal_says_how_many_were_left_out(
    ledger: Filling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_log, "_MOST_WAITING", 10)
    memory = open_memory(ledger)
    one = (await memory(REMEMBER, content="tea")).id
    ledger.is_full = True
    for _ in range(5):
        await memory(GET, id=one)
    with pytest.raises(BackendUnavailableError):
        await memory.service.read_log.flush()
    assert ledger.tried == 1  # all together, and not one by one
    for _ in range(30):
        await memory(GET, id=one)
    ledger.is_full = False
    await memory.service.read_log.flush()
    entries = await ledger.entries("default", JournalQuery(op="read"))
    told = [entry.detail["not_logged"] for entry in entries if "not_logged" in entry.detail]
    assert (told, len(entries) - len(told)) == ([25], 10)
    await memory(GET, id=one)
    await memory.close()
    assert await _reads(ledger) is None


async def _reads(ledger: Ledger) -> None:
    """The ledger is closed by its memory."""
    with pytest.raises(BackendUnavailableError):
        await ledger.head("default")


async def test_whoever_closes_on_a_full_disk_is_told_nothing_was_lost_that_was_written(
    ledger: Filling, caplog: pytest.LogCaptureFixture
) -> None:
    memory = open_memory(ledger)
    one = (await memory(REMEMBER, content="tea")).id
    await memory(GET, id=one)
    ledger.is_full = True
    await memory.close()
    assert "Entries of 1 reads could not be written: disk_full" in caplog.text


# -- names ------------------------------------------------------------------------------------------------------------


def poisoned(value: Any, by: str) -> Any:
    """Every text in a request, with something in it that no ledger keeps."""
    if isinstance(value, str):
        return f"{value}{by}"
    if isinstance(value, Mapping):
        return {poisoned(name, by) if name == "a" else name: poisoned(one, by) for name, one in value.items()}
    return [poisoned(one, by) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("by", ["\0", "\ud800", "\udfff\ud800"], ids=["nul", "surrogate", "surrogates"])
async def test_names_and_texts_that_no_ledger_keeps_are_refused_or_not_there(
    memory: TestMemory, by: str
) -> None:
    tried = 0
    for operation in OPERATIONS:
        for name, given in requests(operation):
            if not name or operation is CHANGES:
                continue
            wrong = {**given, name: poisoned(given[name], by)}
            if wrong[name] == given[name]:
                continue
            tried += 1
            with pytest.raises(QuipuError) as refused:
                await memory(operation, **wrong)
            assert refused.value.code in ("validation_error", "not_found"), (operation.name, name)
            assert by not in str(refused.value)
    assert tried > 60
    assert await faults(memory.ledger, "default") == []


async def test_a_memory_without_a_key_refuses_to_sign_hits(memory: TestMemory) -> None:
    with pytest.raises(UnsupportedError) as refused:
        await memory(RECALL, query="tea", sign_for={"audience": "a", "nonce": "n"})
    assert refused.value.reason == "sign_for"


# -- change feed ------------------------------------------------------------------------------------------------------


async def test_who_follows_changes_goes_on_where_they_were_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def follow(memory: TestMemory, count: int, **fields: Any) -> list[Any]:
        seen: list[Any] = []
        async with asyncio.timeout(30):
            async for event in dispatch_stream(memory.context(), CHANGES, fields):
                seen.append(event)
                if len(seen) == count:
                    return seen
        return seen

    first = open_memory(path=path)
    ids = [(await first(REMEMBER, content=f"tea {number}")).id for number in range(3)]
    events = await follow(first, 2, since=0, types=["memory.remembered"])
    assert [event.record_ids for event in events] == [(name,) for name in ids[:2]]
    await first.close()
    second = open_memory(path=path)
    await second(FORGET, ids=[ids[0]])
    later = await follow(second, 2, since=events[-1].seq)
    assert [(event.type, event.record_ids) for event in later] == [
        ("memory.remembered", (ids[2],)),
        ("memory.forgotten", (ids[0],)),
    ]
    await second.close()


async def test_two_processes_on_one_file_see_each_other_at_once(tmp_path: Path) -> None:
    from quipu.memory.operations import EXPIRE, HISTORY, UPDATE
    from tests.fixtures.memories import ids_from

    one, other = (
        open_memory(path=tmp_path / "m.db"),
        open_memory(path=tmp_path / "m.db", new_id=ids_from(500)),
    )

    async def texts(memory: TestMemory) -> list[Any]:
        return [(hit.content, hit.demoted) for hit in await memory(RECALL, query="tea", min_relevance="off")]

    assert await texts(other) == []
    kept = (await one(REMEMBER, content="tea at noon")).id
    assert await texts(other) == [("tea at noon", False)]
    await other(UPDATE, id=kept, content="tea at one")
    assert await texts(one) == [("tea at one", False)]
    await one(EXPIRE, policy={"type": "semantic"}, action="demote")
    assert await texts(other) == [("tea at one", True)]
    await other(FORGET, ids=[kept])
    assert await texts(one) == []
    await one(FORGET, ids=[kept], hard_delete=True)
    assert (await other(HISTORY, id=kept)).versions[0].content == ""
    assert await faults(other.ledger, "default") == []
    await one.close()
    await other.close()
