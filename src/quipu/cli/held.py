"""The one outcome that is neither success nor failure: a write that waits for a person."""

from __future__ import annotations

from typing import Protocol

import typer

from quipu.cli import output
from quipu.cli.session import HELD, Session

_PREFIX = "quipu:proposal/"


class MayBeHeld(Protocol):
    """An answer to a write."""

    @property
    def pending_approval(self) -> bool: ...
    @property
    def approval_url(self) -> str | None: ...


def proposal_id(given: str) -> str:
    """A proposal by its id or by the address that a held write was answered with, here or by a server."""
    return given.removeprefix(_PREFIX).rpartition("/review/")[2]


def leave_if_held(session: Session, response: MayBeHeld) -> None:
    """Say that the write waits, and end with its own exit code."""
    if not response.pending_approval:
        return
    name = proposal_id(response.approval_url or "")
    if not session.is_json:
        shown = output.console()
        shown.print(f"Held for approval  {name}", style="yellow", markup=False)
        session.note(f"Look at it with `quipu review show {name}`, then approve or reject it.")
    raise typer.Exit(HELD)
