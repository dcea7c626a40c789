"""Nothing is sent anywhere that nobody configured: a whole life of a memory, in an interpreter that is watched."""

import os
import subprocess
import sys
from pathlib import Path

_LIFE = """
import asyncio, sys

asked = []

def hook(event, given):
    host = given[0] if event == "socket.getaddrinfo" else None
    if event in ("socket.connect", "socket.sendto") and isinstance(given[1], tuple):
        host = given[1][0]
    host = host.decode() if isinstance(host, bytes) else host
    if host and host not in ("localhost", "::1") and not host.startswith("127."):
        asked.append(f"{event} {host}")

sys.addaudithook(hook)
from quipu import Memory
from quipu.cli.program import run

async def life(path):
    async with Memory(agent_id="a", stores=path) as memory:
        one = await memory.remember("Ana drinks tea", user_id="ana")
        two = await memory.remember("Ana drinks milk", user_id="ana", approval_required=True)
        assert [hit.id for hit in await memory.recall("What does Ana drink?")] == [one.id]
        await memory.call("decide", id=two.proposal_id, approved=True)
        await memory.merge(one.id, [two.id])
        await memory.expire({"older_than_days": 1})
        await memory.call("consolidate")
        await memory.forget(ids=[one.id], hard_delete=True)
        assert (await memory.call("verify")).verified

asyncio.run(life(sys.argv[1]))
store = ["--store-url", sys.argv[1]]
for line in (["remember", "Bo likes gin", *store], ["recall", "gin", *store], ["doctor", *store], ["demo"]):
    assert run(line) == 0, line
print("asked:", asked)
"""


def test_a_memory_asks_nobody_outside(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _LIFE, str(tmp_path / "memory.db")],
        capture_output=True,
        text=True,
        env={
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )
    assert ended.stdout.splitlines()[-1:] == ["asked: []"], ended.stdout[-2000:] + ended.stderr[-2000:]
