"""Two agents on one file: what is private stays private, what is shared is found by both."""

import asyncio

from quipu import Memory


async def main() -> None:
    async with (
        Memory(agent_id="researcher", stores="memory.db") as researcher,
        Memory(agent_id="writer", stores="memory.db") as writer,
    ):
        await researcher.create_store("team", scope="team", description="what we all know")
        await researcher.remember("The deadline is Friday", store="team")
        await researcher.remember("The sources are in drawer three", store="team")
        await researcher.remember("I doubt the second source")

        shared = await writer.recall("When is the deadline?", store="team")
        print("writer finds:", shared[0].content, "- by", shared[0].agent_id)

        private = await writer.recall("What does the researcher doubt?")
        print("writer finds", len(private), "of the researcher's own memories")


if __name__ == "__main__":
    asyncio.run(main())
