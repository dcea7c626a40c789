"""grant requests, approve, refuse, request, requested: asking to be lent something, and answering who asks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quipu.cli import lending, output
from quipu.cli.command import Command
from quipu.cli.session import Session, Use

app = typer.Typer()

RequestId = Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, mrq_...")]
Host = Annotated[str, typer.Argument(metavar="HOST", help="Address or DID of the host that would lend.")]


@app.command("requests", cls=Command)
def requests(ctx: typer.Context) -> None:
    """List who asks you to lend them something, newest first.

    [bold]Example[/bold]
      quipu grant requests

    A request opens nothing. It lapses after a week.
    See also: grant approve, grant refuse.
    """
    run = Session.of(ctx)
    found = lending.lending(run, lambda sharing, who: sharing.requests.list(who), use=Use.READS)
    told = [
        {"id": one.id, "grantee": one.grantee, "status": one.state.value, "draft": dict(one.draft)}
        for one in found
    ]
    if run.answer_json({"requests": told}):
        return
    rows = [
        [one.id, one.grantee, one.state.value, output.when(one.asked_at), str(one.draft.get("purpose", ""))]
        for one in found
    ]
    output.console().print(
        output.table(["id", "who asks", "status", "asked", "purpose"], rows, empty="Nobody asks.")
    )


@app.command("approve", cls=Command)
def approve(
    ctx: typer.Context,
    request_id: RequestId,
    level: lending.Level = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=180, help="How long the grant lasts.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--most", min=1, help="How many different items it shows at most.")
    ] = None,
) -> None:
    """Lend what somebody has asked for, or less of it.

    [bold]Example[/bold]
      quipu grant approve mrq_... --level 1 --days 30

    What is not named stays as it was asked for; look at it first with `quipu grant requests --json`.
    See also: grant requests, grant refuse, grant revoke.
    """
    run = Session.of(ctx)
    given = {"trust_level": level, "max_items": most}
    changes = {name: value for name, value in given.items() if value is not None}
    kept = lending.lending(run, lambda sharing, who: sharing.requests.approve(who, request_id, changes, days))
    if run.answer_json({"grant": kept.body, "status": kept.status.value}):
        return
    console = output.console()
    console.print(f"Lent to {kept.grantee} as {kept.id}, until {output.when(kept.expires_at)}", markup=False)
    console.print(f"Take it back: quipu grant revoke {kept.id}", markup=False)


@app.command("refuse", cls=Command)
def refuse(ctx: typer.Context, request_id: RequestId) -> None:
    """Say no to somebody who asks.

    [bold]Example[/bold]
      quipu grant refuse mrq_...

    See also: grant requests, grant approve.
    """
    run = Session.of(ctx)
    refused = lending.lending(run, lambda sharing, who: sharing.requests.refuse(who, request_id))
    if not run.answer_json({"id": refused.id, "status": refused.state.value}):
        output.console().print(f"Refused {refused.id}", markup=False)


@app.command("request", cls=Command)
def request(
    ctx: typer.Context,
    host: Host,
    owner: Annotated[str, typer.Argument(metavar="DID", help="Whose memory it is.")],
    purpose: Annotated[str, typer.Option("--purpose", metavar="TEXT", help="What it is for.")],
    labels: lending.Labels = None,
    kinds: lending.Kinds = None,
    subjects: lending.Subjects = None,
    everything: lending.Everything = False,
    scope: lending.Scope = "personal",
    level: lending.Level = None,
) -> None:
    """Ask somebody at another host to lend you a slice of their memory.

    [bold]Example[/bold]
      quipu grant request https://memory.example.org did:web:memory.example.org:owners:dana --label website_redesign --purpose "Redesign"

    A person there answers. It takes the keys of a memory on this machine; --server does
    not go with it.
    See also: grant requested, grant ask.
    """
    run = Session.of(ctx)
    chosen = lending.filter_of(labels, kinds, subjects, everything=everything)
    draft: dict[str, Any] = {"granter": f"{owner}#{scope}", "purpose": purpose, "filter": chosen}
    if level is not None:
        draft["trust_level"] = level
    _tell(
        run,
        lending.here(
            run,
            "grant request",
            lambda sharing, who: sharing.borrowing.request(who, host, draft),
            use=Use.MAKES,
        ),
    )


@app.command("requested", cls=Command)
def requested(
    ctx: typer.Context,
    host: Host,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="What `grant request` answered, urn:oap:task:...")
    ],
) -> None:
    """Tell what became of a request, and the id of the grant if there is one.

    [bold]Example[/bold]
      quipu grant requested https://memory.example.org urn:oap:task:01J9V8B7HM3K8E2A0M9R8F0XZT

    It takes the keys of a memory on this machine; --server does not go with it.
    See also: grant request, grant ask.
    """
    run = Session.of(ctx)
    _tell(
        run,
        lending.here(
            run, "grant requested", lambda sharing, who: sharing.borrowing.requested(who, host, task)
        ),
    )


def _tell(run: Session, told: dict[str, Any]) -> None:
    if run.answer_json(told):
        return
    console = output.console()
    console.print(f"{told.get('status')}  {told.get('task_id')}", markup=False)
    if "grant" in told:
        console.print(f"Lent to you as {told['grant']['grant_id']}", markup=False)
