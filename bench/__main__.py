"""`python -m bench [--other CHECKOUT] [--rounds 3]`: this checkout beside another one, in alternating runs, as one table.

Each checkout has its own environment in `.venv`. Without another one, this one is measured alone. The result, with
machine, commits, seed and load, is written to bench/results/latest.md.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from bench.texts import facts, questions

_HERE = Path(__file__).resolve().parent
_WARM, _ASKED, _CLIENTS = 20, 300, 8
_STARTS = 3
#: What a server still loads after it has begun to listen belongs to no request.
_SETTLED_S = 5
_UNLIMITED = {"QUIPU_RATE": "0", "QUIPU_RECALL_BUDGET": "0"}


def in_process(checkout: Path, seed: int, folder: Path) -> dict[str, float]:
    """What worker.py finds."""
    line = [checkout / ".venv/bin/python", _HERE / "worker.py", str(seed), str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(done.stdout.splitlines()[-1])


def starts(checkout: Path, folder: Path) -> dict[str, float]:
    """Commands from a cold shell, as a person waits for them."""
    command = checkout / ".venv/bin/quipu"
    place = ["--store-url", f"sqlite://{folder / 'cold.db'}"]
    subprocess.run(
        [command, *place, "remember", "Ada keeps bees"], check=True, capture_output=True, cwd=folder
    )
    found: dict[str, float] = {}
    for words in (["--version"], ["list"], ["recall", "who has bees?"]):
        taken: list[float] = []
        for _ in range(_STARTS):
            started = time.perf_counter()
            line = [command, *([] if words == ["--version"] else place), *words]
            subprocess.run(line, check=True, capture_output=True, cwd=folder)
            taken.append(time.perf_counter() - started)
        found[f"quipu {words[0]} from a shell, ms"] = median(taken) * 1000
    return found


def over_http(checkout: Path, seed: int, folder: Path) -> dict[str, float]:
    """Whole requests to a server in a process of its own."""
    environment = {**os.environ, **_UNLIMITED, "QUIPU_STORE": f"sqlite:///{folder / 'served.db'}"}
    line = [checkout / ".venv/bin/quipu", "serve", "--json", "--port", "0"]
    server = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=folder
    )
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        time.sleep(_SETTLED_S)
        found = asyncio.run(_asked(said["address"], said["token"], seed))
        status = Path(f"/proc/{server.pid}/status").read_text("utf-8")
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return {**found, "server's resident memory, MB": int(resident.split()[1]) / 1024}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


async def _asked(url: str, token: str, seed: int) -> dict[str, float]:
    headers = {"Authorization": f"Bearer {token}"}
    found: dict[str, float] = {}
    async with httpx.AsyncClient(base_url=f"{url}/memorywire/v0", headers=headers, timeout=60) as http:

        async def post(operation: str, body: dict[str, Any]) -> float:
            started = time.perf_counter()
            answer = await http.post(f"/{operation}", json={"agent_id": "bench", **body})
            assert answer.status_code == 200, answer.text
            return (time.perf_counter() - started) * 1000

        writes = [{"content": text, "type": "semantic"} for text in facts(_WARM + 2 * _ASKED, seed)]
        reads = [{"query": text, "k": 5} for text in questions(_WARM + 2 * _ASKED, seed)]
        for operation, bodies in (("remember", writes), ("recall", reads)):
            for body in bodies[:_WARM]:
                await post(operation, body)
            alone = [await post(operation, body) for body in bodies[_WARM : _WARM + _ASKED]]
            found[f"HTTP {operation}, one client, p50 ms"] = median(alone)
            left = iter(bodies[_WARM + _ASKED :])

            async def client(operation: str = operation, left: Any = left) -> None:
                for body in left:
                    await post(operation, body)

            started = time.perf_counter()
            await asyncio.gather(*(client() for _ in range(_CLIENTS)))
            found[f"HTTP {operation}, {_CLIENTS} clients, ms a request"] = (
                (time.perf_counter() - started) * 1000 / _ASKED
            )
    return found


def measured(checkout: Path, seed: int) -> dict[str, float]:
    """One round of one checkout, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="quipu-bench-"))
    try:
        found = dict[str, float]()
        for part in (in_process, over_http):
            found |= part(checkout, seed, folder)
        return found | starts(checkout, folder)
    finally:
        shutil.rmtree(folder)


def commit_of(checkout: Path) -> str:
    line = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()


def table(rounds: dict[Path, list[dict[str, float]]]) -> str:
    """Medians over the rounds, and the median of the rounds' ratios."""
    this, *others = rounds
    lines = ["| what | other | this | this / other, each round |", "|---|---|---|---|"]
    if not others:
        lines = ["| what | this |", "|---|---|"]
    for what in rounds[this][0]:
        own = [found[what] for found in rounds[this]]
        if not others:
            lines.append(f"| {what} | {median(own):.2f} |")
            continue
        theirs = [found[what] for found in rounds[others[0]]]
        ratios = sorted(mine / other for mine, other in zip(own, theirs, strict=True))
        said = " ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(
            f"| {what} | {median(theirs):.2f} | {median(own):.2f} | **{median(ratios):.2f}** ({said}) |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--other", type=Path, help="another checkout with its own .venv")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=2025)
    given = parser.parse_args()
    this = _HERE.parent
    checkouts = [this] if given.other is None else [this, given.other.resolve()]
    rounds: dict[Path, list[dict[str, float]]] = defaultdict(list)
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    for number in range(given.rounds):
        for checkout in checkouts if number % 2 else checkouts[::-1]:
            print(f"round {number + 1} of {given.rounds}: {checkout.name}", file=sys.stderr)
            rounds[checkout].append(measured(checkout, given.seed + number))
    shown = table({this: rounds[this], **rounds})
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    commits = ", ".join(
        f"{name} {commit_of(one)}" for name, one in zip(("this", "other"), checkouts, strict=False)
    )
    head = (
        f"# What was measured\n\n{machine}, Python {platform.python_version()}; load at the start {load}. "
        f"Commits: {commits}. Data: made up (bench/texts.py), seed {given.seed}; {given.rounds} alternating rounds.\n"
        "Less is better; ratios within a round count, times are this machine's.\n\n"
    )
    target = _HERE / "results" / "latest.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(head + shown, "utf-8")
    print(shown)


if __name__ == "__main__":
    main()
