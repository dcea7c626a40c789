"""Ways to look at a memory that several tests share."""

from __future__ import annotations

from typing import Any

from quipu import Memory


async def found(memory: Memory, query: str, **asked: Any) -> list[str]:
    """The ids that a recall without a floor comes back with, best first."""
    return [hit.id for hit in await memory.recall(query, **{"min_relevance": 0, "k": 20, **asked})]


async def ids(memory: Memory, **asked: Any) -> set[str]:
    """The ids of a list."""
    return {record.id for record in (await memory.list(**{"limit": 1_000, **asked})).records}


async def standing(memory: Memory) -> tuple[int, str, int]:
    """Where the journal ends and how many versions there are: unchanged when nothing was written."""
    await memory.flush()
    health, counts = await memory.health(), await memory.statistics()
    entries = await memory.journal(after=int(str(health["seq"])) - 1)
    return entries[-1].seq, entries[-1].hash, counts["versions"]


async def kept(memory: Memory, content: Any, **fields: Any) -> str:
    return (await memory.remember(content, **fields)).id


async def verifies(memory: Memory) -> bool:
    report = await memory.verify()
    assert report.faults == ()
    return report.holds
