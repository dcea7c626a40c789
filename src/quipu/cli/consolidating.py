"""consolidate: short-term memory settles into long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quipu.cli import options, output
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.consolidation import Consolidation

app = typer.Typer()

_WORDS = {
    "promoted": "promoted to long-term memory",
    "known": "known already",
    "evicted": "evicted (restorable)",
    "held": "waiting for a person",
    "kept": "kept in the window",
    "failed": "left where they are",
}


@app.command("consolidate", cls=Command, rich_help_panel="Upkeep")
def consolidate(
    ctx: typer.Context,
    user: options.User = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Every agent's windows.")] = False,
    dry_run: options.DryRun = False,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="PASS", help="Take this pass back instead.")
    ] = None,
) -> None:
    """Settle short-term memory: promote what weighs enough, forget what is light and old.

    [bold]Examples[/bold]
      quipu store create inbox --tier short_term
      quipu remember "Mara asked for a receipt" --store inbox --importance 0.9
      quipu consolidate --dry-run                      say what would happen
      quipu consolidate
      quipu consolidate --undo pass_...                as if it had not been

    Weight comes from recency, mentions and recalls, confidence and importance. A running
    server does this by itself (QUIPU_CONSOLIDATION_S). Nothing goes for being similar.
    Exit codes: 0 done, 1 bad input, 2 the memory failed.
    See also: store create, restore, expire, sweep.
    """
    run = Session.of(ctx)
    from quipu.faces.rest.forms import plain

    if undo is not None:
        if dry_run or all_agents or user is not None:
            raise InvalidError("--undo takes a pass as it was.", reason="usage", hint="Give --undo alone.")
        with run.memory(model=True) as memory:
            back = memory.undo_consolidation(undo)
        if run.answer_json(plain(back)):
            return
        said = f"Restored {len(back.restored)}, forgot {len(back.forgotten)}"
        output.console().print(said + (f", left {len(back.left)}" if back.left else ""), markup=False)
        return
    with run.memory(model=True) as memory, run.bar("Settling", "windows") as bar:
        done = memory.consolidate(user_id=user, all_agents=all_agents, dry_run=dry_run, progress=bar)
    if not run.answer_json(plain(done)):
        _told(run, done)


def _told(run: Session, done: Consolidation) -> None:
    shown = output.console()
    would = "Would settle" if done.dry_run else "Settled"
    shown.print(f"{would} {output.counted(done.windows, 'window')}", markup=False)
    for name, word in _WORDS.items():
        if count := done.counts.get(name):
            shown.print(f"  {count:,} {word}", markup=False)
    for one in done.settled if done.dry_run else ():
        shown.print(f"  {one.outcome.value:9} {one.score:.2f}  {' '.join(one.ids)}", markup=False)
    if done.proposed:
        run.note(f"{output.counted(done.proposed, 'fact')} proposed; `quipu review list` shows them.")
    if done.unread:
        run.note(
            f"The extractor could not be asked about {output.counted(done.unread, 'memory', 'memories')}."
        )
    for pair in done.similar[:10]:
        run.note(f"nearly the same ({pair.similarity:.2f}): {pair.id} {pair.other}")
    if not done.dry_run and {"promoted", "known", "evicted"} & done.counts.keys():
        run.note(f"`quipu consolidate --undo {done.pass_id}` takes it back.")
