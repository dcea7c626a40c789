"""A whole memory out and in: how fast, how much memory it takes at most, and whether either grows with its size.

Each way runs in a process of its own, so that the peak is that way's alone: lines with their vectors in, as the measure
of the others; a file of another vendor in; a bundle, a bundle with vectors and a PAM store out; both bundles into an empty
memory. There is no embedder: what is measured is the moving. Every way is measured at two sizes. What counts as memory
is what a process holds of its own; pages of the database that the system has mapped for it are the system's to take back.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.tables import table

Note = Callable[[str], None]

#: The smaller size is the larger one divided by this. Vectors are moved at the smaller one only: they are large.
_SMALLER = 5
_WAYS = ("vendor_in", "bundle_out", "pam_out", "bundle_in")
_WITH_VECTORS = ("lines_in", "vectors_out", "vectors_in")
#: Vectors that are moved at most, and how many numbers each has.
_MOST_VECTORS, _WIDE = 50_000, 384
_SAID = {
    "vendor_in": "another vendor's file in",
    "bundle_out": "bundle out",
    "pam_out": "PAM store out",
    "bundle_in": "bundle in",
    "lines_in": "lines with vectors in",
    "vectors_out": "bundle with vectors out",
    "vectors_in": "bundle with vectors in",
}
#: What a way may take more at the larger size: for each further item so many bytes, and what caches fill up with.
_BYTES_PER_ITEM, _CACHES_MB = 64, 48
#: A way whose items take this much longer at the larger size grows.
_SLOWER = 1.3

_PROGRAM = """
import json, random, re, sys, threading, time
from pathlib import Path
from quipu.sync import Memory

folder, way, count, wide = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
stores = {"vendor_in": "one", "bundle_out": "one", "pam_out": "one", "bundle_in": "two",
          "lines_in": "three", "vectors_out": "three", "vectors_in": "four"}
keys = json.loads((folder / "keys.json").read_text()) if (folder / "keys.json").exists() else {}
peak, is_done = 0, threading.Event()

def own():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) / 1024

def watch():
    global peak
    while True:
        peak = max(peak, own())
        if is_done.wait(0.05):
            return

def lines():
    draw = random.Random(1)
    drawn = [[draw.gauss(0, 1) for _ in range(wide)] for _ in range(64)]
    units = [[round(part / sum(x * x for x in vector) ** 0.5, 6) for part in vector] for vector in drawn]
    for number in range(count):
        text = f"Fact number {number}: the harbour lies {number % 97} steps beyond the hill, and Mara knows it."
        embedding = {"model": "bench", "vector": units[number % 64]}
        yield json.dumps({"agent_id": "default", "type": "semantic", "content": text, "embedding": embedding})

if way == "lines_in":
    with (folder / "lines.ndjson").open("w") as target:
        target.writelines(line + "\\n" for line in lines())

with Memory(stores=f"sqlite://{folder / stores[way]}.db", embedder="none") as memory:
    watcher = threading.Thread(target=watch)
    watcher.start()
    began, used = time.perf_counter(), time.process_time()
    if way == "vendor_in":
        done = memory.import_file(folder / "mem0.json").accepted
    elif way == "lines_in":
        with (folder / "lines.ndjson").open() as source:
            done = memory.import_records(source).stored
    elif way == "pam_out":
        done = memory.export_file(folder / "all.json", format="pam-1.0").items
    elif way.endswith("_out"):
        done = memory.export_file(folder / "all.bundle.zip", embeddings=way == "vectors_out").items
        (folder / "keys.json").write_text(json.dumps(dict(memory.signing_keys())))
    else:
        done = memory.import_file(folder / "all.bundle.zip", keys=keys).accepted
    took, used = time.perf_counter() - began, time.process_time() - used
    is_done.set()
    watcher.join()
assert done == count, done
print(json.dumps({"items": done, "seconds": round(took, 2), "per_second": round(done / took),
                  "cpu_us_per_item": round(used / done * 1e6), "peak_mb": round(peak)}))
"""


async def measured(folder: Path, items: int, note: Note) -> dict[str, Any]:
    """Every way at both sizes, and how the larger one compares."""
    smaller = max(1, items // _SMALLER)
    found: dict[str, Any] = {}
    for size in (smaller, items):
        room = folder / str(size)
        room.mkdir(parents=True)
        _write(room / "mem0.json", size)
        for way in _WAYS:
            note(f"moving, {way}, {size}")
            found.setdefault(way, []).append(await _run(room, way, size))
        _emptied(room)
    with_vectors = min(smaller, _MOST_VECTORS)
    room = folder / "vectors"
    room.mkdir()
    for way in _WITH_VECTORS:
        note(f"moving, {way}, {with_vectors}")
        found[way] = [await _run(room, way, with_vectors)]
    _emptied(room)
    told: dict[str, Any] = {way: _compared(*runs) for way, runs in found.items()}
    lines, file = (found[way][0]["cpu_us_per_item"] for way in ("lines_in", "vectors_in"))
    told["file_to_lines"] = round(lines / file, 2)
    return told


def _compared(*runs: dict[str, Any]) -> dict[str, Any]:
    """The larger run, and beside it what the smaller one took."""
    last = dict(runs[-1])
    if len(runs) == 1:
        return last
    first = runs[0]
    allowed = _CACHES_MB + (last["items"] - first["items"]) * _BYTES_PER_ITEM / (1 << 20)
    return last | {
        "smaller": first,
        "memory_grows": last["peak_mb"] > first["peak_mb"] + allowed,
        "time_grows": last["cpu_us_per_item"] > _SLOWER * first["cpu_us_per_item"],
    }


def section(found: dict[str, Any]) -> list[str]:
    """The same as a table."""
    rows = [
        [
            _SAID[way],
            f"{row['items']:,}",
            f"{row['per_second']:,}",
            str(row["cpu_us_per_item"]),
            f"{row['peak_mb']} MB",
            _said(row),
        ]
        for way, row in found.items()
        if way in _SAID
    ]
    head = ("way", "items", "items/s", "CPU, µs each", "memory at most", "beside a fifth as many")
    last = (
        f"A bundle with vectors comes in at {found['file_to_lines']:.2f} times the speed of plain lines with vectors, by "
        "processor time; it is tried first and then carried out. Nothing is embedded."
    )
    return ["## Whole memories out and in", "", *table(head, rows), last, ""]


def _said(row: dict[str, Any]) -> str:
    if "smaller" not in row:
        return "–"
    first = row["smaller"]
    grows = [name for name in ("memory", "time") if row[f"{name}_grows"]]
    told = " and ".join(grows) + " grows" if grows else "nothing grows"
    return f"{first['cpu_us_per_item']} µs, {first['peak_mb']} MB: {told}"


async def _run(folder: Path, way: str, items: int) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        str(folder),
        way,
        str(items),
        str(_WIDE),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"moving {way} ended with {process.returncode}")
    return dict(json.loads(told))


def _emptied(folder: Path) -> None:
    """The next size needs the room."""
    for file in folder.iterdir():
        file.unlink()


def _write(file: Path, items: int) -> None:
    with file.open("w", encoding="utf-8") as target:
        target.write('{"results":[')
        for number in range(items):
            text = f"Fact number {number}: the harbour lies {number % 97} steps beyond the hill, and Mara knows it."
            body = {"id": f"m{number:08}", "memory": text, "created_at": "2026-01-01T00:00:00Z"}
            target.write(("," if number else "") + json.dumps(body))
        target.write("]}")
