"""Where and on what a result was measured."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent


def _first(path: str, key: str) -> str:
    """The value of a 'key : value' line in a file of /proc, or 'unknown'."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "unknown")


def commit() -> str:
    """The short commit, with '+' behind it when the tree has changes, or 'uncommitted'."""
    asked = ["git", "-C", str(REPOSITORY)]
    head = subprocess.run(
        [*asked, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode:
        return "uncommitted"
    changes = subprocess.run([*asked, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def file_hash(path: Path) -> str:
    """SHA-256 of a file, or 'absent'."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"


def described(data: dict[str, Path], seed: int) -> dict[str, Any]:
    """Machine, commit, data by hash, seed and load at the start."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
        "seed": seed,
        "data": {name: file_hash(path) for name, path in data.items()},
    }


def peak_memory_mb() -> float:
    """The most this process has held resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
