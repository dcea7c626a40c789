"""imports: what was brought in as a file; one decision over what waits, and undoing it whole."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from quipu.cli import options, output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

app = typer.Typer(name="imports", cls=Group, no_args_is_help=True)

ImportId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="An import's id, imp_...")]


@app.callback(cls=Group, rich_help_panel="In and out")
def imports() -> None:
    """See what files brought in, decide on what waits of them, and undo them.

    [bold]Example[/bold]
      quipu imports list
      quipu imports undo imp_...

    An import is what one file brought in; the same file is always the same import. Lines (NDJSON) are a new one each time.
    """


@app.command("list", cls=Command)
def list_imports(ctx: typer.Context) -> None:
    """List the last imports, newest first.

    [bold]Example[/bold]
      quipu imports list

    See also: import, imports approve, imports undo.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.imports()
    told = [
        {
            "import_id": one.import_id,
            "at": one.at,
            "by": one.by,
            "waiting": one.waiting,
            "rolled_back": one.is_rolled_back,
            **{name: value for name, value in one.detail.items() if name != "import_id"},
        }
        for one in found
    ]
    if run.answer_json({"imports": told}):
        return
    rows = [
        [
            one.import_id,
            one.detail.get("format"),
            one.detail.get("accepted"),
            one.waiting or None,
            "undone" if one.is_rolled_back else None,
            output.when(one.at),
            one.by,
        ]
        for one in found
    ]
    output.console().print(
        output.table(
            ["id", "format", "in", "waiting", "", "when", "by"],
            rows,
            empty="Nothing was imported yet: `quipu import FILE` brings memories in.",
        )
    )


@app.command("approve", cls=Command)
def approve(ctx: typer.Context, id: ImportId, reason: options.Reason = None) -> None:
    """Let in everything of an import that waits.

    [bold]Example[/bold]
      quipu imports approve imp_...

    Nobody approves what they brought in themselves, except at a memory of their own.
    See also: imports reject, imports undo, review list.
    """
    _decide(ctx, id, reason, approved=True)


@app.command("reject", cls=Command)
def reject(ctx: typer.Context, id: ImportId, reason: options.Reason = None) -> None:
    """Drop everything of an import that waits.

    [bold]Example[/bold]
      quipu imports reject imp_... --reason "not ours"

    See also: imports approve, imports undo, review list.
    """
    _decide(ctx, id, reason, approved=False)


def _decide(ctx: typer.Context, id: str, reason: str | None, *, approved: bool) -> None:
    run = Session.of(ctx)
    with run.memory(model=approved) as memory:
        decided = memory.decide_import(id, approved=approved, reason=reason)
    told = {"import_id": id, "approved": approved, "decided": decided.decided, "failed": decided.failed}
    if not run.answer_json(told):
        word = "Let in" if approved else "Dropped"
        output.console().print(f"{word} {output.counted(decided.decided, 'item')}", markup=False)
    if decided.failed:
        run.note(f"{output.counted(decided.failed, 'item')} could not be; they go on waiting.")
        raise typer.Exit(1)


@app.command("undo", cls=Command)
def undo(
    ctx: typer.Context,
    id: ImportId,
    force: Annotated[bool, typer.Option("--force", help="Also what was changed since.")] = False,
    dry_run: options.DryRun = False,
) -> None:
    """Take an import back as a whole: what it brought, what it changed, and what waits.

    [bold]Examples[/bold]
      quipu imports undo imp_... --dry-run
      quipu imports undo imp_...

    What somebody has changed since is kept and named. The same file can be brought in again.
    See also: imports list, restore, history.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        undone = memory.roll_back_import(id, force=force, dry_run=dry_run)
    told = {
        "import_id": id,
        "forgotten": undone.forgotten,
        "withdrawn": undone.withdrawn,
        "restored": undone.restored,
        "kept": list(undone.kept),
        "dry_run": dry_run,
    }
    if run.answer_json(told):
        return
    word = "Would forget" if dry_run else "Forgot"
    output.console().print(f"{word} {output.counted(undone.forgotten, 'record')}", markup=False)
    if undone.restored:
        output.console().print(f"  {undone.restored:,} as they were before", markup=False)
    if undone.withdrawn:
        output.console().print(f"  {undone.withdrawn:,} that waited", markup=False)
    for name in undone.kept:
        output.console().print(f"  kept, because it was changed: {name}", markup=False)
