"""Ingest, recall, exactness, size and memory at 1k, 10k, 100k and 1M records, the embedder excluded.

Vectors are given. Up to 100k one agent holds everything; a million lies in 1,000 agents of Zipf sizes, and recall is
measured in the largest and in a middle one. Every size runs in a process of its own, so that its peak memory is
its own. The bare SQLite transaction in the same run is what a durable write costs at least, and the rows of a write
put into a copy of the file are what these tables cost at least.

`python -m bench.scale --records 1000 --folder <empty folder>` prints one size as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench import quipu_side, synthetic
from bench.machine import REPOSITORY, folder_bytes, peak_memory_mb
from bench.metrics import latency_summary, mean
from bench.replaying import Replayed

BATCH = 1_000
TURN = 20
FIRST = 400
K = 10
CALLERS = 64
AGENTS = 1_000
MIDDLE = 32
ONE_AGENT_UP_TO = 100_000


@dataclass(frozen=True)
class Pass:
    """One kind of recall: what it adds to the call, how many records fit it, and whether a record does."""

    more: Callable[[synthetic.Probe], dict[str, Any]]
    possible: Callable[[synthetic.Probe], int]
    is_allowed: Callable[[synthetic.Probe, int], bool]


class Bare:
    """One transaction with fsync per record, text and vector, nothing else."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, content TEXT, vector BLOB)")

    def write(self, record: synthetic.Record) -> float:
        """Milliseconds."""
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(
            "INSERT INTO records (content, vector) VALUES (?, ?)", (record.text, record.vector.tobytes())
        )
        self._connection.execute("COMMIT")
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()


def partitions(records: int) -> list[tuple[str, int, int]]:
    """Agents with the first number and the count of their records, largest first."""
    if records <= ONE_AGENT_UP_TO:
        return [("bench", 0, records)]
    sizes = synthetic.agent_sizes(records, AGENTS)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return [
        (f"agent-{rank:04d}", int(start), int(size))
        for rank, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]


def batches(source: synthetic.Source, start: int, count: int) -> Iterator[list[synthetic.Record]]:
    """The records in lists of at most a thousand."""
    held: list[synthetic.Record] = []
    for record in source.records(count, start):
        held.append(record)
        if len(held) == BATCH:
            yield held
            held = []
    if held:
        yield held


async def _fill(path: Path, source: synthetic.Source, records: int) -> float:
    """Stores everything in batches; returns the seconds Quipu took."""
    seconds = 0.0
    for agent_id, start, count in partitions(records):
        async with quipu_side.opened(path, agent_id=agent_id, embedder=quipu_side.GivenVectors()) as memory:
            for batch in batches(source, start, count):
                seconds += await quipu_side.remember_batch(memory, batch)
    return seconds


async def _writes(
    memory: Any,
    bare: Bare,
    replayed: Replayed,
    alone: Sequence[synthetic.Record],
    together: Sequence[synthetic.Record],
) -> dict[str, Any]:
    """Single durable writes, alone and from 64 callers.

    A lone writer, the rows of its writes by themselves and the bare transaction take turns: what a disk takes to keep something changes within seconds. The
    first ones are told apart: while the file of a log still grows, a sync takes up to twice as long as later on.
    """
    ours: list[float] = []
    rows: list[float] = []
    least: list[float] = []
    for start in range(0, len(alone), TURN):
        ours += [await quipu_side.remember_one(memory, record) for record in alone[start : start + TURN]]
        rows += replayed.caught_up()
        least += [bare.write(record) for record in alone[start : start + TURN]]
    rate, millis = await quipu_side.remember_together(memory, together, CALLERS)
    return {
        "one_writer": latency_summary(ours[FIRST:]),
        "rows_alone": latency_summary(rows[FIRST:]),
        "bare_sqlite": latency_summary(least[FIRST:]),
        "first": {
            "one_writer": latency_summary(ours[:FIRST]),
            "rows_alone": latency_summary(rows[:FIRST]),
            "bare_sqlite": latency_summary(least[:FIRST]),
        },
        "concurrent": {**latency_summary(millis), "callers": CALLERS, "per_second": rate},
    }


def _nearest(
    source: synthetic.Source, start: int, count: int, probes: list[synthetic.Probe]
) -> list[set[int]]:
    """By brute force, the numbers of the K records nearest to each probe."""
    vectors = np.stack([record.vector for record in source.records(count, start)])
    numbers = np.arange(start, start + count)
    found: list[set[int]] = []
    for probe in probes:
        cosines = vectors @ probe.vector
        found.append({int(numbers[i]) for i in np.argpartition(-cosines, min(K, count - 1))[:K]})
    return found


