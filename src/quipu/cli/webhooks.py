"""webhook: other machines that are told of held writes and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from quipu.model.notices import Webhook

app = typer.Typer(name="webhook", cls=Group, no_args_is_help=True)

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="A webhook's id, whk_...")]


@app.callback(cls=Group, rich_help_panel="Server")
def webhook() -> None:
    """Tell other machines of writes that wait for a person, and of decisions.

    [bold]Example[/bold]
      quipu webhook add https://hooks.example.org/quipu
      quipu webhook list

    A server sends notices; each is signed, and tried again until it arrives. A notice names a held write and tells
    nothing of its text, unless --with-content was given.
    """


@app.command("add", cls=Command)
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where notices are sent, https://...")],
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="NAME", help="proposal.held, proposal.decided; may be repeated."),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="PATTERN", help="Only of these agents, such as 'shop-*'."),
    ] = None,
    with_content: Annotated[
        bool, typer.Option("--with-content", help="Send the held write itself, not only its name.")
    ] = False,
) -> None:
    """Tell an address from now on, and show the key of its signatures, this once.

    [bold]Examples[/bold]
      quipu webhook add https://hooks.example.org/quipu
      quipu webhook add https://hooks.example.org/quipu --event proposal.held --agent 'shop-*'

    Needs memory:admin. Addresses inside your own network are refused when a notice is sent, unless QUIPU_WEBHOOK_HOSTS
    names the host. See also: webhook ping, webhook remove.
    """
    run = Session.of(ctx)
    given: dict[str, Any] = {"with_content": with_content}
    if event:
        given["events"] = event
    if agents:
        given["agents"] = agents
    with run.memory(use=Use.MAKES) as memory:
        issued = memory.add_webhook(url, **given)
    if run.answer_json({**_body(issued.webhook), "key": issued.key}):
        return
    output.console().print(f"{issued.webhook.id}  {issued.webhook.url}", markup=False)
    output.console().print(f"key  {issued.key}", markup=False)
    run.note("Notices are signed with this key. It is not shown again.")


@app.command("list", cls=Command)
def list_webhooks(ctx: typer.Context) -> None:
    """List where notices go, and how they are getting on.

    [bold]Example[/bold]
      quipu webhook list

    See also: webhook add, webhook ping, webhook remove.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.list_webhooks()
    if run.answer_json({"webhooks": [_body(one) for one in found]}):
        return
    if not found:
        run.note("Nobody is told.")
        return
    columns = ["id", "url", "events", "agents", "told up to", "tries", "last error", "given up"]
    rows = [
        [
            one.id,
            one.url,
            ", ".join(one.events),
            ", ".join(one.agents),
            str(one.position),
            str(one.attempts),
            one.error or "",
            str(one.dropped),
        ]
        for one in found
    ]
    output.console().print(output.table(columns, rows))


@app.command("remove", cls=Command)
def remove(ctx: typer.Context, webhook_id: WebhookId) -> None:
    """Tell an address nothing more.

    [bold]Example[/bold]
      quipu webhook remove whk_...

    See also: webhook list.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        memory.remove_webhook(webhook_id)
    if not run.answer_json({"id": webhook_id, "removed": True}):
        output.console().print(f"Removed {webhook_id}", markup=False)


@app.command("ping", cls=Command)
def ping(ctx: typer.Context, webhook_id: WebhookId) -> None:
    """Send a notice of nothing, to see that it arrives.

    [bold]Example[/bold]
      quipu webhook ping whk_...

    See also: webhook list.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        memory.ping_webhook(webhook_id)
    if not run.answer_json({"id": webhook_id, "arrived": True}):
        output.console().print(f"It arrived at {webhook_id}", markup=False)


def _body(one: Webhook) -> dict[str, Any]:
    return {
        "id": one.id,
        "url": one.url,
        "events": list(one.events),
        "agents": list(one.agents),
        "with_content": one.with_content,
        "created_at": one.created_at,
        "created_by": one.created_by,
        "position": one.position,
        "attempts": one.attempts,
        "next_at": one.next_at,
        "error": one.error,
        "dropped": one.dropped,
    }
