"""`quipu serve` under load: recall and remember at 1, 8 and 64 connections, and its memory over a soak.

The server is a process of its own with the default embedder, on an embedded file and then on PostgreSQL; wrk asks it
from another process on the same machine, so the two share its cores. Between them the same work is done inside one
process, on the file that the server left.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.labelled import facts, queries
from bench.load import inside
from bench.metrics import mean
from bench.peers.run import postgres

CONNECTIONS = (1, 8, 64)
#: At how many callers the server is held against the same work inside one process.
COMPARED = 8
FILLED = 1_000
AGENT = "load"
_MW = "/memorywire/v0"


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    url: str
    token: str
    pid: int

    def resident_mb(self) -> float:
        """What it holds in memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


@contextlib.contextmanager
def serving(store: str) -> Generator[Server]:
    """The server over an empty store, without limits on how often it may be asked."""
    settings = {
        "QUIPU_STORE": store,
        "QUIPU_RATE": "0",
        "QUIPU_RECALL_BUDGET": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "quipu", "serve", "--json", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Server(told["address"], told["token"], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def filled(server: Server) -> None:
    """A thousand memories, the labelled ones many times over for different users."""
    known = facts()
    lines = [
        json.dumps(
            {
                "agent_id": AGENT,
                "user_id": f"{known[number % len(known)].user_id}-{number // len(known)}",
                "type": "semantic",
                "content": known[number % len(known)].text,
            }
        )
        for number in range(FILLED)
    ]
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"{server.url}{_MW}/import", content="\n".join(lines), headers=headers, timeout=300)
    summary = json.loads(answer.text.splitlines()[-1])["summary"]
    assert summary["stored"] == FILLED, summary


def asked(
    server: Server,
    folder: Path,
    operation: str,
    bodies: Iterable[dict[str, Any]],
    connections: int,
    seconds: int,
) -> dict[str, Any]:
    """wrk for so long: how many a second, and how long each took."""
    file = folder / f"{operation}.ndjson"
    file.write_text("\n".join(json.dumps(body) for body in bodies), "utf-8")
    given = {
        "QUIPU_LOAD_PATH": f"{_MW}/{operation}",
        "QUIPU_LOAD_BODIES": str(file),
        "QUIPU_LOAD_TOKEN": server.token,
    }
    script = Path(__file__).with_name("post.lua")
    line = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "30s",
        "-s",
        str(script),
        server.url,
    ]
    done = subprocess.run(line, env={**os.environ, **given}, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**told, "per_second": told["requests"] / told["seconds"]}


def recalls(times: int = 80) -> list[dict[str, Any]]:
    """Questions of the calibration set, each asked of one user; no two alike, so that no cache knows their vectors."""
    return [
        {"agent_id": AGENT, "query": f"{query.query} ({number})", "user_id": f"{query.user_id}-{number % 10}"}
        for number, query in enumerate(queries("calibration") * times)
    ]


def remembers() -> list[dict[str, Any]]:
    """Sentences that are all different, so that no cache knows them."""
    return [
        {"agent_id": "writer", "type": "semantic", "content": f"{fact.text} ({number})"}
        for number, fact in enumerate(facts() * 50)
    ]


def measured(folder: Path, seconds: int, note: Any) -> dict[str, Any]:
    """Both operations over the server on both ledgers, and inside one process."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is not installed; on Debian: apt-get install wrk")
    file = f"sqlite://{folder / 'load.db'}"
    result = {"filled": FILLED, "seconds": seconds, **served(file, folder, seconds, note)}
    result["inside"] = {}
    for operation, bodies in _work():
        note(f"inside one process: {operation}, {COMPARED} callers")
        result["inside"][operation] = inside.in_own_process(file, operation, bodies, COMPARED, seconds)
    with postgres() as database:
        result["postgresql"] = served(
            database.database(is_empty=True), folder, seconds, lambda told: note(f"PostgreSQL, {told}")
        )
    return result


def served(store: str, folder: Path, seconds: int, note: Any) -> dict[str, Any]:
    """Both operations at each number of connections, and what the server holds before and after."""
    result: dict[str, Any] = {}
    with serving(store) as server:
        filled(server)
        asked(server, folder, "recall", recalls(), 8, 2)
        result["resident_mb_before"] = server.resident_mb()
        for operation, bodies in _work():
            for connections in CONNECTIONS:
                note(f"server: {operation}, {connections} connections")
                row = asked(server, folder, operation, bodies, connections, seconds)
                result.setdefault(operation, {})[str(connections)] = row
        result["resident_mb_after"] = server.resident_mb()
    return result


def _work() -> list[tuple[str, list[dict[str, Any]]]]:
    return [("recall", recalls()), ("remember", remembers())]


def soaked(folder: Path, minutes: float, note: Any) -> dict[str, Any]:
    """Recalls for a long time, and whether the server's memory grows: the mean of each third."""
    samples: list[float] = []
    with serving(f"sqlite://{folder / 'load.db'}") as server:
        filled(server)
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            note(f"soak: {max(0, until - time.monotonic()):.0f} s to go")
            asked(server, folder, "recall", recalls(), 8, 10)
            samples.append(server.resident_mb())
    third = max(1, len(samples) // 3)
    thirds = [mean(samples[:third]), mean(samples[third : 2 * third] or samples), mean(samples[-third:])]
    return {"minutes": minutes, "samples": len(samples), "resident_mb_by_third": thirds}
