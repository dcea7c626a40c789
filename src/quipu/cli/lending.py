"""What the commands about lending share: the service of a memory on this machine, and a few options."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from quipu.cli import output
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.grants import KeptGrant
    from quipu.model.principal import Principal
    from quipu.service.sharing import Sharing

T = TypeVar("T")

Labels: TypeAlias = Annotated[
    list[str] | None, typer.Option("--label", metavar="TAG", help="Items with this tag; may be repeated.")
]
Kinds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Items of this kind, such as fact or preference."),
]
Subjects: TypeAlias = Annotated[
    list[str] | None, typer.Option("--subject", metavar="ID", help="Items about this entity.")
]
Everything: TypeAlias = Annotated[
    bool, typer.Option("--everything", help="All items of the scope, also those still to come.")
]
Scope: TypeAlias = Annotated[
    str, typer.Option("--scope", metavar="NAME", help="The scope that is lent from.")
]
Level: TypeAlias = Annotated[
    int | None,
    typer.Option("--level", min=0, max=4, help="How far the grantee is trusted: 0 stranger, 4 everything."),
]
Profile: TypeAlias = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="What is shown at which level; a name of OAP's."),
]


def here(
    run: Session,
    command: str,
    work: Callable[[Sharing, Principal], Awaitable[T]],
    *,
    use: Use = Use.NEEDS,
) -> T:
    """Do something that takes the keys of a memory, which are with the memory."""
    run.stay_here(command)
    return lending(run, work, use=use)


def lending(run: Session, work: Callable[[Any, Principal], Awaitable[T]], *, use: Use = Use.NEEDS) -> T:
    """Do something with what a memory lends, on this machine or on the server that was named."""
    from quipu import bootstrap
    from quipu.model.principal import DEFAULT_TENANT, local

    config = run.config()
    server = run.server_of(config)

    async def there(address: str) -> T:
        from quipu.memory.remote import connection

        way = connection(config, server=address)
        try:
            return await work(way.lending(bootstrap.now_ms), local())
        finally:
            await way.close()

    async def done() -> T:
        chosen = run.ready(config, use)
        running = await bootstrap.start(chosen.with_values(embedder="none"))
        try:
            await running.parts.ledger.open(DEFAULT_TENANT)
            return await work(running.service.sharing, local())
        finally:
            await running.close()

    with run.warnings():
        return asyncio.run(done() if server is None else there(server))


def filter_of(
    labels: list[str] | None, kinds: list[str] | None, subjects: list[str] | None, *, everything: bool
) -> dict[str, Any]:
    """Which items are meant; nothing at all has to be said."""
    given = {"labels_any": labels, "kinds": kinds, "subject_entity_ids": subjects}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
    if everything:
        chosen["all"] = True
    if not chosen:
        raise InvalidError(
            "Say which items are meant.",
            reason="usage",
            hint="Give --label, --kind, --subject or --everything.",
        )
    return chosen


def grant_body(kept: KeptGrant, now: int) -> dict[str, Any]:
    """A grant as JSON output tells it."""
    return {
        "grant": kept.body,
        "status": kept.standing(now).value,
        "items_disclosed": kept.disclosed,
        "uses": kept.uses,
        "revoked_at": kept.revoked_at,
    }


def grant_row(kept: KeptGrant, now: int) -> list[Any]:
    """A grant as a row of a table."""
    return [
        kept.id,
        kept.grantee,
        kept.standing(now).value,
        output.when(kept.expires_at),
        str(kept.disclosed),
        str(kept.body.get("purpose", "")),
    ]
