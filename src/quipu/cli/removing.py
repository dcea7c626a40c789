"""forget, expire, sweep: what takes memories away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quipu.cli import options, output, values
from quipu.cli.command import Command
from quipu.cli.held import leave_if_held
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.sync import Memory

app = typer.Typer()

#: Up to so many records go without a question.
FEW = 10


@app.command("forget", cls=Command, rich_help_panel="Memory")
def forget(
    ctx: typer.Context,
    records: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Records to forget.")] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="The same, as an option.")
    ] = None,
    filter: options.Filter = None,
    hard: Annotated[
        bool, typer.Option("--hard", help="Erase every version for good; nothing undoes it.")
    ] = False,
    reason: options.Reason = None,
    user: options.User = None,
    store: options.InStore = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    approve: options.Approve = False,
    key: options.Key = None,
) -> None:
    """Forget memories, or erase them with --hard.

    [bold]Examples[/bold]
      quipu forget mem_...
      quipu forget --filter '{"project": "apollo"}' --dry-run
      quipu forget mem_... --hard --reason "asked by Mara" --yes

    `quipu restore` undoes a forget; nothing undoes --hard. More than 10 records,
    and every --hard, are asked about first; where nobody can answer, --yes is needed.
    Exit codes: 0 done, 1 bad input, 2 the memory failed, 3 held for approval.
    See also: restore, expire, list.
    """
    run = Session.of(ctx)
    chosen = values.json_object(filter, "/filter")
    scope: dict[str, Any] = {
        "ids": [*(records or ()), *(ids or ())] or None,
        "filter": chosen,
        "hard_delete": hard,
        "user_id": user,
        "store": store,
    }
    with run.memory() as memory:
        if not (dry_run or yes or approve):
            _ask(run, memory, scope)
        response = memory.forget(
            **scope, reason=reason, dry_run=dry_run, approval_required=approve, idempotency_key=key
        )
    if run.is_json:
        from quipu.faces.memorywire import wire

        output.write_json(wire.ForgetReply.from_model(response, extensions=True).body())
    leave_if_held(run, response)
    if run.is_json:
        return
    told = response.extensions
    gone = output.names(told, "ids") if dry_run else list(response.forgotten_ids)
    word = ("Would erase" if hard else "Would forget") if dry_run else ("Erased" if hard else "Forgot")
    shown = output.console()
    shown.print(f"{word} {output.counted(len(gone), 'record')}", markup=False)
    for name in gone if len(gone) <= FEW or dry_run else []:
        shown.print(f"  {name}", markup=False)
    for name in output.names(told, "not_found"):
        run.note(f"not found: {name}")
    for warning in output.names(told, "warnings"):
        run.warn(warning)
    if gone and not hard and not dry_run:
        run.note("`quipu restore ID` brings one back.")


def _ask(run: Session, memory: Memory, scope: dict[str, Any]) -> None:
    """A person confirms what is large or final; where nobody can, --yes must have been given."""
    hard: bool = scope["hard_delete"]
    if not hard and scope["filter"] is None and len(scope["ids"] or ()) <= FEW:
        return
    told = memory.forget(**scope, dry_run=True).extensions
    count = len(output.names(told, "ids"))
    if not count or (not hard and count <= FEW):
        return
    what = f"{'erase' if hard else 'forget'} {output.counted(count, 'record')}"
    if not run.may_ask:
        raise InvalidError(
            f"This would {what}, and nobody can be asked.",
            reason="confirmation_required",
            hint="Look with --dry-run first, then repeat with --yes.",
        )
    end = " for good. Nothing brings them back" if hard else ""
    if not typer.confirm(f"This will {what}{end}. Go on?", err=True):
        output.notes().print("Nothing was changed.")
        raise typer.Exit(1)


@app.command("expire", cls=Command, rich_help_panel="Memory")
def expire(
    ctx: typer.Context,
    older_than_days: Annotated[
        int | None, typer.Option("--older-than-days", help="Made so long ago.")
    ] = None,
    type: Annotated[options.TypeName | None, typer.Option("--type", help="Of this type.")] = None,
    confidence_below: Annotated[
        float | None, typer.Option("--confidence-below", help="Less sure than this.")
    ] = None,
    no_recall_in_days: Annotated[
        int | None, typer.Option("--no-recall-in-days", help="Neither made nor recalled since.")
    ] = None,
    action: Annotated[
        Literal["forget", "archive", "demote"], typer.Option("--action", help="What happens to them.")
    ] = "forget",
    user: options.User = None,
    store: options.InStore = None,
    filter: options.Filter = None,
    reason: options.Reason = None,
    dry_run: options.DryRun = False,
    approve: options.Approve = False,
    key: options.Key = None,
) -> None:
    """Forget, archive or demote what a policy matches.

    [bold]Examples[/bold]
      quipu expire --no-recall-in-days 90 --confidence-below 0.5 --dry-run
      quipu expire --older-than-days 365 --type episodic --action archive
      quipu expire --no-recall-in-days 30 --action demote

    All conditions must hold. Every action can be undone with `quipu restore`.
    Exit codes: 0 done, 1 bad input, 2 the memory failed, 3 held for approval.
    See also: forget, restore, sweep.
    """
    run = Session.of(ctx)
    given = {
        "older_than_days": older_than_days,
        "type": type,
        "confidence_below": confidence_below,
        "no_recall_in_days": no_recall_in_days,
    }
    chosen = values.json_object(filter, "/filter")
    with run.memory() as memory:
        response = memory.expire(
            {name: value for name, value in given.items() if value is not None},
            action=action,
            user_id=user,
            store=store,
            filter=chosen,
            reason=reason,
            dry_run=dry_run,
            approval_required=approve,
            idempotency_key=key,
        )
    if run.is_json:
        from quipu.faces.memorywire import wire

        output.write_json(wire.ExpireReply.from_model(response, extensions=True).body())
    leave_if_held(run, response)
    if run.is_json:
        return
    told = response.extensions
    matched = output.names(told, "ids")
    done = {"forget": "Forgot", "archive": "Archived", "demote": "Demoted"}[action]
    count = len(matched) if dry_run else response.matched_count
    word = f"Would {action}" if dry_run else done
    shown = output.console()
    shown.print(f"{word} {output.counted(count, 'record')}", markup=False)
    for name in matched if dry_run else []:
        shown.print(f"  {name}", markup=False)


@app.command("sweep", cls=Command, rich_help_panel="Upkeep")
def sweep(ctx: typer.Context) -> None:
    """Close for good what has expired.

    [bold]Example[/bold]
      quipu sweep

    Expired memories are invisible already; this tidies up.
    See also: remember --expires, expire, vacuum.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        closed = memory.sweep()
    if not run.answer_json({"closed": closed}):
        output.console().print(f"Closed {output.counted(closed, 'expired record')}", markup=False)
