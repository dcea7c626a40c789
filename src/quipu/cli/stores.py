"""store: the named containers that memories lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.store import Store

app = typer.Typer(name="store", cls=Group, no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The store's name.")]


@app.callback(cls=Group, rich_help_panel="Memory")
def store() -> None:
    """Make, list and delete memory stores.

    [bold]Example[/bold]
      quipu store create team-notes --scope team

    A store is a named container with a scope and a tier. Every memory starts with the store `main`.
    """


@app.command("create", cls=Command)
def create(
    ctx: typer.Context,
    name: Name,
    scope: Annotated[
        Literal["user", "session", "agent", "team", "global"],
        typer.Option("--scope", help="Whom it serves; team and global are shared by all agents."),
    ] = "agent",
    tier: Annotated[
        Literal["short_term", "long_term"], typer.Option("--tier", help="How lasting its memories are.")
    ] = "long_term",
    namespace: Annotated[str | None, typer.Option("--namespace", help="A free label.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
) -> None:
    """Make a memory store.

    [bold]Examples[/bold]
      quipu store create recipes
      quipu store create team-notes --scope team --description "what we all know"
      quipu remember "Standup is at 9:30" --store team-notes

    See also: store list, store delete.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.MAKES) as memory:
        made = memory.create_store(name, scope=scope, tier=tier, namespace=namespace, description=description)
    if not run.answer_json(_body(made)):
        output.console().print(f"Created store {made.name}  {made.id}", markup=False)


@app.command("list", cls=Command)
def list_stores(ctx: typer.Context) -> None:
    """List the memory stores.

    [bold]Example[/bold]
      quipu store list

    See also: store create, list --store.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.list_stores()
    if run.answer_json({"stores": [_body(store) for store in found]}):
        return
    columns = ["name", "scope", "tier", "namespace", "description", "created", "id"]
    rows = [
        [s.name, s.scope.value, s.tier.value, s.namespace, s.description, output.when(s.created_at), s.id]
        for s in found
    ]
    output.console().print(output.table(columns, rows, whole=("id", "created")))


@app.command("delete", cls=Command)
def delete(
    ctx: typer.Context,
    name: Name,
    hard: Annotated[bool, typer.Option("--hard", help="Erase what it holds for good.")] = False,
    yes: options.Yes = False,
) -> None:
    """Take a store away with all it holds.

    [bold]Examples[/bold]
      quipu store delete recipes                       asks for the name once more
      quipu store delete recipes --yes
      quipu store delete recipes --hard --yes          erases the memories in it

    See also: store list, forget, restore.
    """
    run = Session.of(ctx)
    if not yes and not run.may_ask:
        raise InvalidError(
            "This would delete a store and all it holds, and nobody can be asked.",
            reason="confirmation_required",
            hint="Repeat with --yes.",
        )
    typed = name if yes else typer.prompt(f"All memories in {name} go. Type the name to confirm", err=True)
    with run.memory() as memory:
        gone = memory.delete_store(name, confirm=typed, hard_delete=hard)
    if not run.answer_json({"store": name, "removed": gone, "hard_delete": hard}):
        output.console().print(f"Deleted store {name} with {output.counted(gone, 'record')}", markup=False)


def _body(store: Store) -> dict[str, Any]:
    return {
        "id": store.id,
        "name": store.name,
        "scope": store.scope.value,
        "tier": store.tier.value,
        "namespace": store.namespace,
        "description": store.description,
        "created_at": store.created_at,
    }
