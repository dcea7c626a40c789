"""Remember a few facts, ask for them, and hear when nothing matches."""

import asyncio

from quipu import Memory

FACTS = [
    "Mara is vegetarian",
    "The build server is called kestrel",
    "Deploys happen on Tuesdays",
]


async def main() -> None:
    async with Memory(agent_id="assistant", stores="memory.db") as memory:
        for fact in FACTS:
            await memory.remember(fact)

        for question in ("What does Mara eat?", "Which day do we deploy?", "Who won the chess game?"):
            hits = await memory.recall(question)
            print(question, "->", hits[0].content if hits else "nothing matches")


if __name__ == "__main__":
    asyncio.run(main())
