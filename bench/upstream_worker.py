"""Runs inside memorywire's environment: reads commands as JSON lines, answers each with one line.

Commands: open, ingest, recall, embed, legs, scale, close. Labels are the caller's ids; memorywire's own ids
are mapped back to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import synthetic


def _memorywire() -> Any:
    """The upstream modules, imported here because only this environment has them.

    memorywire loads sqlite-vec into the interpreter's sqlite3. Where that was built without extension loading,
    the same module from pysqlite3 stands in for it.
    """
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        import pysqlite3

        sys.modules["sqlite3"] = pysqlite3
    import memorywire
    from memorywire.models import MemoryType
    from memorywire.store import sqlite_vec

    return memorywire.Memory, MemoryType, sqlite_vec


def _size(path: str) -> int:
    """Bytes of a file."""
    return Path(path).stat().st_size


class Worker:
    """One open upstream memory and the labels of what was stored."""

    def __init__(self) -> None:
        self.memory: Any = None
        self.store: Any = None
        self.labels: dict[str, str] = {}

    async def open(self, path: str, agent_id: str = "bench") -> dict[str, Any]:
        """Opens a store on a file with memorywire's default embedder."""
        memory_class, _, sqlite_vec = _memorywire()
        self.store = sqlite_vec.SqliteVecStore(path)
        self.memory = memory_class(agent_id, [self.store])
        return {}

    async def ingest(self, facts: list[dict[str, Any]], warm: bool = True) -> dict[str, Any]:
        """Remembers each fact on its own; returns the time of each."""
        _, types, _ = _memorywire()
        if warm:
            self.store._embed("warm up")
        millis: list[float] = []
        for fact in facts:
            started = time.perf_counter()
            answer = await self.memory.remember(
                fact["content"],
                type=types(fact["type"]),
                user_id=fact.get("user_id"),
                metadata=fact.get("metadata"),
            )
            millis.append((time.perf_counter() - started) * 1000)
            self.labels[answer.id] = fact["label"]
        return {"millis": millis}

    async def recall(self, queries: list[dict[str, Any]], k: int = 5) -> dict[str, Any]:
        """Recalls each query; returns labels and times."""
        answers: list[dict[str, Any]] = []
        for query in queries:
            started = time.perf_counter()
            hits = await self.memory.recall(query["query"], k=k, user_id=query.get("user_id"))
            millis = (time.perf_counter() - started) * 1000
            answers.append({"ranked": [self.labels.get(hit.id, hit.id) for hit in hits], "millis": millis})
        return {"answers": answers}

    async def legs(self, queries: list[str]) -> dict[str, Any]:
        """How many rows the keyword leg finds for each query, by memorywire's own MATCH expression."""
        _, _, sqlite_vec = _memorywire()
        sql = "SELECT count(*) FROM memories_fts WHERE memories_fts MATCH ?"
        counts = [
            int(self.store._conn.execute(sql, (sqlite_vec._fts_quote(query),)).fetchone()[0])
            for query in queries
        ]
        return {"keyword": counts}

    async def embed(self, texts: list[str]) -> dict[str, Any]:
        """Times memorywire's embedder path, one text at a time, warm."""
        self.store._embed("warm up")
        millis: list[float] = []
        for text in texts:
            started = time.perf_counter()
            self.store._embed(text)
            millis.append((time.perf_counter() - started) * 1000)
        return {"millis": millis}

    async def scale(
        self, path: str, records: int, seed: int, queries: int = 50, sample: int = 300
    ) -> dict[str, Any]:
        """The work of bench.scale with vectors given: fill, timed writes at that size, timed recalls.

        The fill runs with synchronous off because memorywire has no batch; the timed writes run with its
        own settings again.
        """
        memory_class, types, sqlite_vec = _memorywire()
        source = synthetic.Source(seed)
        given: dict[str, Any] = {}
        store = sqlite_vec.SqliteVecStore(path, embedder=lambda text: given[text])
        memory = memory_class("bench", [store])
        usual = store._conn.execute("PRAGMA synchronous").fetchone()[0]
        store._conn.execute("PRAGMA synchronous = OFF")
        filled = time.perf_counter()
        for record in source.records(records):
            given[record.text] = record.vector.tolist()
            await memory.remember(record.text, type=types.SEMANTIC, user_id=record.user_id)
            given.clear()
        fill_seconds = time.perf_counter() - filled
        store._conn.execute(f"PRAGMA synchronous = {int(usual)}")
        writes: list[float] = []
        for record in source.records(sample, start=records):
            given[record.text] = record.vector.tolist()
            started = time.perf_counter()
            await memory.remember(record.text, type=types.SEMANTIC, user_id=record.user_id)
            writes.append((time.perf_counter() - started) * 1000)
            given.clear()
        owned = Counter(record.user_id for record in source.records(records + sample))
        recalls: dict[str, list[float]] = {"live": [], "filtered": []}
        returned: dict[str, list[float]] = {"live": [], "filtered": []}
        for query in source.queries(queries):
            given[query.text] = query.vector.tolist()
            for name, user_id in (("live", None), ("filtered", query.user_id)):
                started = time.perf_counter()
                hits = await memory.recall(query.text, k=10, user_id=user_id)
                recalls[name].append((time.perf_counter() - started) * 1000)
                if possible := min(10, owned[user_id] if user_id else records):
                    returned[name].append(len(hits) / possible)
            given.clear()
        store._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()
        return {
            "fill_seconds": fill_seconds,
            "writes": writes,
            "recalls": recalls,
            "returned": returned,
            "bytes": _size(path),
        }

    async def close(self) -> dict[str, Any]:
        """Closes the open store."""
        if self.memory is not None:
            await self.memory.close()
        return {}


async def serve() -> None:
    """Reads commands until the input ends."""
    worker = Worker()
    answers = sys.stdout
    for line in sys.stdin:
        command = json.loads(line)
        op = command.pop("op")
        try:
            with contextlib.redirect_stdout(sys.stderr):
                result = await getattr(worker, op)(**command)
        except Exception as error:  # noqa: BLE001 - every failure is reported to the caller, who stops
            result = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(result) + "\n")
        answers.flush()


if __name__ == "__main__":
    asyncio.run(serve())
