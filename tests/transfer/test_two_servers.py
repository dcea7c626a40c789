"""Two servers over one database: a file that one has tried is carried out by the other, and by one of them only."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from quipu.errors import NotFoundError
from quipu.secrets.operations import ADD_SECRET
from quipu.transfer import operations as ops
from quipu.transfer.model import WAITING_FILES
from tests.architecture.test_secrets import SECRET
from tests.fixtures.postgres import empty
from tests.requirement import requirement
from tests.transfer.room import Room, memories, open_room


@pytest.fixture
async def servers(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Room, Room]]:
    """Two, with the same keys."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    empty(database)
    one, other = await open_room(database), await open_room(database)
    yield one, other
    await one.container.close()
    await other.container.close()


async def waiting(room: Room) -> int:
    return await room.container.ledger.count(WAITING_FILES, "default")


@requirement("formats:import.any-server")
async def test_any_server_shows_and_carries_out_what_one_has_tried(servers: tuple[Room, Room]) -> None:
    one, other = servers
    tried = await one.sent(memories("Ana likes tea", "Ana likes coffee"), file_name="a.json")
    shown = await other(ops.GET_IMPORT, id=tried.import_id)
    assert shown == tried
    done = await other.committed(tried.import_id)
    assert (done.status, done.counts.accepted, done.file_name) == ("done", 2, "a.json")
    assert await one.contents() == ["Ana likes coffee", "Ana likes tea"]
    # The one that has tried it knows.
    assert (await one(ops.GET_IMPORT, id=tried.import_id)).status == "done"
    assert await waiting(one) == 0
    with pytest.raises(NotFoundError):
        await one.committed(tried.import_id)


@requirement("formats:import.any-server")
async def test_what_is_sent_again_after_an_undo_is_carried_out_by_any(servers: tuple[Room, Room]) -> None:
    one, other = servers
    done = await one.brought(memories("Ana likes tea"))
    await other.undone(done.import_id)
    assert await one.contents() == []
    await other.sent(memories("Ana likes tea"))
    assert (await one.committed(done.import_id)).counts.accepted == 1
    assert await other.contents() == ["Ana likes tea"]


@requirement("formats:import.any-server")
async def test_asked_at_both_at_once_it_is_carried_out_by_one(servers: tuple[Room, Room]) -> None:
    one, other = servers
    tried = await one.sent(memories(*(f"fact {number}" for number in range(1_200))))

    async def until_done(room: Room) -> int:
        for _ in range(60):
            report = await room(ops.COMMIT_IMPORT, id=tried.import_id, wait_s=1)
            if report.status == "done":
                break
        return report.counts.accepted

    async def polite(room: Room) -> int:
        try:
            return await until_done(room)
        except NotFoundError:  # the other one has done it already
            return 1_200

    assert await asyncio.gather(polite(one), polite(other)) == [1_200, 1_200]
    (listed,) = (await one(ops.LIST_IMPORTS)).imports
    assert (listed.status, listed.counts.accepted, listed.counts.duplicate) == ("done", 1_200, 0)


@requirement("formats:import.any-server")
async def test_what_waits_in_the_database_is_sealed_and_goes(
    servers: tuple[Room, Room], database: str
) -> None:
    one, other = servers
    await one(ADD_SECRET, label="pass", value=SECRET)
    tried = await one.sent(memories(f"the password is {SECRET}"), file_name="tea.json")
    assert await waiting(other) == 2
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT sealed FROM import_file").fetchall()
    assert not any(SECRET.encode() in sealed or b"tea.json" in sealed for (sealed,) in rows)
    other.clock.now += 3_600_001
    one.clock.now = other.clock.now
    with pytest.raises(NotFoundError):
        await other.committed(tried.import_id)
    await other.sent(memories("Ana likes tea"))
    assert await waiting(one) == 2, "what nobody wanted for an hour is gone"


@requirement("formats:import.any-server")
async def test_what_a_server_that_died_held_is_gone_on_with_by_another(servers: tuple[Room, Room]) -> None:
    one, other = servers
    tried = await one.sent(memories("Ana likes tea"))
    assert await one.container.transfer.imports.files.hold("default", tried.import_id, one.clock.now)
    assert (await other(ops.COMMIT_IMPORT, id=tried.import_id, wait_s=0)).status == "running"
    assert await other.contents() == []
    other.clock.now += 120_001
    assert (await other.committed(tried.import_id)).status == "done"
    assert await one.contents() == ["Ana likes tea"]
