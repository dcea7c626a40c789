"""The same questions and sentences as the server gets, asked inside one process: `python -m bench.load.inside`.

Reads one JSON object from standard input (`store`, `agent`, `bodies`, `operation`, `callers`, `seconds`) and writes the
count and the seconds. A process of its own, as the server is one, so that neither has the bench beside it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench import quipu_side


async def _one(memory: Any, operation: str, body: dict[str, Any]) -> None:
    given = {name: value for name, value in body.items() if name not in ("agent_id", "query", "content")}
    if operation == "recall":
        await memory.recall(body["query"], **given)
    else:
        await memory.remember(body["content"], **given)


async def _caller(memory: Any, operation: str, bodies: Iterator[dict[str, Any]], until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        await _one(memory, operation, next(bodies))
        done += 1
    return done


async def measured(asked: dict[str, Any]) -> dict[str, Any]:
    """So many callers for so long, after a second of warming up."""
    bodies = itertools.cycle(asked["bodies"])
    async with quipu_side.opened(asked["store"], agent_id=asked["agent"]) as memory:
        await _caller(memory, asked["operation"], bodies, time.perf_counter() + 1)
        started = time.perf_counter()
        until = started + asked["seconds"]
        callers = [_caller(memory, asked["operation"], bodies, until) for _ in range(asked["callers"])]
        done = sum(await asyncio.gather(*callers))
        taken = time.perf_counter() - started
    return {"requests": done, "seconds": taken, "per_second": done / taken}


def in_own_process(
    store: str, operation: str, bodies: Sequence[dict[str, Any]], callers: int, seconds: int
) -> dict[str, Any]:
    """The same, measured in a fresh process."""
    asked = {
        "store": store,
        "agent": bodies[0]["agent_id"],
        "operation": operation,
        "bodies": list(bodies),
        "callers": callers,
        "seconds": seconds,
    }
    line = [sys.executable, "-m", "bench.load.inside"]
    done = subprocess.run(line, input=json.dumps(asked), check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measured(json.load(sys.stdin)))))
