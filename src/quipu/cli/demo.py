"""demo: a tour on a memory that is thrown away."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.recalling import show_hits
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from rich.console import Console

    from quipu.sync import Memory

app = typer.Typer()

#: Invented people, invented facts.
_FACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Mara is vegetarian and allergic to walnuts", {"user_id": "mara", "tags": ["food"]}),
    ("Mara lives in Lisbon, near the botanical garden", {"user_id": "mara", "tags": ["home"]}),
    ("Mara cancelled her standing desk order by phone on 3 March", {"user_id": "mara", "type": "episodic"}),
    ("Mara gets annoyed when deliveries come up", {"user_id": "mara", "type": "emotional"}),
    ("Ilir prefers trains to planes and books window seats", {"user_id": "ilir", "tags": ["travel"]}),
    ("The Apollo project ships on 12 June; Ilir signs it off", {"user_id": "ilir", "source": "document"}),
    ("Backups of the studio server run every night at two", {"source": "tool_result", "confidence": 0.9}),
    ("Parcels over 20 kg go to the back entrance", {"source": "user"}),
)
_QUESTIONS = ("is Mara allergic to anything?", "how does Ilir like to travel?", "when does Apollo ship?")
_UNKNOWN = "who won the chess tournament in Oslo?"
_MOVED = "Mara lives in Porto since April"


@app.command("demo", cls=Command, rich_help_panel="Start here")
def demo(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Only the tour, no questions of your own.")] = False,
) -> None:
    """Take a tour on a throw-away memory.

    [bold]Examples[/bold]
      quipu demo
      quipu demo --once --embedder none

    It remembers, recalls, says that nothing matches, travels back in time and verifies.
    On a terminal you can then ask your own questions.
    See also: init, remember, recall.
    """
    run = Session.of(ctx)
    with tempfile.TemporaryDirectory(prefix="quipu-demo-") as folder:
        there = f"sqlite://{Path(folder) / 'memory.db'}"
        own = replace(run, store_urls=(there,), server=None, agent="demo")
        with own.memory(model=True, use=Use.MAKES) as memory:
            tour = _Tour(own, memory)
            body = tour.told()
            is_talk = sys.stdin.isatty() and sys.stdout.isatty() and not (once or run.is_json)
            if is_talk:
                tour.talk()
    if not run.answer_json(body) and not is_talk:
        _invite(output.console())


class _Tour:
    """The steps, shown to a person or collected for a program."""

    def __init__(self, run: Session, memory: Memory) -> None:
        self._run, self._memory = run, memory
        self._shown = output.console()

    def told(self) -> dict[str, Any]:
        home = self._remember()
        answers = [self._ask(question) for question in _QUESTIONS]
        nothing = self._ask(_UNKNOWN, min_relevance="strict")
        travelled = self._travel(home)
        found = self._memory.verify()
        self._title("Nothing was altered")
        self._say(
            f"{'Holds' if found.holds else 'FAULT'}: {found.entries} journal entries, {found.records} versions"
        )
        return {
            "remembered": len(_FACTS),
            "recalls": [*answers, nothing],
            "time_travel": travelled,
            "verified": found.holds,
        }

    def _remember(self) -> str:
        self._title(f"Remembering {len(_FACTS)} invented facts")
        home = ""
        with self._run.bar("Remembering", "facts") as bar:
            for done, (text, fields) in enumerate(_FACTS, start=1):
                response = self._memory.remember(text, **fields)
                home = response.id if "Lisbon" in text else home
                bar(done, len(_FACTS))
        for text, _ in _FACTS:
            self._say(f"  + {text}")
        return home

    def _ask(self, question: str, **options: Any) -> dict[str, Any]:
        self._title(f'quipu recall "{question}"')
        response = self._memory.recall(question, k=2, **options)
        if not self._run.is_json:
            show_hits(self._shown, response)
        return {"query": question, "results": [str(hit.content) for hit in response]}

    def _travel(self, home: str) -> dict[str, Any]:
        self._title("A change keeps the past")
        before: Any = self._memory.health()["seq"]
        self._memory.remember(_MOVED, id=home, user_id="mara")
        then, now = self._memory.get(home, as_of=before), self._memory.get(home)
        self._say(f"  as of {before}: {then.content}")
        self._say(f"  now:     {now.content}")
        return {"position": before, "then": then.content, "now": now.content}

    def talk(self) -> None:
        """Questions of the person at the keyboard."""
        self._title("Your turn: ask something, or press Enter to end")
        while question := self._typed():
            show_hits(self._shown, self._memory.recall(question, k=3))
        _invite(self._shown)

    def _typed(self) -> str:
        try:
            return self._shown.input("[bold cyan]?[/bold cyan] ").strip()
        except EOFError:
            return ""

    def _title(self, text: str) -> None:
        if not self._run.is_json:
            self._shown.print()
            self._shown.print(text, style="bold", markup=False)

    def _say(self, text: str) -> None:
        if not self._run.is_json:
            self._shown.print(text, markup=False)


def _invite(shown: Console) -> None:
    shown.print()
    shown.print("Try it yourself", style="bold")
    for line in (
        "quipu init",
        'quipu remember "Mara is vegetarian" --user mara',
        'quipu recall "what does Mara eat?"',
        "quipu verify",
        "quipu --help",
    ):
        shown.print(f"  {line}", markup=False)
