"""Erase everything about a person, and show that no byte of it is left while the journal still verifies."""

import asyncio
from pathlib import Path

from quipu import Memory

SECRET = b"Birkenstrasse 7"


def holds_secret() -> bool:
    return any(SECRET in file.read_bytes() for file in Path().glob("memory.db*"))


async def main() -> None:
    async with Memory(agent_id="assistant", stores="memory.db") as memory:
        await memory.remember("Tom lives at Birkenstrasse 7", user_id="tom")
        await memory.remember("Tom's door code is 4711", user_id="tom")
        await memory.remember("The office is in Berlin")
        print("before:", await asyncio.to_thread(holds_secret))

        erased = await memory.forget(filter={"user_id": "tom"}, hard_delete=True)
        print("erased:", len(erased.forgotten_ids), "memories")
        print("after: ", await asyncio.to_thread(holds_secret))

        report = await memory.verify()
        print("faults in the journal:", len(report.tenants[0].faults))


if __name__ == "__main__":
    asyncio.run(main())
