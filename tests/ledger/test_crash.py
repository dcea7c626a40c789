"""Nothing acknowledged is lost and nothing half-written stays: many writers, many processes, and kill -9."""

import asyncio
import json
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import numpy as np
import pytest

from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.ports.ledger import Indexed
from quipu.rules.texts import search_text
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, canonical, mention, vector

ROOT = Path(__file__).parents[2]
ROUNDS = 20

pytestmark = pytest.mark.slow


def opened(path: Path) -> SqliteLedger:
    return SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds("p"), canonical=canonical)


class Writing:
    """The program `writers` in a process of its own."""

    def __init__(self, place: Path | str, label: str, writers: int, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.ledger.writers", str(place), label, str(writers), str(count)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._told = b""
        self._is_read = False
        self.told: list[dict[str, object]] = []

    def read(self, deadline: float) -> bool:
        """Take in what it says next, if it says something in time; False at the end of its output."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], deadline)[0]:
            return True
        data = self._process.stdout.read(1 << 16)
        *lines, self._told = (self._told + data).split(b"\n")
        self.told.extend(json.loads(line) for line in lines)
        return bool(data)

    def wait_until_told(self, lines: int) -> None:
        while len(self.told) < lines:
            assert self.read(60), "it ended too early"

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def kill(self) -> None:
        self._process.kill()
        self.finish()

    def finish(self) -> int:
        while not self._is_read and self.read(60):
            pass
        self._is_read = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return self._process.wait(60)

    @property
    def acknowledged(self) -> list[tuple[int, str, int]]:
        """(position, id, version)"""
        return [
            (line["seq"], record_id, version)
            for line in self.told
            if "seq" in line
            for record_id, version in line["versions"]
        ]


@contextmanager
def processes(place: Path | str, count: int, writers: int, each: int) -> Iterator[list[Writing]]:
    """Several programs, all ready, started together."""
    started = [Writing(place, f"p{number}", writers, each) for number in range(count)]
    try:
        for writing in started:
            writing.wait_until_told(1)
        for writing in started:
            writing.start()
        yield started
    finally:
        for writing in started:
            writing.kill()  # what has finished is dead already


def stored_vectors(path: Path) -> dict[tuple[str, int], bytes]:
    """Read behind the ledger's back."""
    connection = apsw.Connection(str(path))
    try:
        rows = connection.execute(
            "SELECT r.id, r.version, v.data FROM record AS r JOIN vector AS v ON v.slot / 2 = r.row"
        ).fetchall()
    finally:
        connection.close()
    assert len(rows) == len({row[:2] for row in rows}), "a version has two vectors"
    return {(row[0], row[1]): row[2] for row in rows}


async def check_whole(
    scribe: Scribe, vectors: dict[tuple[str, int], bytes], acknowledged: Iterable[tuple[int, str, int]]
) -> None:
    """Every acknowledged version is there and whole, and so is everything else that is there."""
    versions = {(r.id, r.version): r async for r in scribe.ledger.every_version(TENANT)}
    for seq, record_id, version in acknowledged:
        assert versions[record_id, version].born == seq, "an acknowledged write is lost"
    entries = await scribe.entries()
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    told = {m: entry.seq for entry in entries for m in entry.records}
    assert told == {mention(record): record.born for record in versions.values()}
    pairs = [record_id[:-1] for record_id, version in versions if version == 1]
    assert len(pairs) == 2 * len(set(pairs)), "half a commit is there"
    expected = [Indexed(record=r, search_text=search_text(r)) for r in versions.values()]
    assert await scribe.ledger.index_faults(TENANT, expected) == []
    assert vectors == {key: vector(f"{key[0]} {key[1]}") for key in versions}
    assert await scribe.audit() == []
    assert await scribe.ledger.integrity_faults() == []


async def check_found_by_their_vectors(scribe: Scribe, ids: Iterable[str]) -> None:
    for record_id in ids:
        version = (await scribe.ledger.read(TENANT, [record_id]))[record_id].version
        (found,) = (await scribe.search("", vector(f"{record_id} {version}"), limit=1)).candidates
        assert (found.id, found.version) == (record_id, version)


@pytest.mark.parametrize("writers", [4, 1])
async def test_kill_9_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path, writers: int) -> None:
    """By several writers at once, who share transactions, and by one, who writes on its own thread."""
    path = tmp_path / "memory.db"
    chance = np.random.default_rng(20)
    acknowledged: list[tuple[int, str, int]] = []
    for number in range(ROUNDS):
        writing = Writing(path, f"r{number}", writers, count=100_000)
        writing.wait_until_told(1)
        writing.start()
        # Some die while they open the file, the others after so many acknowledgements and a little more.
        if number % 5:
            writing.wait_until_told(int(chance.integers(2, 80)))
        writing.read(float(chance.uniform(0, 0.03)))
        writing.kill()
        acknowledged += writing.acknowledged
        ledger = opened(path)
        scribe = await Scribe.at(ledger, FixedClock())
        await ledger.adopt_space(TENANT, SPACE)
        await check_whole(scribe, stored_vectors(path), acknowledged)
        await ledger.close()
    assert len(acknowledged) > 10 * ROUNDS, "nobody wrote enough to prove anything"
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock())
    await check_found_by_their_vectors(scribe, [record_id for _, record_id, _ in acknowledged[-100:]])
    await ledger.close()