def _owners(source: synthetic.Source, ranges: Sequence[tuple[int, int]]) -> dict[int, str]:
    """Whose each record of a partition is, by its number; ranges are (first number, count)."""
    return {
        record.number: record.user_id for start, count in ranges for record in source.records(count, start)
    }


async def _recalls(
    memory: Any, probes: list[synthetic.Probe], as_of: str, nearest: list[set[int]], owners: dict[int, str]
) -> dict[str, Any]:
    """Live, filtered and as-of recalls, each kind in a pass of its own, and how exact the vector leg is.

    Every pass says which share of the K records it could return came back, and how many came back that its filter
    excludes: a recall that finds nothing is fast, and must not count as such.
    """
    late = max(owners) // 10
    per_user = Counter(owners.values())
    fitting = sum(number >= late for number in owners)
    everything = len(owners)
    kinds: dict[str, Pass] = {
        "live": Pass(lambda _: {}, lambda _: everything, lambda _, __: True),
        "filtered": Pass(
            lambda probe: {"user_id": probe.user_id},
            lambda probe: per_user[probe.user_id],
            lambda probe, number: owners[number] == probe.user_id,
        ),
        "metadata_filter": Pass(
            lambda _: {"filter": {"number": {"$gte": late}}},
            lambda _: fitting,
            lambda _, number: number >= late,
        ),
        "as_of": Pass(lambda _: {"as_of": as_of}, lambda _: everything, lambda _, __: True),
    }
    summary: dict[str, Any] = {}
    for name, kind in kinds.items():
        times: list[float] = []
        shares: list[float] = []
        foreign = 0
        for probe in [probes[0], *probes]:
            vector = quipu_side.given(probe.vector)
            hits, millis = await quipu_side.recall(
                memory, probe.text, k=K, embedding=vector, **kind.more(probe)
            )
            times.append(millis)
            if possible := min(K, kind.possible(probe)):
                shares.append(len(hits) / possible)
            foreign += sum(not kind.is_allowed(probe, hit.metadata["number"]) for hit in hits)
        summary[name] = {**latency_summary(times[1:]), "returned_share": mean(shares), "foreign": foreign}
    exact: list[float] = []
    for probe, wanted in zip(probes, nearest, strict=True):
        vector = quipu_side.given(probe.vector)
        hits, _ = await quipu_side.recall(memory, quipu_side.WORDLESS, k=K, embedding=vector, as_of=as_of)
        exact.append(len(wanted & {hit.metadata["number"] for hit in hits}) / len(wanted))
    return {**summary, "exact_share": mean(exact)}


async def measured(
    folder: Path, records: int, seed: int, *, alone: int = 2_000, together: int = 3_200, queries: int = 50
) -> dict[str, Any]:
    """All measures at one size."""
    source = synthetic.Source(seed)
    store = folder / "store"
    store.mkdir(parents=True, exist_ok=True)
    path = store / "scale.db"
    seconds = await _fill(path, source, records)
    result: dict[str, Any] = {
        "records": records,
        "ingest_per_second": records / seconds,
        "bytes_per_record": folder_bytes(store) / records,
    }
    as_of = datetime.now(UTC).isoformat()
    await asyncio.sleep(0.01)
    parts = partitions(records)
    chosen = {"largest": parts[0]} if len(parts) == 1 else {"largest": parts[0], "middle": parts[MIDDLE]}
    probes = source.queries(queries)
    fresh = records
    bare = Bare(folder / "bare.db")
    for name, (agent_id, start, count) in chosen.items():
        async with quipu_side.opened(path, agent_id=agent_id, embedder=quipu_side.GivenVectors()) as memory:
            started = time.perf_counter()
            await quipu_side.recall(memory, probes[0].text, k=K, embedding=quipu_side.given(probes[0].vector))
            first = (time.perf_counter() - started) * 1000
            owners = _owners(source, [(start, count)])
            nearest = _nearest(source, start, count, probes)
            recalls = await _recalls(memory, probes, as_of, nearest, owners)
            # Behind the recalls: so many are written that a small memory is several times as large afterwards.
            more = list(source.records(alone + together, start=fresh))
            replayed = Replayed(path, folder / f"{name}.db")
            writes = await _writes(memory, bare, replayed, more[:alone], more[alone:])
            replayed.close()
            fresh += len(more)
        result[name] = {"records": count, "first_recall_ms": first, "writes": writes, "recall": recalls}
    bare.close()
    result["peak_memory_mb"] = peak_memory_mb()
    return result


def in_own_process(folder: Path, records: int, seed: int) -> dict[str, Any]:
    """One size measured in a fresh process."""
    arguments = ["--records", str(records), "--seed", str(seed), "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"records": records, "error": done.stderr[-2000:]}
    return json.loads(done.stdout)


def main() -> None:
    """Measures one size and prints it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measured(given.folder, given.records, given.seed))))


if __name__ == "__main__":
    main()
