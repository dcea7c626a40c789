"""What every store is asked to do, and how its answers are judged. Needs numpy and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.metrics import latency_summary
from bench.synthetic import Probe, Record, Source, agent_sizes

AGENTS = 1_000
MIDDLE = 32
BATCH = 1_000
K = 10


def partitions(records: int) -> list[tuple[str, int, int]]:
    """Agents of Zipf sizes with the first number and the count of their records, largest first."""
    sizes = agent_sizes(records, AGENTS)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return [
        (f"agent-{rank:04d}", int(start), int(size))
        for rank, (start, size) in enumerate(zip(starts, sizes, strict=True))
        if size
    ]


def batches(source: Source, records: int) -> Iterator[list[tuple[str, Record]]]:
    """Everything in lists of a thousand, each record with its agent."""
    held: list[tuple[str, Record]] = []
    for agent, start, size in partitions(records):
        for record in source.records(size, start):
            held.append((agent, record))
            if len(held) == BATCH:
                yield held
                held = []
    if held:
        yield held


def chosen(records: int) -> dict[str, tuple[str, int, int]]:
    """The agents that are asked."""
    parts = partitions(records)
    return {"largest": parts[0], "middle": parts[min(MIDDLE, len(parts) - 1)]}


def exact_share(
    found: Sequence[int],
    rows: Sequence[Record],
    vectors: NDArray[np.float32],
    probe: Probe,
    user: str | None,
) -> float:
    """The share of the truly nearest that came back. Records of somebody else count as nothing."""
    allowed = np.array([user is None or row.user_id == user for row in rows])
    cosines = np.where(allowed, vectors @ probe.vector, -2.0)
    most = min(K, int(allowed.sum()))
    if not most:
        return float(not found)
    nearest = {rows[int(place)].number for place in np.argsort(-cosines)[:most]}
    return len(nearest & set(found)) / most


def summary(millis: Sequence[float]) -> dict[str, Any]:
    return latency_summary(list(millis))
