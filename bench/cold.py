"""The command line from a cold shell: process start to exit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.metrics import percentile

RUNS = 5


def _seconds(arguments: list[str], folder: Path) -> float:
    """The median seconds of some runs of a command."""
    command = str(Path(sys.executable).parent / "quipu")
    taken: list[float] = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([command, *arguments], cwd=folder, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return percentile(taken, 0.5)


def measured(folder: Path) -> dict[str, Any]:
    """Seconds of `quipu recall` and of a command that needs no model, on a small file."""
    folder.mkdir(parents=True, exist_ok=True)
    database = ["--store-url", f"sqlite://{folder / 'cold.db'}"]
    _seconds([*database, "remember", "Ada keeps bees on the roof"], folder)
    return {
        "recall_seconds": _seconds([*database, "recall", "who has bees?"], folder),
        "version_seconds": _seconds(["--version"], folder),
        "list_seconds": _seconds([*database, "list"], folder),
    }
