"""`demo`: a tour on a memory that is thrown away."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from quipu.cli import streams
from quipu.cli.session import Session
from quipu.command import HandCommand

if TYPE_CHECKING:
    from quipu.opening import Runner

#: Invented people, invented facts.
_FACTS: tuple[Mapping[str, Any], ...] = (
    {"content": "Mara is vegetarian and allergic to walnuts", "user_id": "mara", "tags": ["food"]},
    {"content": "Mara lives in Lisbon, near the botanical garden", "user_id": "mara", "tags": ["home"]},
    {
        "content": "Mara cancelled her standing desk order by phone on 3 March",
        "user_id": "mara",
        "type": "episodic",
    },
    {"content": "Mara gets annoyed when deliveries come up", "user_id": "mara", "type": "emotional"},
    {
        "content": "Ilir prefers trains to planes and books window seats",
        "user_id": "ilir",
        "tags": ["travel"],
    },
    {"content": "The Apollo project ships on 12 June; Ilir signs it off", "user_id": "ilir"},
    {"content": "Backups of the studio server run every night at two", "confidence": 0.9},
    {"content": "Parcels over 20 kg go to the back entrance"},
)
_QUESTIONS = ("is Mara allergic to anything?", "how does Ilir like to travel?", "when does Apollo ship?")
_UNKNOWN = "who won the chess tournament in Oslo?"
_BEFORE, _AFTER = "Lisbon", "Mara lives in Porto since April"
_NEXT = (
    "quipu init",
    'quipu remember "Mara is vegetarian" --user-id mara',
    'quipu recall "what does Mara eat?"',
    "quipu --help",
)


async def _demo(session: Session, *, once: bool) -> None:
    from quipu.model.principal import local
    from quipu.opening import Runner, embedded

    opener = embedded(session.settings, local(agent_id="demo"), stores=[":memory:"])
    memory = Runner(opener, agent_id="demo")
    try:
        tour = _Tour(session, memory)
        body = await tour.run()
        session.answer(body)
        if sys.stdin.isatty() and sys.stdout.isatty() and not (once or session.is_json):
            await tour.talk()
    finally:
        await memory.close()
    tour.title("Try it yourself")
    for line in _NEXT:
        session.say(f"  {line}")


class _Tour:
    """The steps, shown to a person or collected for a program."""

    def __init__(self, session: Session, memory: "Runner") -> None:
        self._session, self._memory = session, memory

    def title(self, text: str) -> None:
        self._session.say(f"\n{text}", style="bold")

    async def run(self) -> dict[str, Any]:
        home, position = await self._remember()
        recalls = [await self._ask(question) for question in _QUESTIONS]
        recalls.append(await self._ask(_UNKNOWN, min_relevance="strict"))
        return {
            "remembered": len(_FACTS),
            "recalls": recalls,
            "time_travel": await self._travel(home, position),
        }

    async def _remember(self) -> tuple[str, int]:
        self.title(f"Remembering {len(_FACTS)} invented facts")
        home, position = "", 0
        with self._session.bar("Remembering") as bar:
            for done, fact in enumerate(_FACTS, start=1):
                kept = await self._memory.call("remember", fact)
                home, position = kept.id if _BEFORE in fact["content"] else home, kept.seq
                bar(done, len(_FACTS))
        for fact in _FACTS:
            self._session.say(f"  + {fact['content']}")
        return home, position

    async def _ask(self, question: str, **options: Any) -> dict[str, Any]:
        self.title(f'quipu recall "{question}"')
        found = (await self._memory.call("recall", {"query": question, "k": 2, **options})).to_dict()
        self._show(found["results"])
        return {"query": question, "results": [hit["content"] for hit in found["results"]]}

    def _show(self, hits: list[dict[str, Any]]) -> None:
        for hit in hits:
            self._session.say(f"  {hit['relevance']:.2f}  {hit['content']}")
        if not hits:
            self._session.say("  Nothing matches.")

    async def _travel(self, home: str, position: int) -> dict[str, Any]:
        self.title("A change keeps the past")
        await self._memory.call("update", {"id": home, "content": _AFTER})
        then = await self._memory.call("get", {"id": home, "as_of": str(position)})
        now = await self._memory.call("get", {"id": home})
        self._session.say(f"  at position {position}: {then.content}")
        self._session.say(f"  now: {now.content}")
        return {"position": position, "then": then.content, "now": now.content}

    async def talk(self) -> None:
        """Questions of the person at the keyboard."""
        self.title("Your turn: ask something, or press Enter to end")
        while question := _typed():
            found = (await self._memory.call("recall", {"query": question, "k": 3})).to_dict()
            self._show(found["results"])


def _typed() -> str:
    streams.write("? ")
    streams.flush()
    return sys.stdin.readline().strip()


DEMO = HandCommand(
    name="demo",
    help="""Take a tour on a memory that is thrown away.

    It remembers, recalls, says that nothing matches, and reads the past. On a terminal you can then ask questions of your
    own.""",
    run=_demo,
    parameters=(click.Option(["--once"], is_flag=True, help="Only the tour, no questions of your own."),),
    examples=("quipu demo", "quipu demo --once", "QUIPU_EMBEDDER=none quipu demo --once"),
)
