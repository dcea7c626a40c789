"""tenant: who has a memory of their own on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from quipu.model.access import Tenant

app = typer.Typer(name="tenant", cls=Group, no_args_is_help=True)

TenantId = Annotated[
    str, typer.Argument(metavar="TENANT", help="Its name: small letters, digits and dashes.")
]


@app.callback(cls=Group, rich_help_panel="Server")
def tenant() -> None:
    """Make, list, suspend and resume tenants.

    [bold]Example[/bold]
      quipu tenant create acme
      quipu token create assistant --tenant acme --role agent

    Tenants never see each other's memories. An embedded memory has one, `default`.
    """


@app.command("create", cls=Command)
def create(ctx: typer.Context, name: TenantId) -> None:
    """Make a tenant, with a journal and a store `main` of its own.

    [bold]Example[/bold]
      quipu tenant create acme

    See also: token create, tenant list.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.MAKES) as memory:
        made = memory.create_tenant(name)
    _answer(run, made, "Created")


@app.command("list", cls=Command)
def list_tenants(ctx: typer.Context) -> None:
    """List the tenants.

    [bold]Example[/bold]
      quipu tenant list --server https://memory.example.org

    See also: tenant create, token list.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.list_tenants()
    if run.answer_json({"tenants": [_body(tenant) for tenant in found]}):
        return
    rows = [
        [t.id, output.when(t.created_at), None if t.suspended_at is None else output.when(t.suspended_at)]
        for t in found
    ]
    output.console().print(output.table(["tenant", "created", "suspended"], rows, whole=("tenant",)))


@app.command("suspend", cls=Command)
def suspend(ctx: typer.Context, name: TenantId) -> None:
    """Let nobody of a tenant in from now on. Nothing is lost.

    [bold]Example[/bold]
      quipu tenant suspend acme

    See also: tenant resume, token revoke.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        done = memory.suspend_tenant(name)
    _answer(run, done, "Suspended")


@app.command("resume", cls=Command)
def resume(ctx: typer.Context, name: TenantId) -> None:
    """Let a suspended tenant in again.

    [bold]Example[/bold]
      quipu tenant resume acme

    See also: tenant suspend, tenant list.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        done = memory.resume_tenant(name)
    _answer(run, done, "Resumed")


def _answer(run: Session, tenant: Tenant, word: str) -> None:
    if not run.answer_json(_body(tenant)):
        output.console().print(f"{word} tenant {tenant.id}", markup=False)


def _body(tenant: Tenant) -> dict[str, Any]:
    return {"id": tenant.id, "created_at": tenant.created_at, "suspended_at": tenant.suspended_at}
