"""A program that writes until it is done or killed, and says on its output what was acknowledged.

    python -m tests.ledger.writers PLACE LABEL WRITERS COUNT

The place is a path, or the address of a PostgreSQL database.

It says `ready` once it can start and waits for a line on its input. Each writer then commits, in turn, a pair of
records in one commit and a new version of the first of them, COUNT times, and tells every commit after it returned.
The log of a SQLite file is kept short, so that it is being copied all the while.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.ledger.sqlite.log import Log
from quipu.ports.ledger import Ledger
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, adding, canonical, vector


def now_ms() -> int:
    """The product's own clock comes with all of the product, which a hundred processes would load for nothing."""
    return time.time_ns() // 1_000_000


def say(**told: Any) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


async def write(scribe: Scribe, label: str, count: int) -> None:
    for number in range(count):
        pair = [
            scribe.drafted(f"{label} {number} {half} said something", id=f"mem_{label}_{number:05d}_{half}")
            for half in ("a", "b")
        ]
        done = await scribe.commit(*(adding(record, vector=vector(f"{record.id} 1")) for record in pair))
        say(seq=done.seq, versions=[[record.id, 1] for record in pair])
        following = scribe.next_version(pair[0], content=f"{label} {number} changed its mind")
        data = vector(f"{following.id} 2")
        done = await scribe.commit(adding(following, vector=data, expects=1))
        say(seq=done.seq, versions=[[following.id, 2]])


def opened(place: str, label: str) -> Ledger:
    if "://" in place:
        from tests.ledger.postgres.opening import opened

        return opened(place, now_ms, label)
    Log.soon, Log.late = 8, 32
    return SqliteLedger(Path(place), clock=now_ms, mint_id=CountedIds(label), canonical=canonical)


async def main(place: str, label: str, writers: int, count: int) -> None:
    ledger = opened(place, label)
    scribe = await Scribe.at(ledger, FixedClock(now_ms()), CountedIds(label))
    await ledger.adopt_space(TENANT, SPACE)
    say(opened=True)
    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write(scribe, f"{label}w{number}", count))
    await ledger.close()


if __name__ == "__main__":
    say(ready=True)
    sys.stdin.readline()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
