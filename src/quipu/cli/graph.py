"""graph: what is around a memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quipu.cli import drawing, options, output, streams, values
from quipu.cli.command import Command
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.graph import Graph

app = typer.Typer()


@app.command("graph", cls=Command, rich_help_panel="Memory")
def graph(
    ctx: typer.Context,
    id: options.RecordId,
    hops: Annotated[int, typer.Option("--hops", min=0, max=3, help="How many links away.")] = 1,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="How many memories at most.")] = 100,
    dot: Annotated[bool, typer.Option("--dot", help="Write DOT, for Graphviz.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write one HTML file that needs nothing else; - for standard output.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
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
      quipu graph mem_... --hops 2 --html memory.html  a picture for any browser, offline
      quipu graph mem_... --valid-at 2026-01-31        facts that held on that day

    Link memories with `quipu remember ... --link mem_...:about`. A link `supersedes`
    ends what it leads to; metadata valid_from and valid_to say it outright.
    See also: recall --hops, show, history.
    """
    run = Session.of(ctx)
    if dot and html is not None:
        raise InvalidError("A graph is written in one way.", reason="usage", hint="Give --dot or --html.")
    with run.memory(use=Use.READS) as memory:
        found = memory.neighbours(
            id,
            hops=hops,
            limit=limit,
            as_of=values.as_of(as_of),
            valid_at=values.expires(valid_at, 0),
        )
    if html is not None:
        _write_html(run, found, html, force=force)
        return
    from quipu.faces.rest.forms import plain

    if run.answer_json(plain(found)):
        return
    shown = output.console()
    for line in drawing.graph_dot(found) if dot else drawing.graph_lines(found):
        shown.print(line, markup=False, soft_wrap=True)
    if found.is_cut:
        run.note("There is more; raise --limit to see it.")


def _write_html(run: Session, found: Graph, file: Path, *, force: bool) -> None:
    """The file stands there only when it is whole, and for nobody else to read."""
    from quipu.faces.web import graph_file
    from quipu.memory.files import draft_of

    text = graph_file.html(found)
    if str(file) == "-":
        streams.answer(text)
        return
    if file.exists() and not force:
        raise InvalidError(
            f"{file} exists already.", reason="exists", hint="Choose another name, or repeat with --force."
        )
    draft = draft_of(file)
    try:
        draft.touch(mode=0o600)
        draft.write_text(text, "utf-8")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    if not run.answer_json({"file": str(file), "memories": len(found.nodes), "is_cut": found.is_cut}):
        shown = f"Drew {output.counted(len(found.nodes), 'memory', 'memories')} into {file}"
        output.console().print(shown, markup=False, soft_wrap=True)
