"""secret: values that must never be remembered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.access import KeptSecret

app = typer.Typer(name="secret", cls=Group, no_args_is_help=True)


@app.callback(cls=Group, rich_help_panel="Server")
def secret() -> None:
    """Register values that are kept out of memory.

    [bold]Example[/bold]
      quipu secret add stripe-key < key.txt
      quipu secret list

    A write that holds such a value, also encoded, is kept without it. The value is sealed and never shown again.
    """


@app.command("add", cls=Command)
def add(
    ctx: typer.Context,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="What stands in its place.")],
    run_id: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Only keep it out of what this run writes.")
    ] = None,
) -> None:
    """Keep a value out of memory; it is read from standard input, or asked for unseen.

    [bold]Examples[/bold]
      quipu secret add stripe-key < key.txt
      pass show db | quipu secret add db-password
      quipu secret add db-password                     asks, and shows nothing while you type

    The value is never given as an argument: those can be read by everybody on the machine.
    See also: secret list, secret remove.
    """
    run = Session.of(ctx)
    value = _asked(run)
    with run.memory(use=Use.MAKES) as memory:
        kept = memory.add_secret(label, value, run_id=run_id)
    if not run.answer_json(_body(kept)):
        output.console().print(f"Kept out of memory: {kept.label}  {kept.id}", markup=False)
        run.note("What was remembered before is not searched for it.")


def _asked(run: Session) -> str:
    """The value, from a pipe or from a person; its last line end is not part of it."""
    if run.may_ask:
        return str(typer.prompt("Value", hide_input=True, confirmation_prompt=True, err=True))
    data = sys.stdin.buffer.read()
    try:
        value = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidError.at("/value", "bad_value", "The value is not UTF-8 text.") from None
    if not value:
        raise InvalidError.at(
            "/value",
            "missing_field",
            "There is no value on standard input.",
            hint="Pipe it in: quipu secret add LABEL < FILE.",
        )
    return value


@app.command("list", cls=Command)
def list_secrets(ctx: typer.Context) -> None:
    """List what is registered, without the values.

    [bold]Example[/bold]
      quipu secret list

    See also: secret add, secret remove.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.list_secrets()
    if run.answer_json({"secrets": [_body(secret) for secret in found]}):
        return
    rows = [[s.id, s.label, s.run_id, output.when(s.created_at), s.created_by] for s in found]
    output.console().print(
        output.table(
            ["id", "label", "run", "since", "made by"],
            rows,
            empty="No secrets are registered: `quipu secret add` registers one.",
        )
    )


@app.command("remove", cls=Command)
def remove(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="A secret's id, sec_...")],
) -> None:
    """Let a value be remembered again.

    [bold]Example[/bold]
      quipu secret remove sec_...

    See also: secret list, secret add.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        memory.remove_secret(id)
    if not run.answer_json({"removed": id}):
        output.console().print(f"Removed secret {id}", markup=False)


def _body(secret: KeptSecret) -> dict[str, Any]:
    return {
        "tenant": secret.tenant,
        "id": secret.id,
        "label": secret.label,
        "run_id": secret.run_id,
        "created_at": secret.created_at,
        "created_by": secret.created_by,
    }
