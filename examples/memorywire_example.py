"""memorywire's constructor and call shapes: code written for it runs here."""

import asyncio

from quipu import Memory


async def main() -> None:
    memory = Memory(agent_id="assistant", stores=["sqlite-vec://./memory.db"], fusion="rrf")

    first = await memory.remember(
        "User prefers concise answers", type="semantic", user_id="u1", confidence=0.9
    )
    second = await memory.remember("User likes short answers", type="semantic", user_id="u1")
    await memory.remember("Booked the 9:40 train to Porto", type="episodic", user_id="u1")

    for hit in await memory.recall("What does the user prefer?", k=5, user_id="u1"):
        print(hit.type, hit.content)

    merged = await memory.merge(first.id, [second.id], strategy="keep_canonical")
    print("merged", merged.merged_count)

    expired = await memory.expire({"older_than_days": 30, "type": "episodic"}, action="archive")
    print("expired", expired.matched_count)

    forgotten = await memory.forget(ids=[first.id], reason="asked to")
    print("forgotten", len(forgotten.forgotten_ids))
    await memory.close()


if __name__ == "__main__":
    asyncio.run(main())
