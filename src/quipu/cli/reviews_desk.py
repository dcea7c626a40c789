"""The desk: held writes one after the other, each decided with a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from quipu.cli import output
from quipu.cli.reviews_shown import shown_review
from quipu.cli.session import Session
from quipu.errors import QuipuError
from quipu.model.governance import Edit
from quipu.model.operations import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from quipu.model.change import Proposal
    from quipu.model.governance import Review
    from quipu.sync import Memory

KEYS = (
    "a approve   r reject   e edit   m merge into the first alike   s supersede it   n next   q quit   ? help"
)
_HELP = """a  approve it as it is shown
r  reject it; nothing is written
e  type what is remembered instead, and approve that
m  approve it, merged into the first memory that is like it
s  approve it, and forget the first memory that is like it
n  leave it for later
q  stop; what was not decided goes on waiting"""


class Desk:
    """One sitting. Nothing is decided that was not on the screen: each decision brings what was seen."""

    def __init__(self, run: Session, memory: Memory, body: Callable[[Proposal], dict[str, Any]]) -> None:
        self._run, self._memory, self._body = run, memory, body
        self._decided = 0

    def work(self) -> int:
        """Through all that waits, oldest first; returns how many were decided."""
        waiting = self._memory.proposals("pending")
        for place, proposal in enumerate(waiting, start=1):
            try:
                seen = self._memory.review(proposal.id)
            except QuipuError as error:
                if error.retryable:  # the memory does not answer: that nothing waits would be untrue
                    raise
                continue  # somebody else has decided on it meanwhile
            if seen.proposal.status == "pending" and not self._one(seen, place, len(waiting)):
                break
        return self._decided

    def _one(self, seen: Review, place: int, of: int) -> bool:
        """Show it and follow a key; False to stop."""
        console = output.console()
        console.rule(f"{place} of {of}  {seen.proposal.operation}  {seen.proposal.id}")
        shown_review(seen, self._body(seen.proposal))
        console.print(KEYS, style="dim", markup=False)
        while True:
            key = typer.getchar().lower()
            if key in ("q", "\x03", "\x04", "\x1b"):
                return False
            if key in ("n", " "):
                return True
            if key == "?":
                console.print(_HELP, markup=False)
            elif (said := self._said(key, seen)) is not None and self._decide(seen, said):
                return True

    def _said(self, key: str, seen: Review) -> dict[str, Any] | None:
        """What a key decides; None where it decides nothing here."""
        alike = seen.diff.related[0].id if seen.diff is not None and seen.diff.related else None
        match key:
            case "a":
                return {"approved": True, "etag": seen.etag}
            case "r":
                return {"approved": False, "reason": self._reason()}
            case "e":
                return self._edited(seen)
            case "m" | "s" if alike is None:
                self._run.note("Nothing is like it.")
                return None
            case "m":
                strategy = MergeStrategy.MERGE_CONTENT
                return {"approved": True, "etag": seen.etag, "merge_into": alike, "strategy": strategy}
            case "s":
                return {"approved": True, "etag": seen.etag, "supersedes": [alike]}
            case _:
                return None

    def _reason(self) -> str | None:
        return typer.prompt("Why? (may stay empty)", default="", show_default=False, err=True) or None

    def _edited(self, seen: Review) -> dict[str, Any] | None:
        before = seen.proposal.request.get("content")
        if seen.proposal.operation != "remember" or not isinstance(before, str):
            self._run.note("Only the text of a memory is edited.")
            return None
        text = str(
            typer.prompt("What is remembered instead?", default="", show_default=False, err=True)
        ).strip()
        if not text or text == before:
            self._run.note("Nothing was changed.")
            return None
        return {"approved": True, "etag": seen.etag, "edit": Edit(content=text)}

    def _decide(self, seen: Review, said: dict[str, Any]) -> bool:
        """Whether it is decided now. What could not be carried out is told, and stays on the screen."""
        try:
            self._memory.decide(seen.proposal.id, **said)
        except QuipuError as error:
            self._run.note(error.message if error.hint is None else f"{error.message} {error.hint}")
            return error.reason in ("already_decided", "stale_proposal")
        self._decided += 1
        output.console().print("Approved." if said["approved"] else "Rejected.", markup=False)
        return True
