"""Change a memory, then read and search it as it was."""

import asyncio

from quipu import Memory


async def main() -> None:
    async with Memory(agent_id="assistant", stores="memory.db") as memory:
        await memory.remember("The office is in Berlin")
        first = await memory.remember("Mara lives in Lisbon")
        position = first.extensions["seq"]
        await memory.remember("Mara lives in Porto", id=first.id)

        now = await memory.recall("Where does Mara live?")
        then = await memory.recall("Where does Mara live?", as_of=position)
        print("now: ", now[0].content)
        print("then:", then[0].content)

        for version in await memory.history(first.id):
            record = version.record
            print(f"version {record.version}: born {record.born}, died {record.died}: {record.content}")

        await memory.forget(ids=[first.id], reason="moved away")
        restored = await memory.restore(first.id)
        print("restored as version", restored.extensions["version"])


if __name__ == "__main__":
    asyncio.run(main())
