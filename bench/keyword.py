"""The keyword leg: an FTS5 table against Quipu's own, on the same texts, with the same questions.

FTS5 gets the form that was found fastest: content words joined with OR, stop words dropped, the agent as a term
inside MATCH. Quipu is opened without an embedder, so that its keyword leg answers alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import apsw

from bench import quipu_side, synthetic
from bench.metrics import latency_summary
from bench.scale import MIDDLE, K, batches, partitions

STOP_WORDS = {*synthetic.FUNCTION_WORDS, "what", "did", "say", "about"}


def _match(agent_id: str, question: str) -> str:
    """The MATCH expression: the agent and any content word."""
    words = [
        word
        for word in "".join(c if c.isalnum() else " " for c in question).split()
        if word.lower() not in STOP_WORDS
    ]
    alternatives = " OR ".join(f'"{word}"' for word in words)
    return f'agent : "{agent_id}" AND content : ({alternatives})'


def fts5_filled(path: Path, source: synthetic.Source, records: int) -> float:
    """Fills an FTS5 table with porter stemming; returns rows per second."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE VIRTUAL TABLE words USING fts5(content, agent, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    seconds = 0.0
    for agent_id, start, count in partitions(records):
        term = agent_id.replace("-", "")
        for batch in batches(source, start, count):
            rows = [(record.number + 1, record.text, term) for record in batch]
            started = time.perf_counter()
            with connection:
                connection.executemany("INSERT INTO words (rowid, content, agent) VALUES (?, ?, ?)", rows)
            seconds += time.perf_counter() - started
    connection.close()
    return records / seconds


def fts5_times(path: Path, agent_id: str, probes: list[synthetic.Probe]) -> list[float]:
    """Milliseconds of each question: row ids with their BM25, best K."""
    connection = apsw.Connection(str(path))
    sql = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    term = agent_id.replace("-", "")
    millis: list[float] = []
    for probe in [probes[0], *probes]:
        started = time.perf_counter()
        connection.execute(sql, (_match(term, probe.text), K)).fetchall()
        millis.append((time.perf_counter() - started) * 1000)
    connection.close()
    return millis[1:]


async def _quipu(
    path: Path, source: synthetic.Source, records: int, agents: dict[str, str], probes: list[synthetic.Probe]
) -> dict[str, Any]:
    """Quipu's keyword leg on the same records."""
    seconds = 0.0
    for agent_id, start, count in partitions(records):
        async with quipu_side.opened(path, agent_id=agent_id, embedder="none") as memory:
            for batch in batches(source, start, count):
                seconds += await quipu_side.remember_batch(memory, batch, with_vectors=False)
    result: dict[str, Any] = {"ingest_per_second": records / seconds}
    for name, agent_id in agents.items():
        async with quipu_side.opened(path, agent_id=agent_id, embedder="none") as memory:
            await quipu_side.recall(memory, probes[0].text, k=K)
            result[name] = latency_summary(
                [(await quipu_side.recall(memory, probe.text, k=K))[1] for probe in probes]
            )
    return result


async def measured(
    folder: Path, records: int, seed: int, *, queries: int = 50, with_quipu: bool = True
) -> dict[str, Any]:
    """Both keyword legs at one size."""
    source = synthetic.Source(seed)
    probes = source.queries(queries)
    parts = partitions(records)
    agents = (
        {"largest": parts[0][0]} if len(parts) == 1 else {"largest": parts[0][0], "middle": parts[MIDDLE][0]}
    )
    table = folder / "fts5.db"
    fts5: dict[str, Any] = {"ingest_per_second": fts5_filled(table, source, records)}
    for name, agent_id in agents.items():
        fts5[name] = latency_summary(fts5_times(table, agent_id, probes))
    result: dict[str, Any] = {"records": records, "fts5": fts5}
    if with_quipu:
        result["quipu"] = await _quipu(folder / "quipu.db", source, records, agents, probes)
    return result


def main() -> None:
    """Measures one size and prints it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--fts5-only", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(
        json.dumps(
            asyncio.run(measured(given.folder, given.records, given.seed, with_quipu=not given.fts5_only))
        )
    )


if __name__ == "__main__":
    main()
