"""grant: what others lend you. Ask for it, see what is held of it, fetch a vector, give it up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from quipu.cli import lending, output
from quipu.cli.command import Command
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

app = typer.Typer()

GrantId: TypeAlias = Annotated[str, typer.Argument(metavar="GRANT", help="Its id, mgr_...")]
Host: TypeAlias = Annotated[
    str, typer.Argument(metavar="HOST", help="Address or DID of the host that lends.")
]


@app.command("ask", cls=Command)
def ask(
    ctx: typer.Context,
    host: Host,
    grant_id: GrantId,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to look for; empty lists everything.")
    ] = "",
    most: Annotated[int, typer.Option("--most", min=1, max=100, help="Items at most.")] = 20,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With where their vectors are, if the grant lends them.")
    ] = False,
) -> None:
    """Ask another host for what it lends you under a grant.

    [bold]Example[/bold]
      quipu grant ask https://memory.example.org mgr_... "meeting days"

    What comes back is checked, and kept apart from your own memory until it expires.
    It takes the keys of a memory on this machine; --server does not go with it.
    See also: grant held, grant vector, grant give-up.
    """
    run = Session.of(ctx)
    body = {"query": query, "max_results": most, **({"include_embeddings": True} if vectors else {})}
    told = lending.here(
        run, "grant ask", lambda sharing, who: sharing.borrowing.ask(who, host, grant_id, body)
    )
    if run.answer_json({"source": told.source, "items": list(told.items), "warnings": list(told.warnings)}):
        return
    _tell(list(told.items))


@app.command("held", cls=Command)
def held(ctx: typer.Context) -> None:
    """List what others have lent you, as long as it may be kept.

    [bold]Example[/bold]
      quipu grant held

    What was lent is kept on this machine; --server does not go with it.
    See also: grant ask, grant give-up.
    """
    run = Session.of(ctx)
    found = lending.here(run, "grant held", lambda sharing, who: sharing.borrowing.held(who), use=Use.READS)
    items = [dict(one.item) for one in found]
    if not run.answer_json({"items": items}):
        _tell(items)


@app.command("vector", cls=Command)
def vector(
    ctx: typer.Context,
    host: Host,
    grant_id: GrantId,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Its vector_url, as `grant ask --vectors --json` shows it.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; nothing may be there.")],
) -> None:
    """Fetch the vector of an item that another host lends you.

    [bold]Example[/bold]
      quipu grant vector https://memory.example.org mgr_... https://memory.example.org/oap/memory/vec/... item.bin

    The file holds its numbers, four bytes each (float32, little-endian). The grant must lend vectors.
    It takes the keys of a memory on this machine; --server does not go with it.
    See also: grant ask, share.
    """
    run = Session.of(ctx)
    if file.exists():
        raise InvalidError(f"{file} exists already.", reason="exists", hint="Choose another name.")
    data = lending.here(
        run, "grant vector", lambda sharing, who: sharing.borrowing.vector(who, host, grant_id, url)
    )
    try:
        with file.open("xb") as target:
            target.write(data)
    except OSError as error:
        raise InvalidError(f"{file} cannot be written: {error.strerror}.", reason="no_file") from error
    if not run.answer_json({"file": str(file), "bytes": len(data)}):
        output.console().print(f"{len(data) // 4} numbers in {file}", markup=False)


@app.command("give-up", cls=Command)
def give_up(ctx: typer.Context, host: Host, grant_id: GrantId) -> None:
    """Tell another host that you want no more of what it lends you.

    [bold]Example[/bold]
      quipu grant give-up https://memory.example.org mgr_...

    What it showed is let go of at once, and the grant ends there: only its owner can lend again.
    It takes the keys of a memory on this machine; --server does not go with it.
    See also: grant ask, grant held.
    """
    run = Session.of(ctx)
    dropped = lending.here(
        run, "grant give-up", lambda sharing, who: sharing.borrowing.give_up(who, host, grant_id)
    )
    if not run.answer_json({"grant_id": grant_id, "dropped": dropped}):
        told = f"Given up; {output.counted(dropped, 'item')} let go of."
        output.console().print(told, markup=False)


def _tell(items: list[Any]) -> None:
    rows = [
        [item["item_id"], item["kind"], output.brief(item["content"].get("text", "(no text)"))]
        for item in items
    ]
    output.console().print(
        output.table(["id", "kind", "text (somebody else's)"], rows, empty="Nothing came back.")
    )
