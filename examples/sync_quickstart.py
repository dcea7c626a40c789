"""The same memory for code that cannot await."""

from quipu.sync import Memory


def main() -> None:
    with Memory(agent_id="assistant", stores="memory.db") as memory:
        memory.remember("Mara is vegetarian", user_id="mara", tags=["food"])
        memory.remember("Tom eats everything but mushrooms", user_id="tom", tags=["food"])
        memory.remember("The kitchen closes at ten", tags=["house"])

        # A filter holds before the best hits are chosen: nobody else's memory can crowd Mara's out.
        for hit in memory.recall("food", user_id="mara"):
            print(hit.user_id, "->", hit.content)
        print(len(memory.list(filter={"tags": "food"}).records), "memories are tagged food")


if __name__ == "__main__":
    main()
