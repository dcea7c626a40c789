"""Quipu on SQLite and on PostgreSQL beside mem0, LangGraph and Chroma: one source of records, one machine, one run.

Every store gets the same records of 1,000 agents of Zipf sizes, with their vectors, and is asked for the ten nearest in
the largest and in a middle agent, for everybody and for one user. Quipu's times are those of a whole recall, words and
vectors; the others search vectors alone. PostgreSQL is a server with its disk in order (fsync on). A store that takes
longer than its budget to fill is reported as far as it got.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench import quipu_side
from bench.machine import REPOSITORY
from bench.peers.work import K, batches, chosen, exact_share, summary
from bench.synthetic import Probe, Source
from tests.postgres import Server

CHROMA = Path(__file__).parent.parent / ".chroma-venv"
CHROMA_PACKAGES = ("chromadb==1.5.9",)
#: How long a store may take to fill, by size; what is slow at the first is not waited for at the next.
BUDGET_S = {10_000: 120.0, 100_000: 30.0}
_BUDGET_S = 60.0
QUERIES = 50
#: Name → store of the worker, its environment, and whether it is given a PostgreSQL database.
PEERS = {
    "Chroma": ("chroma", CHROMA, False),
    "LangGraph, in memory": ("langgraph", REPOSITORY / ".vendor-venvs" / "langgraph", False),
    "LangGraph, PostgreSQL": ("langgraph", REPOSITORY / ".vendor-venvs" / "langgraph", True),
    "mem0, Qdrant": ("mem0", REPOSITORY / ".vendor-venvs" / "mem0", False),
    "mem0, PostgreSQL": ("mem0", REPOSITORY / ".vendor-venvs" / "mem0", True),
}
Note = Callable[[str], None]


def prepare() -> None:
    """Every environment, made on first use."""
    subprocess.run([str(REPOSITORY / "scripts" / "vendors"), "mem0", "langgraph"], check=True)
    if not (CHROMA / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(CHROMA)], check=True)
        pip = [str(CHROMA / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *CHROMA_PACKAGES], check=True)
        (CHROMA / ".complete").write_text("\n".join(CHROMA_PACKAGES))


@contextmanager
def postgres() -> Iterator[Server]:
    """A server as somebody would run it: durable, and cleaning up after itself."""
    server = Server(
        fsync="on",
        full_page_writes="on",
        autovacuum="on",
        shared_buffers="1GB",
        maintenance_work_mem="512MB",
    )
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.remove()


async def quipu(store: str, records: int, seed: int, queries: int = QUERIES) -> dict[str, Any]:
    """The work, done by Quipu over one store."""
    source, seconds = Source(seed), 0.0
    vectors = quipu_side.GivenVectors()
    async with quipu_side.opened(store, agent_id="all", embedder=vectors) as memory:
        for batch in batches(source, records):
            seconds += await quipu_side.remember_all(memory, batch)
    result: dict[str, Any] = {"records": records, "wanted": records, "ingest_per_second": records / seconds}
    probes = source.queries(queries)
    for name, (agent, start, size) in chosen(records).items():
        async with quipu_side.opened(store, agent_id=agent, embedder=vectors) as memory:
            result[name] = await _asked(memory, source, start, size, probes)
    return result


async def _asked(memory: Any, source: Source, start: int, size: int, probes: list[Probe]) -> dict[str, Any]:
    rows = list(source.records(size, start))
    vectors = np.stack([row.vector for row in rows])
    times: dict[str, list[float]] = {"all": [], "one_user": []}
    shares: dict[str, list[float]] = {"all": [], "one_user": []}
    for probe in [probes[0], *probes]:
        for kind, user in (("all", None), ("one_user", probe.user_id)):
            given = quipu_side.given(probe.vector)
            _, millis = await quipu_side.recall(memory, probe.text, k=K, user_id=user, embedding=given)
            times[kind].append(millis)
            # Exactness is of the vectors, so this one is asked without words, and not timed.
            found, _ = await quipu_side.recall(
                memory, quipu_side.WORDLESS, k=K, user_id=user, embedding=given
            )
            numbers = [hit.metadata["number"] for hit in found]
            shares[kind].append(exact_share(numbers, rows, vectors, probe, user))
    return {
        kind: {**summary(times[kind][1:]), "exact_share": float(np.mean(shares[kind][1:]))} for kind in times
    }


def peer(name: str, folder: Path, records: int, seed: int, url: str) -> dict[str, Any]:
    """The work, done by another store in its own process."""
    store, environment, _ = PEERS[name]
    words = ["--store", store, "--records", str(records), "--seed", str(seed), "--folder", str(folder)]
    words += ["--url", url, "--budget", str(BUDGET_S.get(records, _BUDGET_S)), "--queries", str(QUERIES)]
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-m", "bench.peers.worker", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"wanted": records, "error": done.stderr[-1500:]}
    return json.loads(done.stdout.splitlines()[-1])


async def measured(
    room: Callable[[str], Path], sizes: tuple[int, ...], largest_of_peers: int, seed: int, note: Note
) -> dict[str, Any]:
    """Every size, every store."""
    await asyncio.to_thread(prepare)
    result: dict[str, Any] = {}
    for records in sizes:
        rows: dict[str, Any] = result.setdefault(str(records), {})
        note(f"peers: {records:,} records, Quipu on SQLite")
        rows["Quipu, SQLite"] = await quipu(f"sqlite:///{room('peers') / 'q.db'}", records, seed)
        with postgres() as server:
            note(f"peers: {records:,} records, Quipu on PostgreSQL")
            rows["Quipu, PostgreSQL"] = await quipu(server.database(is_empty=True), records, seed)
        if records > largest_of_peers:
            continue
        for name, (_, _, wants_server) in PEERS.items():
            note(f"peers: {records:,} records, {name}")
            began = time.monotonic()
            if wants_server:
                with postgres() as server:
                    found = await asyncio.to_thread(
                        peer, name, room("peers"), records, seed, server.database(is_empty=True)
                    )
            else:
                found = await asyncio.to_thread(peer, name, room("peers"), records, seed, "")
            rows[name] = {**found, "minutes": (time.monotonic() - began) / 60}
    return result
