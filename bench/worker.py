"""Runs inside of the installation that is measured, with nothing but its public surface; prints JSON.

`python worker.py SEED FOLDER` with that installation's Python.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from texts import facts, questions

_WRITES = 400
_STORED = 1_000
_RECALLS = 150
_BATCHES, _BATCH = 5, 1_000


async def _p50_ms(calls: list[Callable[[], Awaitable[Any]]]) -> float:
    taken: list[float] = []
    for call in calls:
        started = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - started) * 1000)
    return median(taken)


async def measured(seed: int, folder: Path) -> dict[str, float]:
    """One value for each row of the table."""
    from quipu import Memory

    found: dict[str, float] = {}
    async with Memory(
        agent_id="bench", stores=[f"sqlite:///{folder / 'lone.db'}"], embedder="none"
    ) as memory:
        await memory.remember("warm up")
        writes = [lambda text=text: memory.remember(text) for text in facts(_WRITES, seed)]
        found["lone write, no embedder, p50 ms"] = await _p50_ms(writes)
        items = [{"content": text} for text in facts(_BATCHES * _BATCH, seed + 2)]
        started = time.perf_counter()
        for place in range(0, len(items), _BATCH):
            await memory.remember_many(items[place : place + _BATCH])
        found["batch ingest, no embedder, ms per 1,000"] = (time.perf_counter() - started) * 1000 / _BATCHES
    async with Memory(agent_id="bench", stores=[f"sqlite:///{folder / 'recall.db'}"]) as memory:
        started = time.perf_counter()
        await memory.remember_many([{"content": text} for text in facts(_STORED, seed)])
        found["batch ingest, embedder included, ms per 1,000"] = (time.perf_counter() - started) * 1000
        await memory.recall("warm up")
        asked = [lambda text=text: memory.recall(text, k=5) for text in questions(_RECALLS, seed)]
        found["recall among 1,000, embedder included, p50 ms"] = await _p50_ms(asked)
        again = [lambda: memory.recall("what does Ana say about green tea?", k=5) for _ in range(_RECALLS)]
        found["recall among 1,000, vector known, p50 ms"] = await _p50_ms(again)
        writes = [lambda text=text: memory.remember(text) for text in facts(100, seed + 3)]
        found["lone write, embedder included, p50 ms"] = await _p50_ms(writes)
    found["largest resident memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measured(int(sys.argv[1]), Path(sys.argv[2])))))
