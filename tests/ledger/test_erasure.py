"""Erased text is gone to the byte: from the file, its log, and the server's dead rows."""

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from quipu.bootstrap import TABLES
from quipu.ledger import ledger as ledgers
from quipu.ledger.commit import Close, Demote, Erase, Once
from quipu.ledger.decide import Caller
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.queries import SQL
from quipu.ledger.sqlite import log as logs
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.ledger.sqlite.log import Log
from quipu.model.record import Link
from quipu.model.search import Restriction, Scope, Search, SessionContext, Snapshot
from quipu.search.engine import SearchEngine
from quipu.search.terms import index_terms
from tests.fixtures.postgres import Server
from tests.ledger.builders import T, commit, faults, put, record

WORD = "Xq7zUnforgettable"


async def written_and_erased(ledger: Ledger) -> None:
    for number in range(50):
        once = Once(
            principal="p",
            operation="o",
            key=str(number),
            fingerprint="f",
            answer={"t": WORD},
            record_ids=(f"mem_{number}",),
        )
        await ledger.commit(
            commit(
                put(f"mem_{number}", content=f"{WORD} {number}", metadata={"w": WORD}, tags=(WORD,)),
                once=once,
            )
        )
        await ledger.commit(commit(put(f"mem_{number}", content=f"{WORD} again", expects=1), reason=WORD))
    await ledger.commit(commit(*(Erase(id=f"mem_{number}") for number in range(50)), op="erase"))


