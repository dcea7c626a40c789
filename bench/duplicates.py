"""What says the same: how well a similarity tells repetitions from near misses. `python -m bench.duplicates`.

100 pairs of short memories, written for this purpose: 40 say the same in other words, 60 differ in one thing that
matters (a number, a name, a yes or no, who did it). For each threshold: how many of the pairs above it are the same
(precision) and how many of the same are above it (recall), for the similarity alone and for the rule that
consolidation counts mentions by, which also asks whether numbers, or yes and no, differ. No threshold is good enough
to throw a memory away, and none does: near-duplicates are counted and named, never dropped or merged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quipu.bootstrap import open_embedder
from quipu.config import Config
from quipu.rules.settling import said, says_the_same

FILE = Path(__file__).parent / "corpus" / "duplicates.json"
THRESHOLDS = (0.70, 0.75, 0.80, 0.85, 0.88, 0.90, 0.92, 0.94, 0.96, 0.98)


def pairs() -> list[dict[str, Any]]:
    """Every pair with its label."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return found


async def similarities(rows: Sequence[dict[str, Any]]) -> list[float]:
    """The cosine of each pair, by the default embedder."""
    embedder = await open_embedder(Config())
    if embedder is None:
        raise RuntimeError("this needs an embedder")
    try:
        made = await embedder.embed([text for row in rows for text in (row["one"], row["other"])])
    finally:
        await embedder.close()
    vectors = [np.frombuffer(vector, "<f4") for vector in made]
    return [float(vectors[2 * place] @ vectors[2 * place + 1]) for place in range(len(rows))]


def judged(
    rows: Sequence[dict[str, Any]], near: Sequence[float], threshold: float, *, ruled: bool
) -> tuple[int, int]:
    """How many pairs count as the same, and how many of them are."""
    taken = [
        row["same"]
        for row, cosine in zip(rows, near, strict=True)
        if said(row["one"]) == said(row["other"])
        or (cosine >= threshold and (not ruled or says_the_same(row["one"], row["other"], cosine)))
    ]
    return len(taken), sum(taken)


def table(rows: Sequence[dict[str, Any]], near: Sequence[float]) -> str:
    """The curve as Markdown."""
    same = sum(row["same"] for row in rows)
    lines = [
        "| from | alone: counted | precision | recall | with the rule: counted | precision | recall |",
        "|---|---|---|---|---|---|---|",
    ]
    for threshold in THRESHOLDS:
        cells: list[str] = []
        for ruled in (False, True):
            counted, right = judged(rows, near, threshold, ruled=ruled)
            cells += [str(counted), f"{right / counted:.2f}" if counted else "–", f"{right / same:.2f}"]
        lines.append(f"| {threshold:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints."""
    rows = pairs()
    print(table(rows, asyncio.run(similarities(rows))))


if __name__ == "__main__":
    main()
