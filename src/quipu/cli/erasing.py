"""erase: delete for good, here and at everybody who was shown it, with a receipt."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quipu.cli import lending, options, output
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import InvalidError

app = typer.Typer()


@app.command("erase", cls=Command, rich_help_panel="Lending")
def erase(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Records to erase.")] = None,
    labels: lending.Labels = None,
    grant: Annotated[
        str | None, typer.Option("--grant", metavar="GRANT", help="Everything that this grant has shown.")
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="NAME", help="A whole scope.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All memories of this owner.")] = False,
    reason: options.Reason = None,
    yes: options.Yes = False,
) -> None:
    """Erase memories for good, also where they were lent, and get a signed receipt.

    [bold]Examples[/bold]
      quipu erase mem_... --yes
      quipu erase --label project_x --reason gdpr-art-17 --yes

    Content, versions, vectors and salts go at once; whoever was shown any of it is
    told until they answer. Only ids, hashes and receipts are left. Nothing undoes it.
    See also: forget, grant seen, verify.
    """
    run = Session.of(ctx)
    request: dict[str, Any] = {"item_ids": ids} if ids else {}
    if labels:
        request["filter"] = {"labels_any": labels}
    if grant:
        request["grant_id"] = grant
    if scope:
        request["scope_id"] = scope
    if not request and not everything:
        raise InvalidError(
            "Say what to erase.", reason="usage", hint="Give ids, --label, --grant, --scope or --everything."
        )
    if reason:
        request["reason"] = reason
    if not yes:
        run.agree("Erase for good?")

    done = lending.lending(run, lambda sharing, who: sharing.erased(who, request))
    if run.answer_json(done):
        return
    receipt, report = done["receipt"], done["report"]
    console, erased = output.console(), receipt["scope"]["items_deleted"]
    console.print(f"Erased {output.counted(erased, 'memory', 'memories')}", markup=False)
    if ids and (missing := len(set(ids)) - erased) > 0:
        run.warn(f"{missing} of {output.counted(len(set(ids)), 'id')} led to nothing: check them.")
    console.print(f"Receipt {receipt['receipt_id']}", markup=False)
    for step in report["steps"]:
        console.print(f"  {step['did']}: {step.get('status', 'done')}", markup=False)
