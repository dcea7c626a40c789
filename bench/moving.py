"""A whole memory out and in: how fast, and how much memory it takes at most.

Each way runs in a process of its own, so that the peak is that way's alone: a file of another vendor in, a bundle and a
PAM store out, the bundle into an empty memory. There is no embedder: what is measured is the moving.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Note = Callable[[str], None]

_PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from quipu.sync import Memory

folder, way, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
stores = {"vendor_in": "one", "bundle_out": "one", "pam_out": "one", "bundle_in": "two"}
keys = json.loads((folder / "keys.json").read_text()) if (folder / "keys.json").exists() else {}
with Memory(stores=f"sqlite://{folder / stores[way]}.db", embedder="none") as memory:
    began = time.perf_counter()
    if way == "vendor_in":
        done = memory.import_file(folder / "mem0.json").accepted
    elif way == "bundle_out":
        done = memory.export_file(folder / "all.bundle.zip").items
        (folder / "keys.json").write_text(json.dumps(dict(memory.signing_keys())))
    elif way == "pam_out":
        done = memory.export_file(folder / "all.json", format="pam-1.0").items
    else:
        done = memory.import_file(folder / "all.bundle.zip", keys=keys).accepted
    took = time.perf_counter() - began
assert done == count, done
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"items": done, "seconds": round(took, 2), "per_second": round(done / took), "peak_mb": round(peak)}))
"""


async def measured(folder: Path, items: int, note: Note) -> dict[str, Any]:
    """Every way, one after the other."""
    _write(folder / "mem0.json", items)
    found: dict[str, Any] = {}
    for way in ("vendor_in", "bundle_out", "pam_out", "bundle_in"):
        note(f"moving, {way}")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, str(folder), way, str(items), stdout=asyncio.subprocess.PIPE
        )
        told, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"moving {way} ended with {process.returncode}")
        found[way] = json.loads(told)
    return found


def _write(file: Path, items: int) -> None:
    with file.open("w", encoding="utf-8") as target:
        target.write('{"results":[')
        for number in range(items):
            text = f"Fact number {number}: the harbour lies {number % 97} steps beyond the hill, and Mara knows it."
            body = {"id": f"m{number:08}", "memory": text, "created_at": "2026-01-01T00:00:00Z"}
            target.write(("," if number else "") + json.dumps(body))
        target.write("]}")
