"""grant: what was lent, who saw what, and taking it back; and asking others under their grants."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quipu.cli import grants_borrowed, grants_requests, lending, options, output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

app = typer.Typer(name="grant", cls=Group, no_args_is_help=True)
app.registered_commands += grants_requests.app.registered_commands
app.registered_commands += grants_borrowed.app.registered_commands

GrantId = Annotated[str, typer.Argument(metavar="GRANT", help="Its id, mgr_...")]


@app.callback(cls=Group, rich_help_panel="Lending")
def grant() -> None:
    """See what you have lent, who saw it, and take it back; ask others who lend to you.

    [bold]Example[/bold]
      quipu grant list
      quipu grant revoke mgr_...
      quipu grant requests

    `quipu share` lends. A grant is a signed permission to read a slice of memory.
    """


@app.command("list", cls=Command)
def list_grants(ctx: typer.Context) -> None:
    """List what you have lent, newest first.

    [bold]Example[/bold]
      quipu grant list

    See also: share, grant show, grant revoke.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        return await sharing.grants.list(who), sharing.now()

    found, now = lending.lending(run, work, use=Use.READS)
    if run.answer_json({"grants": [lending.grant_body(kept, now) for kept in found]}):
        return
    rows = [lending.grant_row(kept, now) for kept in found]
    output.console().print(
        output.table(
            ["id", "lent to", "status", "until", "shown", "purpose"],
            rows,
            empty="Nothing is lent: `quipu share` lends.",
        )
    )


@app.command("show", cls=Command)
def show(ctx: typer.Context, grant_id: GrantId) -> None:
    """Show a grant and every record it has shown.

    [bold]Example[/bold]
      quipu grant show mgr_...

    See also: grant list, grant seen.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        kept = await sharing.grants.get(who, grant_id)
        return kept, await sharing.grants.shown(who, grant_id), sharing.now()

    kept, shown, now = lending.lending(run, work, use=Use.READS)
    if run.answer_json({**lending.grant_body(kept, now), "shown": [name for name, _ in shown]}):
        return
    console = output.console()
    console.print(
        output.table(["id", "lent to", "status", "until", "shown", "purpose"], [lending.grant_row(kept, now)])
    )
    rows = [[name, output.when(at)] for name, at in shown]
    console.print(output.table(["id", "first shown"], rows, empty="It has shown nothing yet."))


@app.command("seen", cls=Command)
def seen(
    ctx: typer.Context,
    record_id: Annotated[str, typer.Argument(metavar="ID", help="A record.")],
) -> None:
    """Tell who outside has seen a memory, and when.

    [bold]Example[/bold]
      quipu grant seen mem_...

    See also: grant list, history.
    """
    run = Session.of(ctx)
    told = lending.lending(run, lambda sharing, who: sharing.grants.who_saw(who, record_id), use=Use.READS)
    if run.answer_json({"seen": list(told)}):
        return
    rows = [[entry["at"], entry["actor"], entry["receipt_id"]] for entry in told]
    output.console().print(
        output.table(["at", "who", "receipt"], rows, whole=("receipt",), empty="Nobody outside has seen it.")
    )


@app.command("revoke", cls=Command)
def revoke(ctx: typer.Context, grant_id: GrantId) -> None:
    """Take a grant back; it counts from the very next request on.

    [bold]Example[/bold]
      quipu grant revoke mgr_...

    See also: grant list, grant revoke-all.
    """
    run = Session.of(ctx)
    kept = lending.lending(run, lambda sharing, who: sharing.grants.revoke(who, grant_id))
    if not run.answer_json({"grant_id": kept.id, "status": kept.status.value, "revoked_at": kept.revoked_at}):
        output.console().print(f"Revoked {kept.id}", markup=False)


@app.command("revoke-all", cls=Command)
def revoke_all(ctx: typer.Context, yes: options.Yes = False) -> None:
    """Take back everything you have lent, at once.

    [bold]Example[/bold]
      quipu grant revoke-all --yes

    See also: grant revoke, did rotate.
    """
    run = Session.of(ctx)
    if not yes:
        run.agree("Revoke every grant?")
    ended = lending.lending(run, lambda sharing, who: sharing.grants.kill(who))
    if not run.answer_json({"revoked": ended}):
        output.console().print(f"Revoked {output.counted(ended, 'grant')}", markup=False)


@app.command("receipts", cls=Command)
def receipts(ctx: typer.Context) -> None:
    """Show the chain of receipts, and check that it is whole.

    [bold]Example[/bold]
      quipu grant receipts

    See also: verify, grant seen.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        return await sharing.grants.chain(who), await sharing.grants.verify(who)

    found, faults = lending.lending(run, work, use=Use.READS)
    body = {"receipts": [one.body for one in found], "faults": [fault.kind for fault in faults]}
    if not run.answer_json(body):
        rows = [[output.when(one.at), one.type, one.agent, one.id] for one in found]
        console = output.console()
        console.print(
            output.table(["at", "type", "who", "receipt"], rows, whole=("receipt",), empty="No receipts yet.")
        )
        console.print("The chain is whole." if not faults else f"The chain is broken at {faults[0].seq}.")
    if faults:
        raise typer.Exit(2)


@app.command("decisions", cls=Command)
def decisions(ctx: typer.Context) -> None:
    """Show what was allowed to whom and what was refused, with the rules that decided.

    [bold]Example[/bold]
      quipu grant decisions --json

    Each decision is read out of its receipt, which is signed and chained.

    See also: grant receipts, grant seen.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        return await sharing.grants.chain(who)

    from quipu.rules import grants_decisions

    made = grants_decisions.records(one.body for one in lending.lending(run, work, use=Use.READS))
    if not run.answer_json({"decisions": made}):
        rows = [[one["evaluated_at"], one["outcome"], one["explanation"]] for one in made]
        output.console().print(output.table(["at", "outcome", "why"], rows, empty="Nothing was decided yet."))
