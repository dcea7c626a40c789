"""Quipu's embedder by itself: one query warm, and the throughput of many texts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.metrics import latency_summary


async def measured(queries: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Milliseconds of one query after another, texts per second of a long call, and the time to the first vector."""
    from quipu.embed.onnx import OnnxEmbedder

    with tempfile.TemporaryDirectory() as folder:
        embedder = OnnxEmbedder(Path(folder))
        started = time.perf_counter()
        await embedder.embed(["the very first text builds the model"])
        built = time.perf_counter() - started
        await embedder.close()
        embedder = OnnxEmbedder(Path(folder))
        started = time.perf_counter()
        await embedder.embed(["the first text of a process loads it"])
        loaded = time.perf_counter() - started
        millis: list[float] = []
        for query in queries:
            started = time.perf_counter()
            await embedder.embed([query])
            millis.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        await embedder.embed(list(texts))
        rate = len(texts) / (time.perf_counter() - started)
        await embedder.close()
    return {
        "one": latency_summary(millis),
        "batch_per_second": rate,
        "build_seconds": built,
        "load_seconds": loaded,
    }


async def ready(folder: Path) -> Any:
    """An embedder that has its model loaded."""
    from quipu.embed.onnx import OnnxEmbedder

    embedder = OnnxEmbedder(folder)
    await embedder.embed(["the first text loads the model"])
    return embedder
