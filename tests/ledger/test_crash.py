"""An acknowledged write survives kill -9, under eight writers, on both engines."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.sqlite.driver import SqliteDriver
from tests.fixtures.postgres import Server
from tests.ledger.builders import T, faults

ROOT = Path(__file__).parent.parent.parent


def killed_writer(address: str, name: str, acknowledgements: int) -> tuple[set[str], set[str]]:
    """Kill a writing process after so many acknowledgements; what it was told is kept, and what is gone."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.writer", address, name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert writer.stdout is not None
    kept: set[str] = set()
    gone: set[str] = set()
    for count, line in enumerate(writer.stdout):
        if not line.endswith("\n"):  # killed while it was printing
            break
        word, name = line.split()
        assert word != "refused", line
        (kept if word == "kept" else gone).add(name)
        if count == acknowledgements:
            writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    return kept, gone


async def check(ledger: Ledger, kept: set[str], gone: set[str]) -> None:
    try:
        there = set(await ledger.records(T, sorted(kept)))
        newest = await ledger.newest_versions(T, sorted(kept))
        assert set(newest) == kept
        assert not there & gone
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def run(address: str, tables: Sequence[Any], rounds: int, acknowledgements: int) -> None:
    kept: set[str] = set()
    gone: set[str] = set()
    for number in range(rounds):
        more, less = killed_writer(address, f"r{number}", acknowledgements)
        kept |= more
        gone |= less
        driver = PostgresDriver(address, size=4) if "://" in address else SqliteDriver(address)
        await check(Ledger(driver, tables), kept, gone)
    assert len(kept) > rounds * acknowledgements // 2


async def test_a_file_keeps_what_it_acknowledged(tmp_path: Path, tables: Sequence[Any]) -> None:
    await run(str(tmp_path / "memory.db"), tables, rounds=2, acknowledgements=400)


async def test_a_server_keeps_what_it_acknowledged(postgres: Server, tables: Sequence[Any]) -> None:
    await run(postgres.new_database(), tables, rounds=2, acknowledgements=400)


@pytest.mark.slow
async def test_a_file_keeps_what_it_acknowledged_over_many_kills(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    await run(str(tmp_path / "memory.db"), tables, rounds=12, acknowledgements=1500)


@pytest.mark.slow
async def test_a_server_keeps_what_it_acknowledged_over_many_kills(
    postgres: Server, tables: Sequence[Any]
) -> None:
    await run(postgres.new_database(), tables, rounds=8, acknowledgements=1500)
