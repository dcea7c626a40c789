"""run: executions of workflows that see memory as it was when they began."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.runs_places import RunPlace, done
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.runs import RunEvent

T = TypeVar("T")
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, run_...")]
app = typer.Typer(name="run", cls=Group, no_args_is_help=True)


@app.callback(cls=Group, rich_help_panel="Memory")
def run() -> None:
    """Open, look at, fork and compare runs.

    [bold]Example[/bold]
      quipu run open nightly-report
      quipu run put run_... team/notes "The report is done" --node writer
      quipu run complete run_...
      quipu run events run_...

    A run sees memory as it was when it began: neither its own writes nor anybody else's reach into it.
    """


def _do(ctx: typer.Context, work: Callable[[RunPlace], Awaitable[T]], use: Use = Use.NEEDS) -> T:
    """Work on the runs of this machine, or of the server that was named."""
    return done(Session.of(ctx), work, use=use)


def _tell(ctx: typer.Context, told: Any) -> None:
    session = Session.of(ctx)
    if not session.answer_json(_body(told)):
        output.console().print(f"{told['runId']}  {told['status']}", markup=False, highlight=False)


def _body(told: Any) -> dict[str, Any]:
    """A run in a few words, from how the contract shows it."""
    from quipu.rules.runs_wire import moment

    ours = told["vendor.quipu"]
    return {
        "id": told["runId"],
        "workflow": told["workflowId"],
        "status": told["status"],
        "driver": ours["driver"],
        "snapshot": ours.get("memorySnapshot", {}).get("seq"),
        "events": ours["lastSequence"] + 1,
        "forked_from": ours.get("fork", {}).get("sourceRunId"),
        "created_at": moment(told["startedAt"], "/startedAt"),
    }


@app.command("open", cls=Command)
def open_run(
    ctx: typer.Context,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="What is being run; any name.")],
) -> None:
    """Begin a run that you drive yourself; it sees memory as it is now.

    [bold]Example[/bold]
      quipu run open nightly-report

    See also: run put, run complete, run fail.
    """
    _tell(ctx, _do(ctx, lambda runs: runs.open(workflow), Use.MAKES))


@app.command("put", cls=Command)
def put(
    ctx: typer.Context,
    run_id: RunId,
    ref: Annotated[
        str, typer.Argument(metavar="REF", help="The memory to write to, such as an agent's name.")
    ],
    content: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="The node that writes.")] = None,
) -> None:
    """Write an entry in a run. The run's log tells of it; the run itself does not see it.

    [bold]Example[/bold]
      quipu run put run_... team/notes "The report is done" --node writer

    See also: run see, run events.
    """
    name = _do(ctx, lambda runs: runs.put(run_id, ref, content, node))
    if not Session.of(ctx).answer_json({"id": name}):
        output.console().print(name, markup=False, highlight=False)


@app.command("see", cls=Command)
def see(
    ctx: typer.Context,
    run_id: RunId,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The memory to look at.")],
) -> None:
    """Show what a run sees: entries as they were when it began, newest first.

    [bold]Example[/bold]
      quipu run see run_... team/notes

    See also: recall --as-of run_..., run show.
    """
    entries = _do(ctx, lambda runs: runs.see(run_id, ref), Use.READS)
    if not Session.of(ctx).answer_json({"entries": entries}):
        rows = [[entry["id"], entry["createdAt"], entry["content"]] for entry in entries]
        output.console().print(
            output.table(["id", "created", "content"], rows, empty="The run sees nothing.")
        )


@app.command("complete", cls=Command)
def complete(ctx: typer.Context, run_id: RunId) -> None:
    """End a run that went well. A summary is written first.

    [bold]Example[/bold]
      quipu run complete run_...

    See also: run fail, run cancel.
    """
    _tell(ctx, _do(ctx, lambda runs: runs.complete(run_id)))


@app.command("fail", cls=Command)
def fail(
    ctx: typer.Context,
    run_id: RunId,
    message: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="What went wrong.")
    ] = "It failed.",
) -> None:
    """End a run that went wrong.

    [bold]Example[/bold]
      quipu run fail run_... --because "The source was down"

    See also: run complete.
    """
    _tell(ctx, _do(ctx, lambda runs: runs.fail(run_id, message)))


@app.command("cancel", cls=Command)
def cancel(ctx: typer.Context, run_id: RunId) -> None:
    """Ask a run to stop.

    [bold]Example[/bold]
      quipu run cancel run_...

    See also: run fail.
    """
    _tell(ctx, _do(ctx, lambda runs: runs.cancel(run_id)))


@app.command("list", cls=Command)
def list_runs(
    ctx: typer.Context,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="NAME", help="Only of this one.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="How many, at most.")] = 50,
) -> None:
    """List runs, the newest first.

    [bold]Example[/bold]
      quipu run list --workflow nightly-report

    See also: run show.
    """
    found = [_body(one) for one in _do(ctx, lambda runs: runs.list(workflow, limit), Use.READS)]
    if Session.of(ctx).answer_json({"runs": found}):
        return
    rows = [
        [one["id"], one["workflow"], one["status"], one["events"], output.when(one["created_at"])]
        for one in found
    ]
    output.console().print(
        output.table(
            ["id", "workflow", "status", "events", "began"],
            rows,
            empty="No runs yet: `quipu run open` begins one.",
        )
    )


@app.command("show", cls=Command)
def show(ctx: typer.Context, run_id: RunId) -> None:
    """Show a run: where it stands, its variables, and what it sees of memory.

    [bold]Example[/bold]
      quipu run show run_...

    See also: run events, run see.
    """
    output.write_json(_do(ctx, lambda runs: runs.show(run_id), Use.READS))


@app.command("events", cls=Command)
def events(ctx: typer.Context, run_id: RunId) -> None:
    """Show what happened in a run, in order.

    [bold]Example[/bold]
      quipu run events run_...

    See also: run show, run diff.
    """
    from quipu.rules.runs_wire import event_body

    found = _do(ctx, lambda runs: runs.events(run_id), Use.READS)
    if Session.of(ctx).answer_json({"events": [event_body(event) for event in found]}):
        return
    rows = [[event.sequence, event.type.value, event.node_id, _said(event)] for event in found]
    output.console().print(output.table(["no", "event", "node", "about"], rows))


def _said(event: RunEvent) -> str:
    return str(event.payload.get("memoryId") or event.payload.get("name") or "")


@app.command("fork", cls=Command)
def fork(
    ctx: typer.Context,
    run_id: RunId,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="replay repeats it; branch begins anew.")
    ] = "replay",
    from_seq: Annotated[int, typer.Option("--from", min=0, metavar="NO", help="The event to begin at.")] = 0,
) -> None:
    """Replay a run, writing nothing, or branch off into one that sees what the old one saw.

    [bold]Examples[/bold]
      quipu run fork run_...
      quipu run fork run_... --mode branch --from 3

    See also: run diff.
    """
    if mode not in ("replay", "branch"):
        raise InvalidError.at("/mode", "bad_value", "There is no such mode.", accepted=["replay", "branch"])
    _tell(ctx, _do(ctx, lambda runs: runs.fork(run_id, mode, from_seq)))


@app.command("diff", cls=Command)
def diff(
    ctx: typer.Context,
    run_id: RunId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run to hold it against.")],
) -> None:
    """Compare what happened in two runs; ids of entries do not count.

    [bold]Example[/bold]
      quipu run diff run_... run_...

    See also: run fork.
    """
    from quipu.rules.runs_diffs import paired

    async def work(runs: RunPlace) -> tuple[Sequence[RunEvent], Sequence[RunEvent]]:
        return await runs.events(run_id), await runs.events(other)

    pairs = paired(*_do(ctx, work, Use.READS))
    lines = [(_mark(pair.left, pair.right), pair.left or pair.right) for pair in pairs]
    body = [{"in": mark, "event": event.type.value, "node": event.node_id} for mark, event in lines if event]
    if not Session.of(ctx).answer_json({"events": body}):
        signs = {"both": " ", "first": "-", "second": "+"}
        for row in body:
            said = f"{signs[str(row['in'])]} {row['event']} {row['node'] or ''}".rstrip()
            output.console().print(said, markup=False, highlight=False)


def _mark(left: object, right: object) -> str:
    return "both" if left and right else "first" if left else "second"


@app.command("expire", cls=Command)
def expire(ctx: typer.Context, run_id: RunId) -> None:
    """Drop the log and the variables of a run that has ended. It can no longer be forked.

    [bold]Example[/bold]
      quipu run expire run_...

    QUIPU_OPENWOP_HISTORY_DAYS lets sweeps do this by themselves.
    See also: run list.
    """
    _tell(ctx, _do(ctx, lambda runs: runs.expire(run_id)))


@app.command("compact", cls=Command)
def compact(
    ctx: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The memory to compact.")],
) -> None:
    """Make one entry of several. Runs that began before still see the several.

    [bold]Example[/bold]
      quipu run compact team/notes

    See also: run see, consolidate.
    """
    made = _do(ctx, lambda runs: runs.compact(ref))
    if Session.of(ctx).answer_json({"compacted": made}):
        return
    said = "Nothing to compact." if made is None else f"{made['outputId']} speaks for {made['sourceCount']}."
    output.console().print(said, markup=False, highlight=False)
