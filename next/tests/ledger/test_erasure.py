"""Erased text is gone to the byte: from the file, its log, and the server's dead rows."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from quipu.ledger.commit import Erase, Once
from quipu.ledger.decide import Caller
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.queries import SQL
from quipu.ledger.sqlite.driver import SqliteDriver
from tests.fixtures.postgres import Server
from tests.ledger.builders import T, commit, faults, put

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


async def test_nothing_is_left_in_the_servers_files(postgres: Server, tables: Sequence[Any]) -> None:
    address = postgres.new_database()
    ledger = Ledger(PostgresDriver(address, size=4), tables)
    try:
        await written_and_erased(ledger)
        await ledger.compact()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        assert traces(postgres.folder / "data" / "base") == []
        assert await faults(ledger) == []
    finally:
        await ledger.close()


def _caller(*commits: Any) -> Any:
    return Caller(commits)


async def _until(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  a thread of the driver does it, and tells nobody
            await asyncio.sleep(0.02)  # a thread of the driver does it, and tells nobody
