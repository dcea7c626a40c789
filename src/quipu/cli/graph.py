"""graph: what is around a memory."""

from __future__ import annotations

from typing import Annotated

import typer

from quipu.cli import drawing, options, output, values
from quipu.cli.command import Command
from quipu.cli.session import Session

app = typer.Typer()


@app.command("graph", cls=Command, rich_help_panel="Memory")
def graph(
    ctx: typer.Context,
    id: options.RecordId,
    hops: Annotated[int, typer.Option("--hops", min=0, max=3, help="How many links away.")] = 1,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="How many memories at most.")] = 100,
    dot: Annotated[bool, typer.Option("--dot", help="Write DOT, for Graphviz.")] = False,
    as_of: options.AsOf = None,
    valid_at: Annotated[
        str | None,
        typer.Option(
            "--valid-at", metavar="WHEN", help="Only what is so at this moment, such as 2026-01-31."
        ),
    ] = None,
) -> None:
    """Show what a memory is linked with, as a tree.

    [bold]Examples[/bold]
      quipu graph mem_...                              explicit links, same subject, same session
      quipu graph mem_... --hops 2 --dot | dot -Tsvg > memory.svg
      quipu graph mem_... --valid-at 2026-01-31        facts that held on that day

    Link memories with `quipu remember ... --link mem_...:about`. A link `supersedes`
    ends what it leads to; metadata valid_from and valid_to say it outright.
    See also: recall --hops, show, history.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        found = memory.neighbours(
            id,
            hops=hops,
            limit=limit,
            as_of=values.as_of(as_of),
            valid_at=values.expires(valid_at, 0),
        )
    from quipu.faces.rest.forms import plain

    if run.answer_json(plain(found)):
        return
    shown = output.console()
    for line in drawing.graph_dot(found) if dot else drawing.graph_lines(found):
        shown.print(line, markup=False, soft_wrap=True)
    if found.is_cut:
        run.note("There is more; raise --limit to see it.")
