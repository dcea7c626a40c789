"""token: who may come in, as whom, and how far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output, values
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use
from quipu.model.access import Role
from quipu.model.principal import Permission

if TYPE_CHECKING:
    from quipu.model.access import IssuedToken, Token

app = typer.Typer(name="token", cls=Group, no_args_is_help=True)

TokenId = Annotated[str, typer.Argument(metavar="ID", help="A token's id, tok_...")]
OfTenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="TENANT", help="Another tenant's; for those who run the server."),
]


@app.callback(cls=Group, rich_help_panel="Server")
def token() -> None:
    """Make, list, revoke and rotate the tokens that open a memory.

    [bold]Example[/bold]
      quipu token create assistant --role agent --agent 'shop-*' --expires 90d
      QUIPU_TOKEN=qp_... quipu recall "..." --server https://memory.example.org

    Only a hash of a token is kept: its text is shown once, when it is made.
    """


@app.command("create", cls=Command)
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom the journal will name.")],
    role: Annotated[
        list[Role] | None, typer.Option("--role", help="What it is for; may be repeated.")
    ] = None,
    scope: Annotated[
        list[Permission] | None,
        typer.Option("--scope", help="A single permission, beside or instead of roles; may be repeated."),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="PATTERN", help="Agents it may act for, such as 'shop-*'; may be repeated."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="The only user whose memories it may touch.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="WHEN", help="When it ends: 90d, 12h, an ISO time, or milliseconds."
        ),
    ] = None,
    rate: Annotated[int | None, typer.Option("--rate", min=1, metavar="N", help="Requests a minute.")] = None,
    recall_budget: Annotated[
        int | None,
        typer.Option("--recall-budget", min=1, metavar="N", help="Memories it may be given an hour."),
    ] = None,
    review_stores: Annotated[
        list[str] | None,
        typer.Option(
            "--review-store",
            metavar="PATTERN",
            help="Of a reviewer: the stores it decides on; may be repeated. Without it, all.",
        ),
    ] = None,
    review_operations: Annotated[
        list[str] | None,
        typer.Option(
            "--review-operation",
            metavar="NAME",
            help="Of a reviewer: the operations it decides on, such as remember; may be repeated.",
        ),
    ] = None,
    tenant: OfTenant = None,
) -> None:
    """Make a token and show its text, this once.

    [bold]Examples[/bold]
      quipu token create assistant --role agent --expires 90d
      quipu token create shop --role agent --agent 'shop-*' --rate 600
      quipu token create mara --role reviewer
      quipu token create nils --role reviewer --review-store 'shop-*' --review-operation remember
      quipu token create root --role admin --role operator --json

    Roles: agent reads, writes and forgets; reviewer decides on held writes; admin may everything in a
    tenant; operator runs the server and reads nobody's memories.
    See also: token rotate, token revoke, whoami.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import now_ms

    ends = values.expires(expires, now_ms())
    with run.memory(use=Use.MAKES) as memory:
        issued = memory.create_token(
            name,
            roles=role or (),
            permissions=scope or (),
            agents=agents or ("*",),
            user_id=user,
            expires_at=ends,
            rate=rate,
            recall_budget=recall_budget,
            review_stores=review_stores or ("*",),
            review_operations=review_operations or ("*",),
            tenant=tenant,
        )
    _show_once(run, issued, "Created")


@app.command("list", cls=Command)
def list_tokens(ctx: typer.Context, tenant: OfTenant = None) -> None:
    """List the tokens, also ended ones, without their texts.

    [bold]Example[/bold]
      quipu token list

    See also: token create, token revoke.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.list_tokens(tenant=tenant)
    if run.answer_json({"tokens": [_body(token) for token in found]}):
        return
    columns = ["id", "name", "begins", "may", "agents", "user", "ends", "made by"]
    rows = [
        [
            t.id,
            t.name,
            f"{t.prefix}...",
            ", ".join(sorted(t.permissions)),
            ", ".join(t.agents),
            t.user_id,
            _end(t),
            t.created_by,
        ]
        for t in found
    ]
    output.console().print(
        output.table(
            columns, rows, whole=("id", "begins"), empty="No tokens yet: `quipu token create NAME` makes one."
        )
    )


@app.command("revoke", cls=Command)
def revoke(ctx: typer.Context, id: TokenId, tenant: OfTenant = None) -> None:
    """End a token now.

    [bold]Example[/bold]
      quipu token revoke tok_...

    See also: token rotate, tenant suspend.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        ended = memory.revoke_token(id, tenant=tenant)
    if not run.answer_json(_body(ended)):
        output.console().print(f"Revoked token {ended.name}  {ended.id}", markup=False)


@app.command("rotate", cls=Command)
def rotate(
    ctx: typer.Context,
    id: TokenId,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace", metavar="TIME", help="How long the old text stays good: 10m, 1d. Else it ends now."
        ),
    ] = None,
    tenant: OfTenant = None,
) -> None:
    """Give a token a new text, shown this once; its rights stay.

    [bold]Examples[/bold]
      quipu token rotate tok_...
      quipu token rotate tok_... --grace 1d            for those who still use the old one

    See also: token revoke, token list.
    """
    run = Session.of(ctx)
    grace_ms = 0 if grace is None else values.length(grace, "/grace")
    with run.memory() as memory:
        issued = memory.rotate_token(id, grace_ms=grace_ms, tenant=tenant)
    _show_once(run, issued, "Rotated")


def _show_once(run: Session, issued: IssuedToken, word: str) -> None:
    if run.answer_json({"token": _body(issued.token), "text": issued.text}):
        return
    shown = output.console()
    if run.is_quiet:
        shown.print(issued.text, markup=False, soft_wrap=True)
        return
    shown.print(f"{word} token {issued.token.name}  {issued.token.id}", markup=False)
    shown.print(issued.text, markup=False, highlight=False, soft_wrap=True)
    run.note("This is shown once. Keep it as you keep a password, for example in QUIPU_TOKEN.")


def _end(token: Token) -> str | None:
    if token.revoked_at is not None:
        return f"revoked {output.when(token.revoked_at)}"
    return None if token.expires_at is None else output.when(token.expires_at)


def _body(token: Token) -> dict[str, Any]:
    return {
        "tenant": token.tenant,
        "id": token.id,
        "name": token.name,
        "prefix": token.prefix,
        "permissions": sorted(token.permissions),
        "agents": list(token.agents),
        "user_id": token.user_id,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "rate": token.rate,
        "recall_budget": token.recall_budget,
        "review_stores": list(token.review_stores),
        "review_operations": list(token.review_operations),
    }
