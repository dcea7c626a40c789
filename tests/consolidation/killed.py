"""Fills a window and makes passes over it until it is killed: `python -m tests.consolidation.killed FILE`."""

import asyncio
import sys

from tests.consolidation.room import HEAVY, room_at, with_window


async def main(place: str) -> None:
    async with room_at(place) as room:
        await with_window(room)

        async def burst() -> None:
            for number in range(400):
                await room.push(f"fact {number}", user_id=f"user-{number % 7}", **HEAVY)

        async def passes() -> None:
            for number in range(1_000_000):
                await room.consolidate()
                print(f"pass {number}", flush=True)

        await asyncio.gather(burst(), passes(), passes())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
