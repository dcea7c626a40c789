"""Keep a conversation turn by turn, and find the turn that answers a question."""

from quipu.sync import Memory

TURNS = [
    ("user", "We want to move the launch."),
    ("assistant", "To which day?"),
    ("user", "The 14th of June suits everybody."),
    ("assistant", "Noted. Who tells the printers?"),
    ("user", "Ilir will call them tomorrow."),
]


def main() -> None:
    with Memory(agent_id="assistant", stores="memory.db") as memory:
        for number, (speaker, text) in enumerate(TURNS):
            memory.remember(
                text,
                type="episodic",
                session_id="launch-planning",
                participants=[speaker],
                metadata={"turn": number},
            )
        memory.remember("The canteen is closed in June", type="episodic", session_id="small-talk")

        # Neighbouring turns lend each other their words, and a session can be asked for alone.
        hits = memory.recall("When is the launch?", session_id="launch-planning", k=3, min_relevance="off")
        for hit in hits:
            print(hit.metadata["turn"], hit.content)

        # What fits into a prompt: whole memories, best first, within a budget of tokens.
        fitting = memory.recall("launch", session_id="launch-planning", max_tokens=20, min_relevance="off")
        print(len(fitting.results), "fit")


if __name__ == "__main__":
    main()
