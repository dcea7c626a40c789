"""did: what this memory and its host are known by."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from quipu.cli import lending, output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

app = typer.Typer(name="did", cls=Group, no_args_is_help=True)


@app.callback(cls=Group, rich_help_panel="Lending")
def did() -> None:
    """Show what this memory is known by to others, and change its keys.

    [bold]Example[/bold]
      quipu did show

    Keys are with the memory, so these commands work on this machine, not with --server.
    With QUIPU_PUBLIC_URL set, people are known by their address (did:web), else by
    their key (did:key).
    """


@app.command("show", cls=Command)
def show(ctx: typer.Context) -> None:
    """Show the DIDs of the owner and of the host, with their documents.

    [bold]Example[/bold]
      quipu did show --json

    See also: share, did rotate.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        return sharing.identity(who), await sharing.document(who.tenant)

    known, document = lending.here(run, "did show", work)
    if not run.answer_json({**known, "document": document}):
        console = output.console()
        console.print(f"owner  {known['owner']}", markup=False)
        console.print(f"host   {known['host']}", markup=False)


@app.command("resolve", cls=Command)
def resolve(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="DID", help="A did:web or a did:key.")]
) -> None:
    """Fetch the document of somebody's DID, and show their keys.

    [bold]Example[/bold]
      quipu did resolve did:web:contractor.example

    See also: share, did show.
    """
    run = Session.of(ctx)
    document = lending.here(
        run, "did resolve", lambda sharing, who: sharing.resolve(who, name), use=Use.READS
    )
    if not run.answer_json(dict(document)):
        methods = cast("list[Any]", document.get("verificationMethod", []))
        rows = [[method.get("id"), method.get("publicKeyJwk", {}).get("crv")] for method in methods]
        output.console().print(output.table(["key", "kind"], rows, whole=("key",)))


@app.command("rotate", cls=Command)
def rotate(
    ctx: typer.Context,
    host: Annotated[bool, typer.Option("--host", help="The host's key instead of the owner's.")] = False,
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Also suspend everything that the old key has signed.")
    ] = False,
) -> None:
    """Sign with a new key from now on; the old one stays in the document.

    [bold]Example[/bold]
      quipu did rotate --compromised

    See also: did show, grant revoke-all.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> str:
        return sharing.rotate(who, host=host, is_compromised=compromised)

    kid = lending.here(run, "did rotate", work)
    if not run.answer_json({"kid": kid}):
        output.console().print(f"Signing with {kid}", markup=False)


@app.command("trust", cls=Command)
def trust(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="DID", help="Who acts for you: a did:web or a did:key.")],
    may: Annotated[
        list[str],
        typer.Option("--may", metavar="ACTION", help="What for, such as memory_export; may be repeated."),
    ],
    minutes: Annotated[int, typer.Option("--minutes", min=1, max=10, help="For how long.")] = 10,
) -> None:
    """Give an agent a short-lived token to act in your name at this host.

    [bold]Example[/bold]
      quipu did trust did:web:helper.example --may memory_export

    An OAP Trust Token: bound to the agent's key, so nobody else can use it.
    Actions: memory_grant_create, memory_grant_revoke, memory_export, memory_import,
    memory_delete.

    See also: share, grant revoke.
    """
    run = Session.of(ctx)

    async def work(sharing: Any, who: Any) -> Any:
        return await sharing.agents.token(who, agent, may, minutes * 60)

    given = lending.here(run, "did trust", work, use=Use.MAKES)
    if not run.answer_json(given):
        output.console().print(given["access_token"], markup=False, soft_wrap=True)