def traces(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


async def test_nothing_is_left_in_the_file_nor_in_its_log(tmp_path: Path, tables: Sequence[Any]) -> None:
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    try:
        await ledger.commit(commit(put("mem_x", content=WORD)))
        assert traces(tmp_path)
        await ledger.commit(commit(Erase(id="mem_x"), op="erase"))
        await written_and_erased(ledger)
        assert traces(tmp_path) == []
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_what_is_freed_in_a_file_too_large_to_be_written_anew_is_overwritten(
    tmp_path: Path, tables: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SMALL", 0)
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    try:
        await ledger.commit(commit(put("mem_x", content=f"{WORD} " * 2_000)))  # in pages of its own
        assert traces(tmp_path)
        await ledger.commit(commit(Erase(id="mem_x"), op="erase"))
        assert traces(tmp_path) == []
    finally:
        await ledger.close()


async def test_a_reader_delays_the_cut_of_the_log_and_it_is_made_later(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    driver = SqliteDriver(tmp_path / "memory.db")
    ledger = Ledger(driver, tables)
    try:
        await ledger.commit(commit(put("mem_x", content=WORD)))
        with driver.reading() as cursor:
            cursor.row(SQL["head"], tenant=T)
            await ledger._groups.commit(T, _caller(commit(Erase(id="mem_x"), op="erase")))
            assert not driver.scrub(patience_ms=100)
            assert traces(tmp_path)
        await _until(lambda: not traces(tmp_path))
    finally:
        await ledger.close()


async def test_nothing_is_left_in_the_servers_files(own_server: Server, tables: Sequence[Any]) -> None:
    address = own_server.new_database()
    ledger = Ledger(PostgresDriver(address, size=4), tables)
    try:
        await written_and_erased(ledger)
        await ledger.compact()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        assert traces(own_server.folder / "data" / "base") == []
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_erasure_reaches_versions_that_nobody_sees_any_more(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    """Forgotten, archived, merged, replaced, pruned: each version is emptied, whatever became of it."""
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    try:
        ways: dict[str, list[Any]] = {
            "forgotten": [Close(id="mem_0", expects=1, ending="forgotten")],
            "merged": [Close(id="mem_1", expects=1, ending="merged", merged_into="mem_9")],
            "archived": [put("mem_2", content=WORD, expects=1, state="archived")],
            "replaced": [put("mem_3", content="harmless", expects=1)],
            "expired": [Close(id="mem_4", expects=1, ending="expired")],
            "demoted": [Demote(id="mem_5", expects=1)],
        }
        await ledger.commit(commit(put("mem_9"), put("mem_8", links=(Link("mem_5", "about"),))))
        for number, changes in enumerate(ways.values()):
            await ledger.commit(commit(put(f"mem_{number}", content=WORD, key=WORD, session_id=WORD)))
            await ledger.commit(commit(*changes, reason=WORD))
        await ledger.prune(T, (await ledger.head(T)).seq - 2, "tester", 5)
        await ledger.commit(commit(*(Erase(id=f"mem_{n}") for n in range(len(ways))), op="erase"))
        for number in range(len(ways)):
            assert {one.content for one in await ledger.versions(T, f"mem_{number}")} == {""}
        assert traces(tmp_path) == []
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_no_page_keeps_what_was_moved_around_in_it(tmp_path: Path, tables: Sequence[Any]) -> None:
    """Splitting and joining pages copies rows: a copy left behind would outlive the row."""
    drawn = random.Random(3)  # noqa: S311  the same in every run
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    try:
        ids = [f"mem_{number:04d}" for number in range(200)]
        drawn.shuffle(ids)
        for record_id in ids:
            text = f"{WORD} " * drawn.randint(1, 300)
            await ledger.commit(commit(put(record_id, content=text), reason=text))
        for record_id in ids[::2]:
            await ledger.commit(commit(put(record_id, content=f"{WORD} " * drawn.randint(1, 300), expects=1)))
        drawn.shuffle(ids)
        for start in range(0, len(ids), 40):
            await ledger.commit(commit(*(Erase(id=one) for one in ids[start : start + 40]), op="erase"))
        assert traces(tmp_path) == []
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_compacting_and_backups_bring_nothing_back(tmp_path: Path, tables: Sequence[Any]) -> None:
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    try:
        await written_and_erased(ledger)
        await ledger.backup(tmp_path / "copy.db")
        await ledger.compact()
        assert traces(tmp_path) == []
    finally:
        await ledger.close()


# -- owed across processes ----------------------------------------------------------------------------------------------


class Beside:
    """Two ledgers on one file, as two processes have it, and a reader of neither that holds an old moment."""

    def __init__(self, path: Path, tables: Sequence[Any]) -> None:
        self.path = path
        self.one, self.other = (Ledger(SqliteDriver(path), tables) for _ in range(2))

    async def erased_by_the_other(self) -> apsw.Connection:
        # Long enough that the next commit does not happen to overwrite all of it in the log.
        await self.one.commit(commit(put("mem_x", content=WORD * 20_000)))
        assert self.one._driver.scrub(patience_ms=5_000)  # nothing is owed from before
        reader = apsw.Connection(str(self.path))
        reader.execute("BEGIN").fetchall()
        assert reader.execute("SELECT count(*) FROM record").get == 1
        await self.other._groups.commit(T, _caller(commit(Erase(id="mem_x"), op="erase")))
        assert not self.other._driver.scrub(patience_ms=50)
        return reader


@pytest.fixture
async def beside(tmp_path: Path, tables: Sequence[Any]) -> AsyncIterator[Beside]:
    beside = Beside(tmp_path / "memory.db", tables)
    yield beside
    await beside.one.close()
    await beside.other.close()


async def test_what_another_process_could_not_cut_is_cut_with_the_next_write(
    beside: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "_pay", lambda self: None)  # the other one is killed before it can
    reader = await beside.erased_by_the_other()
    reader.close()
    assert traces(tmp_path), "there was nothing left to be cut"
    monkeypatch.undo()
    await beside.one.commit(commit(put("mem_2")))
    await _until(lambda: not traces(tmp_path))


async def test_what_is_owed_is_cut_at_closing_though_others_have_the_file_open(
    beside: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "_pay", lambda self: None)
    reader = await beside.erased_by_the_other()
    reader.close()
    assert traces(tmp_path), "there was nothing left to be cut"
    await beside.other.close()
    assert traces(tmp_path) == []


async def test_what_a_killed_process_owed_is_cut_by_whoever_opens_the_file_next(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    path = tmp_path / "memory.db"
    script = (
        "import asyncio, os, sys\n"
        "from quipu.ledger.decide import Caller\n"
        "from tests.ledger.writer import *\n"
        "from quipu.ledger.commit import Erase\n"
        "async def main():\n"
        "    ledger = Ledger(SqliteDriver(sys.argv[1]), (STORES,))\n"
        "    await ledger.commit(commit(put('mem_x', content=sys.argv[2])))\n"
        "    await ledger._groups.commit('acme', Caller((commit(Erase(id='mem_x')),)))\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parent.parent.parent
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, str(path), WORD],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert traces(tmp_path), "there was nothing left to be cut"
    ledger = Ledger(SqliteDriver(path), tables)
    try:
        await _until(lambda: not traces(tmp_path))
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_an_erasure_does_not_wait_for_a_reader_that_never_lets_go(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_SCRUB_PATIENCE_MS", 100)
    await beside.one.commit(commit(put("mem_x", content=WORD)))
    reader = apsw.Connection(str(beside.path))
    reader.execute("BEGIN").fetchall()
    assert reader.execute("SELECT count(*) FROM record").get == 1
    async with asyncio.timeout(30):
        await beside.one.commit(commit(Erase(id="mem_x"), op="erase"))
        await beside.other.commit(commit(put("mem_2")))
    assert await beside.other.records(T, ["mem_x"]) == {}
    reader.close()


async def test_an_erasure_whose_caller_goes_away_is_finished_all_the_same(
    beside: Beside, tmp_path: Path
) -> None:
    await beside.one.commit(commit(put("mem_x", content=WORD)))
    task = asyncio.create_task(beside.one.commit(commit(Erase(id="mem_x"), op="erase")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await _until(lambda: not traces(tmp_path))
    assert await beside.other.records(T, ["mem_x"]) == {}


async def test_another_process_that_has_the_record_in_memory_forgets_it(
    new_driver: Callable[[], Any], tables: Sequence[Any]
) -> None:
    one, other = Ledger(new_driver(), tables), Ledger(new_driver(), tables)
    engine = SearchEngine(1 << 20)
    scope, text = Scope(tenant=T, agent_id="agent"), WORD.lower()
    terms = index_terms(record("mem_1", content=WORD))

    async def found(seq: int | None = None) -> list[str]:
        search = Search(
            scope=scope,
            snapshot=Snapshot(seq, 5000),
            restriction=Restriction(),
            text=text,
            vector=None,
            limit=5,
            context=SessionContext(),
        )
        got = await other.read(T, lambda reader: engine.find(reader, search))
        return [candidate.id for candidate in got.candidates]

    try:
        await one.commit(commit(put("mem_1", content=WORD, terms=terms)))
        assert await found() == ["mem_1"]
        await one.commit(commit(Erase(id="mem_1"), op="erase"))
        assert await found() == await found(1) == []
    finally:
        await one.close()
        await other.close()


async def test_dead_rows_of_a_server_are_taken_away_without_being_asked(
    postgres: Server, tables: Sequence[Any]
) -> None:
    address = postgres.new_database()
    ledger = Ledger(PostgresDriver(address, size=4), tables)

    def vacuumed() -> bool:
        with psycopg.connect(address, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_user_tables WHERE relname IN ('record', 'vector', 'reason') "
                "AND vacuum_count > 0"
            ).fetchone()
        return row == (3,)

    try:
        await written_and_erased(ledger)
        await _until(vacuumed)
    finally:
        await ledger.close()


def test_every_table_that_an_erasure_empties_is_vacuumed() -> None:
    """What an `Erase` deletes or empties, of the ledger's own tables and of the capabilities'."""
    named = {
        match
        for name in ("empty_record", *_DROPS)
        for match in re.findall(r"(?:UPDATE|DELETE FROM) (\w+)", SQL[name].text)
    }
    named |= {table.name for table in TABLES if table.names}
    assert named == set(ledgers.erasable(TABLES))


_DROPS = ("drop_vectors", "drop_links", "drop_mark", "drop_reasons", "drop_answers", "drop_answer_records")


def _caller(*commits: Any) -> Any:
    return Caller(commits)


async def _until(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  a thread of the driver does it, and tells nobody
            await asyncio.sleep(0.02)  # a thread of the driver does it, and tells nobody