async def test_eight_writers_in_one_process_lose_and_mix_up_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("w"))
    await ledger.adopt_space(TENANT, SPACE)
    written: list[tuple[int, str, int]] = []

    async def write(writer: int) -> None:
        for number in range(60):
            for half in ("a", "b"):
                drafted = scribe.drafted(f"writer {writer} {number}", id=f"mem_{writer}_{number:03d}_{half}")
                record = await scribe.put_drafted(drafted, vector=vector(f"{drafted.id} 1"))
                written.append((record.born, record.id, 1))
                assert (await scribe.ranked(vector(f"{record.id} 1"), limit=1)) == [record.id]

    await asyncio.gather(*(write(writer) for writer in range(8)))
    assert len(written) == 960
    await check_whole(scribe, stored_vectors(path), written)
    await ledger.close()


async def test_four_processes_on_one_file_lose_and_mix_up_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(TENANT, SPACE)
    with processes(path, count=4, writers=4, each=20) as started:
        codes = await asyncio.gather(*(asyncio.to_thread(writing.finish) for writing in started))
        acknowledged = [found for writing in started for found in writing.acknowledged]
    assert codes == [0] * 4
    assert len(acknowledged) == 4 * 4 * 20 * 3
    await check_whole(scribe, stored_vectors(path), acknowledged)
    await check_found_by_their_vectors(scribe, {record_id for _, record_id, _ in acknowledged})
    await ledger.close()


async def test_twenty_processes_may_open_an_empty_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with processes(path, count=20, writers=1, each=1) as started:
        codes = await asyncio.gather(*(asyncio.to_thread(writing.finish) for writing in started))
        acknowledged = [found for writing in started for found in writing.acknowledged]
    assert codes == [0] * 20
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock())
    assert [store.name for store in await ledger.stores(TENANT)] == ["main"]
    await check_whole(scribe, stored_vectors(path), acknowledged)
    await ledger.close()


async def test_twenty_threads_may_open_an_empty_file_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / f"{attempt}.db"
        together = threading.Barrier(20)

        def first_open(path: Path = path, together: threading.Barrier = together) -> SqliteLedger:
            together.wait(60)
            return opened(path)

        with ThreadPoolExecutor(20) as pool:
            ledgers = [call.result() for call in [pool.submit(first_open) for _ in range(20)]]
        scribes = await asyncio.gather(*(Scribe.at(ledger, FixedClock()) for ledger in ledgers))
        assert len({scribe.main for scribe in scribes}) == 1
        assert await scribes[0].audit() == []
        await asyncio.gather(*(ledger.close() for ledger in ledgers))
