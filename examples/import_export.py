"""Take memories out as JSON lines, and bring them into another memory."""

import asyncio
import json
from pathlib import Path

from quipu import Memory


async def main() -> None:
    async with Memory(agent_id="assistant", stores="old.db") as old:
        await old.remember_many(["Mara is vegetarian", "Deploys happen on Tuesdays"])
        await old.remember(
            {"name": "greet", "initial": "idle", "states": ["idle"], "transitions": []}, type="procedural"
        )
        exported = [json.dumps(record) async for record in old.export()]
    file = Path("memories.ndjson")
    await asyncio.to_thread(file.write_text, "\n".join(exported), "utf-8")

    async with Memory(agent_id="assistant", stores="new.db") as new:
        summary = await new.import_records(exported)
        print(f"read {summary.read}, stored {summary.stored}, failed {summary.failed}")
        for record in (await new.list(types=["semantic"])).records:
            print(record.id[:4], record.content)

        # A line that is no memory is refused by itself; the others go in.
        summary = await new.import_records(['{"content": "Tom is back"}', '{"contents": "misspelt"}'])
        print(f"stored {summary.stored}, failed {summary.failed}: line {summary.errors[0][0]}")


if __name__ == "__main__":
    asyncio.run(main())
